// GEMMs as calls: sizes, the way from a call back to its problem, the reference's answer, and how it is explained.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "properties/core/check.h"
#include "properties/operations/matmul/definitions.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "tests/properties/operations/matmul/some_matmuls.h"

namespace mxcheck {
namespace {

constexpr const char* kPromotedByFp32 =
    "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=128x128 scales=fp32 ";
constexpr const char* kExact = "op=matmul:exact format=e4m3 format_b=e5m2 block=none block_b=none scales=none ";

TEST(MatmulProblems, inputs_are_those_of_the_variant_and_the_case) {
  for (const Case& c : test::some_matmuls()) {
    const Call call = MatmulProblem(c).call();
    const MatmulVariant& v = matmul_of(c.variant);
    const std::size_t inputs = 2U + (v.scales != MXCHECK_NO_SCALES ? 2U : 0U) + (matmul_case(c).adds ? 1U : 0U) +
                               (v.groups != MXCHECK_DENSE ? 1U : 0U) + (c.gather != 0 ? 1U : 0U);
    EXPECT_EQ(call.inputs.size(), inputs) << to_text(c);
    EXPECT_EQ(call.inputs[0].shape[0], c.gather != 0 ? c.gather : c.rows);
    EXPECT_EQ(matmul_case(MatmulProblem(call).c), matmul_case(c)) << to_text(c);
  }
}

TEST(MatmulProblems, the_policy_says_what_the_case_says) {
  const Case c = parse_case(std::string(kPromotedByFp32) +
                            "groups=rows d=bf16 rows=9 cols=5 depth=256 experts=0,4,9 data=normal seed=1 adds=1 "
                            "alpha=0.5 threads=2");
  const Policy packed = operation_named(c.variant.operation).policy(c);
  const auto p = read<mxcheck_matmul_policy>(packed);
  EXPECT_EQ(p.policy.size, sizeof(mxcheck_matmul_policy));
  EXPECT_STREQ(p.policy.format, "e4m3");
  EXPECT_STREQ(p.format_b, "e4m3");
  EXPECT_EQ(p.policy.rows, 9);
  EXPECT_EQ(p.policy.cols, 5);
  EXPECT_EQ(p.depth, 256);
  EXPECT_EQ(p.policy.block_rows, 1);
  EXPECT_EQ(p.policy.block_cols, 128);
  EXPECT_EQ(p.block_b_rows, 128);
  EXPECT_EQ(p.block_b_cols, 128);
  EXPECT_EQ(p.scale_type, MXCHECK_FP32);
  EXPECT_EQ(p.grouping, MXCHECK_ROWS);
  EXPECT_EQ(p.accumulate, 1);
  EXPECT_EQ(p.alpha, 0.5F);
  EXPECT_EQ(p.policy.threads, 2);
}

// Integers, so that the sums here are exact in any order.
void expect_integer_sums(const std::string& fields) {
  const Case c = parse_case(kExact + fields);
  const MatmulProblem p(c);
  const std::vector<float> d = values_in<float>(p.answer()[0].bytes);
  const auto add = matmul_case(c).adds ? values_in<float>(p.c_values) : std::vector<float>(d.size());
  const std::int64_t depth = matmul_case(c).depth;
  const bool by_depth = matmul_of(c.variant).groups == MXCHECK_DEPTH;
  const std::size_t groups = c.experts.empty() ? 1 : c.experts.size() - 1;
  const auto code = [](const std::vector<std::byte>& x, std::int64_t at) {
    return std::to_integer<std::uint32_t>(x[static_cast<std::size_t>(at)]);
  };
  for (std::size_t e = 0; e < groups; ++e) {
    const std::int64_t begin = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    for (std::int64_t i = by_depth ? 0 : begin; i < (by_depth ? c.rows : end); ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        const std::int64_t row_of_a = c.gather != 0 ? p.index[static_cast<std::size_t>(i)] : i;
        const std::int64_t row_of_b = by_depth ? j : static_cast<std::int64_t>(e) * c.cols + j;
        const std::int64_t row_of_d = by_depth ? static_cast<std::int64_t>(e) * c.rows + i : i;
        const auto at = static_cast<std::size_t>(row_of_d * c.cols + j);
        double sum = 0;
        for (std::int64_t k = by_depth ? begin : 0; k < (by_depth ? end : depth); ++k)
          sum += decode(Format::e4m3, code(p.a, row_of_a * depth + k)) *
                 decode(Format::e5m2, code(p.b, row_of_b * depth + k));
        ASSERT_EQ(d[at], sum + static_cast<double>(add[at])) << fields << " at " << row_of_d << ", " << j;
      }
    }
  }
}

// NVFP4: the answer is that of BF16 operands that are code times scale, which BF16 holds; a scale's sign counts for
// nothing, and neither does the nibble after an odd k.
void expect_decoded(const std::string& fields) {
  const Case c = parse_case(std::string("op=matmul:sm90_bf16+decode format=e2m1 format_b=e2m1 block=1x16 "
                                        "block_b=1x16 scales=e4m3 ") +
                            fields);
  EXPECT_EQ(parse_case(to_text(c)), c);
  const MatmulProblem p(c);
  ASSERT_EQ(MatmulProblem(p.call()).answer()[0].bytes, p.answer()[0].bytes) << fields;
  const std::int64_t depth = matmul_case(c).depth, blocks = (depth + 15) / 16;
  EXPECT_EQ(p.inputs()[0].tensor.shape.back(), (depth + 1) / 2);
  const auto decoded = [&](const std::vector<std::byte>& packed, const std::vector<std::byte>& scales) {
    std::vector<std::uint16_t> words;
    const std::vector<std::uint8_t> codes = unpacked_rows(packed, depth);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(depth), k = i % static_cast<std::size_t>(depth);
      const std::byte scale = scales[row * static_cast<std::size_t>(blocks) + k / 16];
      const double value =
          decode(Format::e2m1, codes[i]) * decode(Format::e4m3, static_cast<std::uint32_t>(scale & std::byte{0x7F}));
      const std::uint32_t word = encode(Format::bf16, value, Rounding::nearest_even, Overflow::non_saturate);
      EXPECT_TRUE(std::isnan(value) || decode(Format::bf16, word) == value);
      words.push_back(static_cast<std::uint16_t>(word));
    }
    return to_bytes(words);
  };
  Case plain = c;
  plain.variant.operation = "matmul:sm90_bf16";
  MatmulVariant& v = matmul_of(plain.variant);
  v.format = v.format_b = Format::bf16, v.scales = MXCHECK_NO_SCALES, v.block = v.block_b = {0, 0};
  MatmulProblem of_bf16(plain);
  of_bf16.a = decoded(p.packed_a, p.scales_a), of_bf16.b = decoded(p.packed_b, p.scales_b);
  of_bf16.c_values = p.c_values;
  EXPECT_EQ(of_bf16.answer()[0].bytes, p.answer()[0].bytes) << fields;
}

