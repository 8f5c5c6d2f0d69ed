// Options of quantize_nvfp4: their text, their policy, and the reference's answer under them.

#include "properties/operations/nvfp4/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/candidate_nvfp4.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "properties/core/operation.h"
#include "properties/core/statement.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr const char* kCase =
    "op=quantize_nvfp4 format=e2m1 recipe=nvfp4_te block=1x16 layout=compact x=fp32 rounding=stochastic "
    "hadamard=16/butterfly/fp32 directions=both rows=32 cols=48 data=normal seed=5 key=0x123456789abcdef "
    "offset=0xfffffff0 counter=0x80000104,0x3 column_counter=0x7,0x3 signs=0x2d4b";

std::string with_bytes(std::string text) {
  return text.replace(text.find("rounding=stochastic"), 19, "rounding=stochastic_bytes");
}

std::string with_offset(std::string text, const std::string& offset) {
  return text.replace(text.find("0xfffffff0"), 10, offset);
}

Nvfp4Problem problem_of(const std::string& text) { return Nvfp4Problem(parse_case(text)); }

TEST(Nvfp4Options, are_in_the_text_of_a_case) {
  const Case c = parse_case(kCase);
  EXPECT_EQ(parse_case(to_text(c)), c);
  EXPECT_NE(to_text(c).find("rounding=stochastic hadamard=16/butterfly/fp32 directions=both"), std::string::npos);
  const Nvfp4Random& r = blocks_case(c).random;
  EXPECT_EQ(r.key, 0x123456789ABCDEFU);
  EXPECT_EQ(r.signs[0], 0x2D4BU);
  // Without an option the text is that of a library that has none.
  EXPECT_EQ(to_text(parse_case("op=quantize_nvfp4 block=1x16 x=bf16 rows=1 cols=2 data=zeros seed=1")).find("rounding"),
            std::string::npos);
}

TEST(Nvfp4Options, bytes_are_a_rounding_of_their_own) {
  const Case c = parse_case(with_bytes(kCase));
  EXPECT_EQ(parse_case(to_text(c)), c);
  EXPECT_NE(to_text(c).find("rounding=stochastic_bytes hadamard="), std::string::npos);
  const Policy policy = operation_named("quantize_nvfp4").policy(c);
  EXPECT_EQ(read<mxcheck_nvfp4_policy>(policy).rounding, MXCHECK_STOCHASTIC_BYTES);
  Case again = c;
  blocks_of(again.variant).options = {};
  read_nvfp4_policy(policy, again);
  EXPECT_EQ(blocks_of(again.variant).options, blocks_of(c.variant).options);
}

TEST(Nvfp4Options, signs_of_128_elements_are_one_number) {
  const Case c = parse_case(
      "op=quantize_nvfp4 format=e2m1 recipe=nvfp4 block=1x16 x=bf16 rounding=nearest hadamard=128/exact/bf16 rows=1 "
      "cols=128 data=zeros seed=1 signs=0x800000000000000000000000000000f1");
  EXPECT_EQ(blocks_case(c).random.signs, (std::array<std::uint32_t, 4>{0xF1, 0, 0, 0x80000000}));
  EXPECT_EQ(parse_case(to_text(c)), c);
}

TEST(Nvfp4Options, are_a_larger_policy_and_none_is_the_policy_without) {
  const Operation& operation = operation_named("quantize_nvfp4");
  const Case c = parse_case(kCase);
  const Policy policy = operation.policy(c);
  EXPECT_EQ(policy.num_bytes, sizeof(mxcheck_nvfp4_policy));
  const auto p = read<mxcheck_nvfp4_policy>(policy);
  EXPECT_EQ(p.base.size, sizeof(mxcheck_nvfp4_policy));
  EXPECT_EQ(p.rounding, MXCHECK_STOCHASTIC);
  EXPECT_STREQ(p.hadamard_sum, "butterfly");
  EXPECT_EQ(p.column_counter[0], 7U);
  Case plain = c;
  blocks_of(plain.variant).options = {};
  EXPECT_EQ(operation.policy(plain).num_bytes, sizeof(mxcheck_policy));
}

