// Calls of quantize, quantize_dual and cast: shapes, sizes, rows by index, and what the reference makes of them.

#include "properties/operations/quantize/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/format/codec.h"
#include "properties/core/check.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

using test::some_case;

struct Strides {
  std::int64_t row = 0;
  std::int64_t col = 0;
};

TEST(ScaledBlocksProblems, inputs_and_policy_are_those_of_the_case) {
  for (const Case& c : test::some_scaled_blocks()) {
    const Call call = make_problem(c)->call();
    const std::size_t inputs = (c.variant.operation == "dequantize" ? 2U : 1U) + (c.experts.empty() ? 0U : 1U);
    EXPECT_EQ(call.inputs.size(), inputs) << to_text(c);
    EXPECT_EQ(read<mxcheck_policy>(call.policy).rows, 150);
    EXPECT_EQ(read<mxcheck_policy>(call.policy).pad_byte, 90);
  }
}

TEST(QuantizeProblems, a_strided_x_ends_with_its_last_element) {
  Case c = some_case("quantize", {1, 32}, 0);
  c.stride = 140;
  const QuantizeProblem p(c);
  EXPECT_EQ(p.call().inputs[0].bytes, 2U * (149U * 140U + 131U));
  EXPECT_EQ(p.call().inputs[0].row_stride, 140);
  c.stride = 0;
  const QuantizeProblem dense(c);
  EXPECT_EQ(dense.call().inputs[0].bytes, 2U * 150U * 131U);
  EXPECT_EQ(dense.call().inputs[0].row_stride, 0);
}

TEST(QuantizeProblems, an_x_with_a_column_stride_has_nan_around_its_elements) {
  for (const Strides strides : {Strides{1, 150}, {1, 153}, {262, 2}, {400, 3}, {1, 310}}) {
    Case c = some_case("quantize", {1, 32}, 0);
    const QuantizeProblem dense(c);
    c.stride = strides.row, c.col_stride = strides.col;
    c.gather = strides.col == 310 ? 300 : 0;
    const QuantizeProblem p(c);
    const CallTensor x = p.call().inputs[0];
    EXPECT_EQ(x.strides, (std::vector<std::int64_t>{strides.row, strides.col}));
    ASSERT_EQ(x.bytes, 2U * static_cast<std::size_t>((c.rows_of_x() - 1) * strides.row + 130 * strides.col + 1));
    std::vector<bool> seen(x.bytes / 2);
    for (std::int64_t i = 0; i < 150; ++i) {
      for (std::int64_t j = 0; j < 131; ++j) {
        const std::int64_t row = c.gather == 0 ? i : p.gathered.index[static_cast<std::size_t>(i)];
        const auto at = static_cast<std::size_t>(row * strides.row + j * strides.col);
        seen[at] = true;
        ASSERT_EQ(std::memcmp(x.data + 2 * at, p.input.bytes.data() + 2 * (i * 131 + j), 2), 0) << i << ", " << j;
      }
    }
    for (std::size_t at = 0; at < seen.size(); ++at) ASSERT_TRUE(seen[at] || x.data[2 * at] == std::byte{0xFF}) << at;
    EXPECT_TRUE(c.gather != 0 || p.answer()[0].bytes == dense.answer()[0].bytes);
    EXPECT_EQ(QuantizeProblem(p.call()).input.bytes, p.input.bytes);  // as it is read from the call
  }
}

TEST(QuantizeProblems, gathered_rows_are_the_source_rows_that_the_index_names) {
  for (const std::int64_t source_rows : {1, 75, 150, 157, 300}) {
    Case c = some_case("quantize", {32, 1}, 0, {0, 33, 150});
    c.stride = 140, c.gather = source_rows;
    const QuantizeProblem p(c);
    const Call call = p.call();
    ASSERT_EQ(call.inputs.size(), 3U);
    EXPECT_EQ(call.inputs[0].shape, (std::vector<std::int64_t>{source_rows, 131}));
    EXPECT_TRUE(call.inputs[2].is_index);
    ASSERT_EQ(p.gathered.index.size(), 150U);
    std::vector<bool> named(static_cast<std::size_t>(source_rows));
    for (std::size_t i = 0; i < p.gathered.index.size(); ++i) {
      const auto from = static_cast<std::size_t>(p.gathered.index[i]);
      ASSERT_LT(from, named.size());
      named[from] = true;
      EXPECT_EQ(std::memcmp(call.inputs[0].data + from * 280, p.input.bytes.data() + i * 280, 262), 0);
    }
    for (std::size_t row = 0; row < named.size(); ++row) {
      if (named[row]) continue;
      EXPECT_EQ(std::to_integer<int>(call.inputs[0].data[row * 280]), 0xFF);  // NaN
    }
    const auto used = std::count(named.begin(), named.end(), true);
    EXPECT_EQ(used, std::min<std::int64_t>(150, source_rows));  // fewer source rows than rows: all of them, some twice
  }
}