TEST(MatmulProblems, nvfp4_operands_are_packed_and_decoded_to_bf16) {
  for (const char* fields : {"groups=none d=fp32 rows=9 cols=5 depth=70 data=normal seed=1",
                             "groups=none d=bf16 rows=12 cols=12 depth=16 data=every_row seed=1",
                             "groups=rows d=fp32 rows=9 cols=5 depth=48 experts=0,4,4,9 data=bits seed=2 alpha=0.25",
                             "groups=none d=fp32 rows=4 cols=6 depth=33 data=specials seed=3 adds=1"})
    expect_decoded(fields);
}

TEST(MatmulProblems, the_nibble_after_an_odd_depth_holds_anything) {
  const MatmulProblem p(
      parse_case("op=matmul:sm90_bf16+decode format=e2m1 format_b=e2m1 block=1x16 block_b=1x16 scales=e4m3 groups=none "
                 "d=fp32 rows=64 cols=1 depth=1 data=normal seed=1"));
  std::set<std::byte> high;
  for (const std::byte b : p.packed_a) high.insert(b >> 4);
  EXPECT_GT(high.size(), 8U);
}

// UE4M3 scales where the tensor core takes them.
TEST(MatmulVariants, nvfp4_is_asked_for_where_a_contract_has_it) {
  const auto count = [](const char* operation) {
    const std::vector<Variant> all = askable_matmuls(operation);
    return std::ranges::count_if(all, [](const Variant& v) { return matmul_of(v).scales == MXCHECK_E4M3; });
  };
  EXPECT_EQ(count("matmul:sm90_bf16+decode"), 8);  // dense, three kinds of groups; BF16, FP32
  EXPECT_EQ(count("matmul:sm100_nvf4"), 8);
  EXPECT_EQ(count("matmul:sm100_mxf4"), 0);
  EXPECT_EQ(count("matmul:sm90_fp8+promote128"), 0);
}