TEST(Nvfp4Options, only_a_library_with_their_contract_is_asked_for_any) {
  const Operation& operation = operation_named("quantize_nvfp4");
  const auto asked = [&](const char* contract) {
    const std::vector<Variant> all = operation.askable_under("quantize_nvfp4", contract);
    return std::ranges::any_of(all, [](const Variant& v) { return blocks_of(v).options.any(); });
  };
  EXPECT_FALSE(asked("exact"));
  EXPECT_TRUE(asked(MXCHECK_NVFP4_OPTIONS_CONTRACT));
  EXPECT_EQ(operation.variant_name(MXCHECK_NVFP4_OPTIONS_CONTRACT), "quantize_nvfp4");
  EXPECT_THROW((void)operation_named("quantize").variant_name(MXCHECK_NVFP4_OPTIONS_CONTRACT), Error);
}

TEST(Nvfp4Options, a_call_has_the_problem_that_it_was_made_of) {
  const Nvfp4Problem p = problem_of(kCase);
  const auto again = operation_named("quantize_nvfp4").problem_of(p.call());
  const std::vector<ExpectedTensor> a = p.answer(), b = again->answer();
  ASSERT_EQ(a.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << i;
}

// The word of an element by its definition: of its own number, or a byte of one for four.
std::uint32_t word_of(std::uint64_t n, std::uint32_t c2, bool has_bytes) {
  const std::uint64_t call = has_bytes ? n / 16 : n;
  const std::array<std::uint32_t, 4> four =
      philox_words(0x123456789ABCDEFU, static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32), c2, 3);
  if (!has_bytes) return four[0];
  const std::array<std::uint32_t, 4> shift{0, 16, 8, 24};
  return (four[n % 16 / 4] >> shift[n % 4] & 0xFF) * 0x1000000;
}

// The rows are those of the reference under the words by their definition; the columns of the transposed matrix.
void expect_the_definition(const std::string& text, bool has_bytes) {
  const Nvfp4Problem p = problem_of(text);
  Recipe recipe = any_recipe_named("nvfp4_te");
  recipe.rounding = Rounding::stochastic;
  const auto words_of = [&](std::uint32_t c2) {
    std::vector<std::uint32_t> words;
    for (std::uint64_t i = 0; i < 32 * 48; ++i) words.push_back(word_of(i + p.random().offset, c2, has_bytes));
    return words;
  };
  const std::vector<std::uint32_t> row_words = words_of(0x80000104), column_words = words_of(7);
  const QuantizedTensor rows = quantize(p.input.view(), Format::e2m1, {1, 16}, recipe,
                                        QuantizeExtras{.outer = p.tensor_scale, .words = row_words});
  const Input turned = transposed(p.input);
  const Tensor y =
      hadamard(turned.view(), {16, {0x2D4B}, HadamardSum::butterfly, "sm90_bf16", Format::fp32}, Along::rows);
  const MatrixView view{Format::fp32, y.data.data(), 48, 32, 32};
  const QuantizedTensor columns =
      quantize(view, Format::e2m1, {1, 16}, recipe, QuantizeExtras{.outer = p.column_scale, .words = column_words});
  const std::vector<ExpectedTensor> answer = p.answer();
  EXPECT_EQ(answer[0].bytes, packed_rows(rows.codes.as<std::uint8_t>(), 48));
  EXPECT_EQ(answer[1].bytes, rows.scales().data);
  EXPECT_EQ(answer[2].bytes, packed_rows(columns.codes.as<std::uint8_t>(), 32));
  EXPECT_EQ(answer[3].bytes, columns.scales().data);
}