TEST(QuantizeProblems, an_x_that_is_given_is_gathered_without_repeats) {
  Case c = some_case("quantize", {1, 32}, 0);
  c.gather = 2;
  const Input x = expand(c);
  const QuantizeProblem p(c, x);
  EXPECT_EQ(p.input.bytes, x.bytes);
  EXPECT_EQ(p.c.gather, c.rows);
}

TEST(QuantizeProblems, a_cast_has_codes_and_no_scales) {
  const Case c = parse_case(
      "op=cast format=e4m3 x=fp32 rows=1 cols=5 data=zeros seed=1 plant=0,0:43e00000 "
      "plant=0,1:7f800000 plant=0,2:ff7fffff plant=0,3:ffc00000 plant=0,4:3a800001");
  const std::vector<ExpectedTensor> answer = QuantizeProblem(c).answer();
  ASSERT_EQ(answer.size(), 1U);
  constexpr int kCodes[] = {0x7E, 0x7E, 0xFE, 0x7F, 0x01};  // 448, inf and -FLT_MAX saturate, NaN, above half of 2^-9
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::to_integer<int>(answer[0].bytes[i]), kCodes[i]) << i;
}

constexpr std::uint64_t kFp64Infinity = std::uint64_t{0x7FF} << 52;

TEST(QuantizeProblems, a_word_becomes_fp64_values_beside_it_and_far_away) {
  std::map<std::string, int> kinds;
  for (std::uint64_t seed = 0; seed < 4096; ++seed) {
    const std::uint64_t bits = fp64_of(0x43E80000, seed);  // 464, half of the way from 448 to 480
    const auto exact = std::bit_cast<std::uint64_t>(464.0);
    const std::string kind = bits == exact                                             ? "exact"
                             : bits == exact + 1                                       ? "above"
                             : bits == exact - 1                                       ? "below"
                             : bits > exact && bits < exact + (std::uint64_t{1} << 29) ? "low bits"
                                                                                       : "far";
    ++kinds[kind];
    EXPECT_EQ(fp64_of(0xC3E80000, seed) >> 63, 1U);
    EXPECT_EQ(fp64_of(0x00000000, seed), 0U);
    EXPECT_EQ(fp64_of(0x80000000, seed), std::uint64_t{1} << 63);
    EXPECT_EQ(fp64_of(0x7F800000, seed), kFp64Infinity);
    EXPECT_TRUE(std::isnan(std::bit_cast<double>(fp64_of(0x7F800001, seed))));
    for (const std::uint32_t finite : {0x00000001U, 0x007FFFFFU, 0x00800000U, 0x7F7FFFFFU})
      EXPECT_LT(fp64_of(finite, seed), kFp64Infinity) << finite << ", " << seed;
  }
  EXPECT_EQ(kinds.size(), 5U);
  for (const char* kind : {"exact", "above", "below", "low bits"}) EXPECT_GT(kinds[kind], 4096 / 6) << kind;
  EXPECT_GT(kinds["far"], 4096 / 32);
}