TEST(MatmulProblems, answers_are_the_sums_dense_and_in_groups) {
  expect_integer_sums("groups=none d=fp32 rows=9 cols=5 depth=70 data=codes seed=1");
  expect_integer_sums("groups=none d=fp32 rows=9 cols=5 depth=70 gather=4 data=codes seed=2 adds=1");
  expect_integer_sums("groups=rows d=fp32 rows=9 cols=5 depth=70 experts=0,4,4,9 data=codes seed=3");
  expect_integer_sums("groups=depth d=fp32 rows=9 cols=5 depth=70 experts=0,32,32,70 data=codes seed=4 adds=1");
}

TEST(MatmulProblems, one_hot_rows_pick_columns_of_the_other_operand) {
  const Case c = parse_case(std::string(kExact) + "groups=none d=fp32 rows=9 cols=5 depth=70 data=every_word seed=6");
  const MatmulProblem p(c);
  const std::vector<float> d = values_in<float>(p.answer()[0].bytes);
  for (std::size_t i = 0; i < 9; ++i) {
    for (std::size_t j = 0; j < 5; ++j)
      EXPECT_EQ(d[i * 5 + j], decode(Format::e5m2, std::to_integer<std::uint32_t>(p.b[j * 70 + i + 3])));
  }
}

Finding wrong_at(const MatmulProblem& p, std::size_t element) {
  const ExpectedTensor expected = p.answer()[0];
  std::vector<std::byte> observed = expected.bytes;
  observed.at(element * bytes_of_element(expected.info)) ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  return f;
}

TEST(MatmulProblems, an_output_is_explained_by_its_steps_of_which_the_middle_is_left_out) {
  const std::string fields = "groups=none d=fp32 rows=9 cols=5 data=normal seed=1 depth=";
  for (const char* depth : {"256", "4096"}) {
    const MatmulProblem p(parse_case(kPromotedByFp32 + fields + depth));
    Finding f = wrong_at(p, 17);
    EXPECT_EQ(p.explain_steps(f), f.difference->first.expected);
    ASSERT_GE(f.element.size(), 3U);
    EXPECT_EQ(f.element[0], "expected, under sm90_fp8+promote128:");
    EXPECT_LE(f.element.size(), 1U + 25U + 2U);
    const bool cut = std::find(f.element.begin(), f.element.end(), "  ...") != f.element.end();
    EXPECT_EQ(cut, std::string(depth) == "4096");
    EXPECT_TRUE(f.element[f.element.size() - 2].starts_with("expected  0x"));
    EXPECT_TRUE(f.element.back().starts_with("observed  0x"));
  }
}

TEST(MatmulProblems, an_output_of_a_group_along_depth_is_explained_in_its_group) {
  const MatmulProblem p(parse_case(std::string(kPromotedByFp32) +
                                   "groups=depth d=fp32 rows=9 cols=5 depth=384 experts=0,128,384 data=normal seed=1"));
  Finding f = wrong_at(p, (9 + 2) * 5 + 3);  // row 2 of the second group
  ASSERT_TRUE(f.difference);
  EXPECT_EQ(f.difference->first.row, 11);
  EXPECT_EQ(p.explain_steps(f), f.difference->first.expected);
}

// The lines of a finding about a D that follows another definition.
std::vector<std::string> matches_of(const MatmulProblem& p, const Bytes& observed) {
  Finding finding;
  tell_matches(p, p.answer(), {observed}, finding);
  return finding.matches;
}

TEST(MatmulProblems, other_contracts_and_split_k_are_named) {
  const std::string shape = "d=fp32 rows=9 cols=5 depth=512 data=normal seed=1 ";
  for (const std::string& groups : {"groups=none " + shape, "groups=rows experts=0,4,4,9 " + shape}) {
    const MatmulProblem p(parse_case(kPromotedByFp32 + groups));
    for (const std::string name :
         {"sm90_fp8+promote64", "sm90_fp8+promote128+a_first", "sm90_fp8+promote128+descending",
          "sm100_f8f6f4+promote128", "sm90_fp8+promote128, split-k of 2 in parts of 256",
          "sm90_fp8+promote128, split-k of 4 in parts of 128, added pairwise"}) {
      const Bytes observed = answer_of_product(name, p.matmul(p.contract()));
      EXPECT_EQ(matches_of(p, observed), std::vector<std::string>{name}) << groups;
    }
    EXPECT_TRUE(matches_of(p, p.answer()[0].bytes).empty());
  }
  const MatmulProblem halved(
      parse_case("op=matmul:ieee_fp32 format=bf16 format_b=bf16 block=none block_b=none "
                 "scales=none groups=none alpha=0.5 " +
                 shape));
  const std::string split = "ieee_fp32, split-k of 3 in parts of 171";
  EXPECT_EQ(matches_of(halved, answer_of_product(split, halved.matmul(halved.contract()))),
            std::vector<std::string>{split});
}