TEST(Nvfp4Options, answer_is_the_reference_under_the_words_of_the_definition) {
  expect_the_definition(kCase, false);
  // Within a call, where the counter's first word ends, and where the number of an element does.
  for (const char* offset : {"0x5", "0xfffffff03", "0xfffffffffffffffb"})
    expect_the_definition(with_offset(with_bytes(kCase), offset), true);
}

// floor(256 f) of the 256 bytes round away from zero: the mean is the value where its fraction has eight bits, and less
// than 2^-8 of a step nearer to zero elsewhere.
TEST(Nvfp4Options, a_byte_rounds_away_from_zero_in_the_share_of_eight_bits_of_the_fraction) {
  for (const Format format : {Format::e2m1, Format::e2m3, Format::e3m2, Format::e4m3, Format::e5m2}) {
    const std::uint32_t codes = spec(format).max_code;
    for (std::uint32_t code = 0; code < codes; code += 1 + codes / 16) {
      const double low = decode(format, code), high = decode(format, code + 1);
      for (int sixteenth = 0; sixteenth < 4096; sixteenth += 5) {
        const double fraction = sixteenth / 4096.0;
        const double value = low + fraction * (high - low);
        int up = 0;
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
          const std::uint32_t got = encode(format, value, Rounding::stochastic, Overflow::saturate, byte << 24);
          ASSERT_TRUE(got == code || got == code + 1) << value;
          up += got == code ? 0 : 1;
        }
        ASSERT_EQ(up, sixteenth / 16) << spec(format).name << ' ' << value;
      }
    }
  }
}

// A word of 0 rounds toward zero, 2^32 - 1 away from it; over the 256 top bytes the mean is the value to 2^-8 of a
// step.
TEST(Nvfp4Options, the_word_decides_between_two_neighbours) {
  const auto value_of = [](double v, std::uint32_t word) {
    return decode(Format::e2m1, encode(Format::e2m1, v, Rounding::stochastic, Overflow::saturate, word));
  };
  for (const double v : {0.3, 0.7, 1.1, 1.9, 2.2, 3.7, 5.5, -0.2, -2.9}) {
    const double low = value_of(v, 0), high = value_of(v, ~0U);
    EXPECT_LT(std::abs(low), std::abs(v));
    EXPECT_GT(std::abs(high), std::abs(v));
    double sum = 0;
    for (std::uint32_t top = 0; top < 256; ++top) sum += value_of(v, top << 24);
    EXPECT_NEAR(sum / 256, v, std::abs(high - low) / 256) << v;
  }
}

// Bits of a fraction after the eighth are lost: over many elements that is no longer chance.
TEST(Nvfp4Options, the_mean_of_bytes_is_that_of_eight_bits_of_the_fraction) {
  constexpr std::uint64_t kElements = 600'000;
  std::vector<double> values;
  std::vector<std::uint32_t> codes;
  for (std::uint64_t i = 0; i < kElements; ++i) {
    values.push_back(1 + (static_cast<double>(i % 256) + 0.99) / 512);  // between the codes of 1 and 1.5
    const std::uint32_t byte = element_byte_word(3, i, {4, 5});
    codes.push_back(encode(Format::e2m1, values.back(), Rounding::stochastic, Overflow::saturate, byte));
  }
  EXPECT_TRUE(is_stochastic_cast(Format::e2m1, Overflow::saturate, values, codes, 8));
  EXPECT_FALSE(is_stochastic_cast(Format::e2m1, Overflow::saturate, values, codes));
}