TEST(QuantizeProblems, an_x_of_fp64_is_drawn_in_words_and_read_back_from_its_call) {
  for (const char* layout : {"", " stride=77", " stride=1 col_stride=41", " stride=150 col_stride=2"}) {
    const std::string text =
        std::string("op=cast format=e4m3 recipe=rceil block=1x32 layout=compact x=fp64 rows=40 cols=70") + layout +
        " data=boundaries seed=3 plant=1,2:43e80000";
    const Case c = parse_case(text);
    EXPECT_EQ(to_text(c), text);
    const QuantizeProblem p(c);
    const CallTensor x = p.call().inputs[0];
    EXPECT_EQ(x.dtype, Format::fp64);
    const Bytes answer = p.answer()[0].bytes;
    EXPECT_EQ(QuantizeProblem(p.call()).answer()[0].bytes, answer);
    const auto stride = c.stride == 0 ? c.cols : c.stride;
    const auto step = c.col_stride == 0 ? 1 : c.col_stride;
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        double value = 0;
        std::memcpy(&value, x.data + static_cast<std::size_t>(i * stride + j * step) * sizeof(value), sizeof(value));
        const std::uint32_t code = encode(Format::e4m3, value, Rounding::nearest_even, Overflow::saturate);
        ASSERT_EQ(std::to_integer<std::uint32_t>(answer[static_cast<std::size_t>(i * c.cols + j)]), code);
        if (i == 1 && j == 2) {
          EXPECT_EQ(std::bit_cast<std::uint64_t>(value), fp64_of(0x43E80000, c.seed));
        }
      }
    }
  }
  EXPECT_ANY_THROW(parse_case("op=quantize format=e4m3 x=fp64 rows=1 cols=1 data=zeros seed=1"));
  EXPECT_ANY_THROW(parse_case("op=dequantize format=e4m3 x=fp64 rows=1 cols=1 data=zeros seed=1"));
}

// The element that fails is the same when it is planted alone: shrinking keeps it.
TEST(QuantizeProblems, a_planted_word_of_an_x_of_fp64_is_the_element_that_was_drawn) {
  const Case c = parse_case("op=cast format=e5m2 x=fp64 rows=40 cols=70 data=boundaries seed=7");
  const QuantizeProblem drawn(c);
  Case words = c;
  words.variant.dtype = Format::fp32;
  const Input x = expand(words);
  for (std::int64_t j = 0; j < c.cols; ++j) {
    Case one = c;
    one.rows = one.cols = 1, one.data = Data::zeros;
    one.plants = {{0, 0, x.bits(5, j)}};
    const QuantizeProblem alone(one);
    const std::byte* element = drawn.input.bytes.data() + static_cast<std::size_t>(5 * c.cols + j) * 8;
    ASSERT_EQ(std::memcmp(alone.input.bytes.data(), element, 8), 0) << j;
    Finding f;
    Difference d;
    d.tensor = drawn.outputs[0], d.first.row = 5, d.first.col = j;
    f.difference = d;
    drawn.explain(0, f);
    ASSERT_EQ(f.relevant.size(), 1U);
    EXPECT_EQ(f.relevant[0].bits, x.bits(5, j));
  }
}

// The scales that a code follows from tell more than the code does.
TEST(QuantizeProblems, scales_are_looked_at_before_the_codes) {
  EXPECT_EQ(QuantizeProblem(some_case("quantize", {1, 32}, 0)).order(), (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(QuantizeProblem(some_case("quantize_dual", {1, 32}, 0)).order(), (std::vector<std::size_t>{1, 0, 3, 2}));
}

TEST(QuantizeProblems, a_dual_answer_is_that_of_the_rows_and_that_of_the_columns) {
  const auto dual = QuantizeProblem(some_case("quantize_dual", {1, 32}, MXCHECK_TCGEN05)).answer();
  const auto rows = QuantizeProblem(some_case("quantize", {1, 32}, MXCHECK_TCGEN05)).answer();
  const auto columns = QuantizeProblem(some_case("quantize", {32, 1}, MXCHECK_TCGEN05)).answer();
  ASSERT_EQ(dual.size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(dual[i].bytes, rows[i].bytes) << i;
    EXPECT_EQ(dual[2 + i].bytes, columns[i].bytes) << i;
  }
}

TEST(QuantizeProblems, what_is_saved_is_x_with_its_stride) {
  Case c = some_case("quantize", {1, 32}, 0);
  c.stride = 140;
  const QuantizeProblem p(c);
  const std::vector<SavedTensor> saved = p.saved();
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].name, "x");
  EXPECT_EQ(saved[0].info.cols, 140);
  EXPECT_EQ(saved[0].bytes, p.input.bytes);
}

}  // namespace