TEST(MatmulProblems, every_slip_is_named) {
  const auto expect_all = [](const MatmulProblem& p, const std::vector<std::string>& names) {
    const Table slips = product_slips(p.matmul(p.contract()));
    std::vector<std::string> found;
    for (const Definition& slip : slips) {
      found.push_back(slip.name);
      const Bytes bytes = bytes_of_row(slip, 0);
      if (bytes == p.answer()[0].bytes) continue;  // these values don't show it
      const std::vector<std::string> matches = matches_of(p, bytes);
      EXPECT_TRUE(std::ranges::find(matches, slip.name) != matches.end()) << slip.name;
    }
    for (const std::string& name : names) EXPECT_TRUE(std::ranges::find(found, name) != found.end()) << name;
  };
  const std::string shape = "rows=9 cols=5 depth=384 data=normal seed=1 ";
  const std::vector<std::string> of_scales{"A's scales taken as 1", "A's scales taken from the block of k before",
                                           "B's scales taken as 1", "B's scales taken from the block of k before"};
  const auto with = [](std::vector<std::string> names, const std::vector<std::string>& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  expect_all(MatmulProblem(parse_case(kPromotedByFp32 + ("groups=rows d=bf16 experts=0,4,9 " + shape))),
             with({"D cut to BF16 in place of rounded", "the last block of 128 of k left out"}, of_scales));
  expect_all(MatmulProblem(
                 parse_case(kPromotedByFp32 + ("groups=depth d=fp32 experts=0,128,384 " + shape + "adds=1 alpha=0.5"))),
             with({"C not added", "alpha of 1", "a group without terms left with what the group before it has",
                   "e4m3 codes of B read as e5m2"},
                  of_scales));
}

TEST(MatmulProblems, scale_bytes_that_are_misread_are_named) {
  const MatmulProblem p(parse_case(
      "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=e8m0 groups=none "
      "d=fp32 rows=9 cols=5 depth=384 data=normal seed=1"));
  for (const Definition& slip : product_slips(p.matmul(p.contract()))) {
    if (slip.name != "A's scale bytes taken for numbers" && slip.name != "the reciprocals of B's scales") continue;
    EXPECT_EQ(matches_of(p, slip.bytes(0)), std::vector<std::string>{slip.name});
  }
}

}  // namespace

// Operands, scales and C of GEMMs: what each distribution is for.

namespace {

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kDepth = 160;
constexpr std::uint64_t kA = 0xA;  // salts of the two operands
constexpr std::uint64_t kB = 0xB;

Case make_case(Data data, std::uint64_t seed = 1, int scales = MXCHECK_NO_SCALES) {
  Case c;
  c.variant.operation = "matmul:exact", c.variant.dtype = Format::fp32;
  matmul_of(c.variant).scales = scales;
  c.data = data, c.seed = seed;
  return c;
}

std::vector<double> values_of(const Case& c, Format format, std::uint64_t salt, std::int64_t rows = kRows) {
  const std::vector<std::byte> bytes = expand_operand(c, format, salt, rows, kDepth);
  const std::size_t width = static_cast<std::size_t>(spec(format).bits) / 8;
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint32_t code = 0;
    std::memcpy(&code, bytes.data() + at, width);
    values.push_back(decode(format, code));
  }
  return values;
}

TEST(ExpandMatmul, is_a_function_of_case_operand_and_place) {
  for (const Data data : {Data::normal, Data::boundaries, Data::bits, Data::wide, Data::specials, Data::slots}) {
    const Case c = make_case(data);
    const auto few = expand_operand(c, Format::e4m3, kA, 3, kDepth);
    const auto many = expand_operand(c, Format::e4m3, kA, 9, kDepth);
    EXPECT_EQ(few, expand_operand(c, Format::e4m3, kA, 3, kDepth)) << to_text(data);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin())) << to_text(data);
    EXPECT_NE(many, expand_operand(c, Format::e4m3, kB, 9, kDepth)) << to_text(data);
    EXPECT_NE(many, expand_operand(make_case(data, 3), Format::e4m3, kA, 9, kDepth)) << to_text(data);
  }
}