void expect_that_slips_differ(const std::string& of, const std::string& offset, std::size_t fewest) {
  std::string text = with_offset(of, offset);
  text.replace(text.find("rows=32 cols=48"), 15, "rows=96 cols=112");
  const Nvfp4Problem p = problem_of(text);
  const std::vector<ExpectedTensor> answer = p.answer();
  std::set<std::string> same;
  std::size_t computed = 0;
  for (const Definition& row : p.definitions({})) {
    bool differs = false, is_defined = false;
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const Bytes bytes = bytes_of_row(row, i);
      is_defined |= !bytes.empty();
      differs |= !bytes.empty() && bytes != answer[i].bytes;
    }
    computed += is_defined ? 1 : 0;
    if (is_defined && !differs) same.insert(row.name);
  }
  EXPECT_GT(computed, fewest);
  // Here x has no gaps, rows are whole blocks, and a group has 16 elements; roundings of sums show in few codes alone.
  for (const std::string& name : same) {
    const auto has = [&name](const char* part) { return name.find(part) != std::string::npos; };
    EXPECT_TRUE(has("recipe ") || has("gaps between") || has("first 16 elements for all") ||
                has("the sums are those of") || has("stages of the sums in the opposite order") ||
                has("result is fp16"))
        << name;
  }
}

TEST(Nvfp4Options, every_slip_has_another_answer_on_a_case_with_all_options) {
  expect_that_slips_differ(kCase, "0x5ffffff00", 60);
  expect_that_slips_differ(with_bytes(kCase), "0xfffffffffffffc03", 70);
}

// Words belong to the elements of the gathered matrix.
TEST(Nvfp4Options, words_are_numbered_after_rows_are_gathered) {
  std::string text = kCase;
  text.replace(text.find("directions=both"), 15, "directions=rows");
  text.erase(text.find("column_counter="), 23);
  const Case c = parse_case(text + " gather=40");
  const Nvfp4Problem p(c);
  Case plain = c;
  plain.gather = 0;
  const Nvfp4Problem given(plain, p.input, p.tensor_scale[0]);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(p.answer()[i].bytes, given.answer()[i].bytes);
  std::size_t named = 0;
  for (const Definition& row : p.definitions({})) {
    if (row.name != "words of the element's place in x, before its row is gathered") continue;
    ++named;
    EXPECT_NE(bytes_of_row(row, 0), p.answer()[0].bytes);
  }
  EXPECT_EQ(named, 1U);
}

TEST(Nvfp4Options, refuse_what_no_call_could_pose) {
  const auto refuse = [](const std::string& more) {
    const std::string text = "op=quantize_nvfp4 format=e2m1 recipe=nvfp4 block=1x16 x=bf16 data=zeros seed=1 ";
    EXPECT_THROW((void)parse_case(text + more), Error) << more;
  };
  refuse("rows=1 cols=24 hadamard=16/exact/bf16");
  refuse("rows=24 cols=16 hadamard=16/exact/bf16 directions=both");
  refuse("rows=16 cols=16 hadamard=24/exact/bf16");
  refuse("rows=16 cols=16 hadamard=16/zutterfly/bf16");
  refuse("rows=16 cols=16 hadamard=16/exact/fp16");
  refuse("rows=16 cols=16 hadamard=16/exact");
  refuse("rows=16 cols=16 hadamard=16/exact/bf16 signs=0x10000");
  refuse("rows=16 cols=16 rounding=upward");
  refuse("rows=16 cols=16 directions=both experts=0,4,16");
  refuse("rows=16 cols=16 directions=both gather=16");
  refuse("rows=16 cols=16 rounding=stochastic counter=1");
  EXPECT_THROW((void)parse_case("op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=2 "
                                "data=zeros seed=1 rounding=stochastic"),
               Error);
}

// A library's variants of all operations are asked of every statement.
TEST(Nvfp4Options, no_statement_reads_the_fields_of_another_operation) {
  for (const char* other :
       {"op=matmul:sm90_bf16 format=bf16 format_b=bf16 block=none block_b=none scales=none groups=none d=fp32 rows=1 "
        "cols=1 depth=1 data=zeros seed=1",
        "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=2 data=zeros seed=1",
        "op=quantize_nvfp4 block=1x16 x=bf16 rows=1 cols=2 data=zeros seed=1"}) {
    const std::vector<Variant> all{parse_case(other).variant};
    for (const Statement& s : all_statements()) EXPECT_NO_THROW((void)s.applies(all[0], all)) << s.name << ' ' << other;
  }
}

}  // namespace
}  // namespace mxcheck