namespace {

using test::some_case;

Finding explained(const QuantizeProblem& p, std::size_t output, std::size_t at) {
  const ExpectedTensor expected = p.answer().at(output);
  std::vector<std::byte> observed = expected.bytes;
  observed.at(at) ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  EXPECT_TRUE(f.difference);
  p.explain(output, f);
  return f;
}

std::string text_of(const Finding& f) {
  std::string text;
  for (const std::string& line : f.element) text += line + "\n";
  return text;
}

void expect_parts(const Finding& f, std::initializer_list<const char*> parts) {
  const std::string text = text_of(f);
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(QuantizeExplanation, isolates_the_relevant_elements) {
  const Finding f = explained(QuantizeProblem(some_case("quantize", {1, 32}, 0)), 0, 131 * 2 + 70);
  expect_parts(f, {"input     x(2, 70) = 0x", "place     element (0, 6) of block (2, 2)",
                   "block     rows 2 to 2, columns 64 to 95", "amax      0x", "scale     0x", "scaled    x / 2^",
                   "expected  0x", "observed  0x", "; 1 step away"});
  ASSERT_EQ(f.relevant.size(), 2U);
  EXPECT_EQ(f.relevant[0].row, 2);
  EXPECT_EQ(f.relevant[0].col, 70);
}

TEST(QuantizeExplanation, of_a_scale_is_of_its_block_in_tiles_too) {
  const std::size_t compact = 2 * 5 + 2;  // of block (2, 2)
  expect_parts(explained(QuantizeProblem(some_case("quantize", {1, 32}, MXCHECK_COMPACT)), 1, compact),
               {"block     rows 2 to 2, columns 64 to 95", "amax      0x", "scale     0x"});
  const QuantizeProblem tiled(some_case("quantize", {1, 32}, MXCHECK_TCGEN05));
  expect_parts(explained(tiled, 1, 2 * 16 + 2), {"byte 34 of the tcgen05 tiles is the scale of block (2, 2)",
                                                 "block     rows 2 to 2, columns 64 to 95"});
  const Finding padding = explained(tiled, 1, 512 + 1);
  expect_parts(padding, {"byte 513 of the tcgen05 tiles is padding"});
  EXPECT_TRUE(padding.relevant.empty());
}

TEST(QuantizeExplanation, of_a_dual_case_turns_the_blocks_for_its_columns) {
  const Finding f = explained(QuantizeProblem(some_case("quantize_dual", {1, 32}, 0)), 2, 131 * 40 + 7);
  expect_parts(f, {"place     element (8, 0) of block (1, 7)", "block     rows 32 to 63, columns 7 to 7"});
}

TEST(QuantizeExplanation, names_the_source_row_and_a_nan_of_the_block) {
  Case c = some_case("quantize", {1, 32}, 0);
  c.gather = 300;
  const QuantizeProblem p(c);
  const std::string row = std::to_string(p.gathered.index[2]);
  expect_parts(explained(p, 0, 131 * 2 + 70), {("gathered  row 2 is row " + row + " of the source").c_str()});
  c.gather = 0, c.plants = {{2, 65, 0x7FC1}};
  const Finding f = explained(QuantizeProblem(c), 0, 131 * 2 + 70);
  expect_parts(f, {"; the block holds a NaN at (2, 65)"});
  ASSERT_EQ(f.relevant.size(), 3U);
  EXPECT_EQ(f.relevant[2].bits, 0x7FC1U);
}

TEST(QuantizeExplanation, of_a_cast_has_no_block) {
  Case c = parse_case("op=cast format=e4m3 x=fp32 rows=2 cols=5 data=normal seed=1");
  const std::string text = text_of(explained(QuantizeProblem(c), 0, 6));
  EXPECT_NE(text.find("input     x(1, 1) = 0x"), std::string::npos) << text;
  EXPECT_EQ(text.find("block"), std::string::npos) << text;
}

// 464 less an ulp of FP64, which FP32 does not hold.
TEST(QuantizeExplanation, of_an_input_of_fp64_has_all_of_its_bits_and_what_fp32_makes_of_them) {
  Case c = parse_case("op=cast format=e4m3 x=fp64 rows=1 cols=1 data=zeros seed=1 plant=0,0:43e80000");
  while (fp64_of(0x43E80000, c.seed) != 0x407CFFFFFFFFFFFF) ++c.seed;
  expect_parts(explained(QuantizeProblem(c), 0, 0),
               {"input     x(0, 0) = 0x407cffffffffffff = 0x1.cffffffffffffp+8 = 463.99999999999994\n",
                "in FP32   0x43e80000 = ", " = 464, rounded\n"});
}

}  // namespace

}  // namespace mxcheck