TEST(ExpandMatmul, codes_are_the_integers_from_minus_two_to_two) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::fp32}) {
    const std::vector<double> values = values_of(make_case(Data::codes), format, kA);
    EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{-2, -1, 0, 1, 2}));
  }
}

TEST(ExpandMatmul, only_bits_and_specials_hold_what_is_not_finite) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::fp16, Format::fp32}) {
    for (const Data data : {Data::normal, Data::boundaries, Data::wide, Data::sparse, Data::slots, Data::every_word}) {
      for (const double value : values_of(make_case(data), format, kA)) ASSERT_TRUE(std::isfinite(value));
    }
    const std::vector<double> specials = values_of(make_case(Data::specials), format, kA, 400);
    EXPECT_TRUE(std::any_of(specials.begin(), specials.end(), [](double v) { return std::isnan(v); }));
    const bool has_infinity = std::any_of(specials.begin(), specials.end(), [](double v) { return std::isinf(v); });
    EXPECT_EQ(has_infinity, format != Format::e4m3);  // which has none
  }
  const std::vector<std::byte> bits = expand_operand(make_case(Data::bits), Format::e4m3, kA, kRows, kDepth);
  EXPECT_EQ(std::set<std::byte>(bits.begin(), bits.end()).size(), 256U);
}

TEST(ExpandMatmul, boundaries_nearly_cancel_in_pairs) {
  const std::vector<double> values = values_of(make_case(Data::boundaries), Format::bf16, kA);
  std::size_t opposite = 0;
  for (std::size_t i = 0; i < values.size(); i += 2) opposite += values[i] != 0 && values[i] == -values[i + 1] ? 1 : 0;
  // Three pairs of 5120 in four, whose standard deviation is sqrt(5120 * 3 / 16) = 31: five are 155. The rest of the
  // bound is for the others, 1280 pairs of 15 values and 4 exponents, some of which are opposite by accident.
  EXPECT_NEAR(static_cast<double>(opposite), 3840, 200);
}

TEST(ExpandMatmul, sparse_operands_are_one_code_in_32) {
  const std::vector<double> values = values_of(make_case(Data::sparse), Format::e4m3, kA, 400);
  const auto nonzero = std::count_if(values.begin(), values.end(), [](double v) { return v != 0; });
  // One in 32 of 64,000: five times sqrt(64,000 * 31 / 32^2) = 44, and some of those round to zero.
  EXPECT_NEAR(static_cast<double>(nonzero), 2000, 250);
}

TEST(ExpandMatmul, every_word_has_one_one_hot_operand) {
  for (const std::uint64_t seed : {0U, 6U, 7U, 401U}) {
    const Case c = make_case(Data::every_word, seed);
    const std::uint64_t one_hot = seed % 2 == 0 ? kA : kB;
    const std::vector<double> values = values_of(c, Format::e4m3, one_hot);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::int64_t at = (r + static_cast<std::int64_t>(seed / 2)) % kDepth;
      for (std::int64_t k = 0; k < kDepth; ++k)
        ASSERT_EQ(values[static_cast<std::size_t>(r * kDepth + k)], k == at ? 1 : 0) << seed << ": " << r << ' ' << k;
    }
    for (const double v : values_of(c, Format::e4m3, one_hot == kA ? kB : kA)) ASSERT_NE(v, 0);
  }
}

TEST(ExpandMatmul, slots_tell_neighbouring_k_rows_and_blocks_apart) {
  const std::vector<double> values = values_of(make_case(Data::slots), Format::e4m3, kA);
  const auto at = [&](std::int64_t r, std::int64_t k) { return values[static_cast<std::size_t>(r * kDepth + k)]; };
  for (std::int64_t r = 1; r < kRows; ++r) {
    for (std::int64_t k = 32; k < kDepth; ++k) {
      ASSERT_NE(at(r, k), at(r, k - 1));
      ASSERT_NE(at(r, k), at(r - 1, k));
      ASSERT_NE(at(r, k), at(r, k - 32));
    }
  }
}

TEST(ExpandMatmul, scale_bytes_are_those_that_the_data_needs) {
  const auto bytes = [](Data data) {
    return values_in<std::uint8_t>(expand_operand_scales(make_case(data, 1, MXCHECK_E8M0), kA, 256, 40));
  };
  for (const std::uint8_t byte : bytes(Data::codes)) ASSERT_EQ(byte, 127);
  for (const std::uint8_t byte : bytes(Data::normal)) ASSERT_TRUE(byte >= 107 && byte <= 147) << int{byte};
  const std::vector<std::uint8_t> wide = bytes(Data::wide);
  EXPECT_EQ(std::set<std::uint8_t>(wide.begin(), wide.end()).size(), 255U);
  EXPECT_EQ(std::count(wide.begin(), wide.end(), 255), 0);
  const std::vector<std::uint8_t> specials = bytes(Data::specials);
  for (const int extreme : {0, 254, 255}) EXPECT_GT(std::count(specials.begin(), specials.end(), extreme), 40);
  const std::vector<std::uint8_t> slots = bytes(Data::slots);
  for (std::size_t i = 0; i < slots.size(); ++i) ASSERT_EQ(slots[i], i / 40);
}

TEST(ExpandMatmul, e4m3_scales_are_those_that_the_data_needs) {
  const auto bytes = [](Data data) {
    return values_in<std::uint8_t>(expand_operand_scales(make_case(data, 1, MXCHECK_E4M3), kA, 256, 40));
  };
  for (const std::uint8_t byte : bytes(Data::codes)) ASSERT_EQ(byte, 0x38);
  const std::vector<std::uint8_t> bits = bytes(Data::bits), specials = bytes(Data::specials);
  EXPECT_EQ(std::set<std::uint8_t>(bits.begin(), bits.end()).size(), 256U);
  for (const int special : {0, 0x7F, 0x80, 0xFF, 0x7E, 0x01})
    EXPECT_GT(std::count(specials.begin(), specials.end(), special), 40) << special;
  for (const std::uint8_t byte : bytes(Data::wide)) ASSERT_LT(byte, 0x7F);
}

TEST(ExpandMatmul, fp32_scales_have_the_exponents_of_the_bytes) {
  for (const Data data : {Data::normal, Data::wide, Data::slots}) {
    const auto bytes = values_in<std::uint8_t>(expand_operand_scales(make_case(data, 1, MXCHECK_E8M0), kA, 256, 9));
    const auto words = values_in<std::uint32_t>(expand_operand_scales(make_case(data, 1, MXCHECK_FP32), kA, 256, 9));
    ASSERT_EQ(bytes.size(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i] >> 23, bytes[i]) << to_text(data);
  }
  const auto ones = values_in<float>(expand_operand_scales(make_case(Data::codes, 1, MXCHECK_FP32), kA, 9, 9));
  for (const float one : ones) ASSERT_EQ(one, 1);
}

// Row r has a special scale in block r modulo 3, the others are normal numbers.
TEST(ExpandMatmul, special_scales_may_be_in_one_block_alone) {
  const auto scales =
      values_in<float>(expand_operand_scales(make_case(Data::every_row, 2, MXCHECK_FP32), kA, kSpecialScales, 3));
  std::size_t negative = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (i % 3 == i / 3 % 3) {
      negative += std::signbit(scales[i]) ? 1 : 0;
      continue;
    }
    EXPECT_TRUE(std::isnormal(scales[i]) && scales[i] > 0) << i;
  }
  EXPECT_GT(negative, 5U);
}

TEST(ExpandMatmul, c_has_the_outputs_type_and_small_integers_beside_codes) {
  Case c = make_case(Data::codes);
  std::set<float> seen;
  for (const float v : values_in<float>(expand_c(c, 1000))) seen.insert(v);
  EXPECT_EQ(seen, (std::set<float>{-4, -3, -2, -1, 0, 1, 2, 3, 4}));
  c.variant.dtype = Format::bf16;
  EXPECT_EQ(expand_c(c, 1000).size(), 2000U);
  c.data = Data::zeros;
  for (const std::byte b : expand_c(c, 100)) ASSERT_EQ(b, std::byte{0});
}

// Equal sizes at k and 16 further, of opposite signs in A and of the same sign in B.
TEST(ExpandMatmul, products_cancel_at_the_distance_of_the_case) {
  Case c = make_case(Data::normal);
  matmul_case(c).cancels = 16;
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16}) {
    const std::vector<double> a = values_of(c, format, kA), b = values_of(c, format, kB);
    std::size_t opposite = 0, pairs = 0;
    for (std::size_t i = 0; i + 16 < a.size(); ++i) {
      if (i % kDepth / 16 % 2 != 0) continue;
      ++pairs, opposite += a[i] == -a[i + 16] ? 1 : 0;
      ASSERT_EQ(b[i], b[i + 16]) << i;
    }
    // Three in four, beside those that stay: their signs are equal.
    EXPECT_GT(3 * opposite, 2 * pairs) << spec(format).name;
  }
}

}  // namespace
}  // namespace mxcheck
