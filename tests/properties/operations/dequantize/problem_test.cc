// Codes and scales of a case, the values that the reference makes of them, and what a person reads of a difference.

#include "properties/operations/dequantize/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

TEST(DequantizeProblems, a_plant_of_dequantize_is_a_code_and_the_scale_byte_of_its_block) {
  for (const char* layout : {"compact", "tcgen05"}) {
    const Case c = parse_case(std::string("op=dequantize block=32x1 layout=") + layout +
                              " x=bf16 rows=70 cols=3 experts=0,33,70 data=zeros seed=1 plant=69,2:fe01");
    const DequantizeProblem p(c);
    const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
    const std::vector<std::uint8_t> scales = to_compact(g, p.scales, blocks_of(c.variant).layout);
    ASSERT_EQ(scales.size(), 12U);  // experts of 33 and 37 rows: two rows of blocks each
    for (std::size_t i = 0; i < scales.size(); ++i) EXPECT_EQ(scales[i], i == 11 ? 0xFE : 127) << i;
    for (std::size_t i = 0; i < p.codes.size(); ++i) EXPECT_EQ(p.codes[i], i == 69 * 3 + 2 ? 0x01 : 0) << i;
  }
}

// Computed again from the compact scales: code times 2^(byte - 127), exact in double.
TEST(DequantizeProblems, values_are_code_times_scale_in_either_layout) {
  for (const int layout : {MXCHECK_COMPACT, MXCHECK_TCGEN05}) {
    Case c = test::some_case("dequantize", {1, 32}, layout, {0, 40, 150});
    c.variant.dtype = Format::fp32;
    const DequantizeProblem p(c);
    const std::vector<std::uint8_t> scales = to_compact(scale_geometry(c, {1, 32}), p.scales, layout);
    const std::vector<float> values = values_in<float>(p.answer()[0].bytes);
    ASSERT_EQ(values.size(), 150U * 131U);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int byte = scales[i / 131 * 5 + i % 131 / 32];
      const double code = decode(Format::e4m3, p.codes[i]);
      if (byte == 255 || std::isnan(code)) {
        ASSERT_TRUE(std::isnan(values[i])) << i;
      } else {
        ASSERT_EQ(values[i], static_cast<float>(std::ldexp(code, byte - 127))) << i;
      }
    }
  }
}

TEST(DequantizeProblems, what_is_given_is_handed_over) {
  const Case c = parse_case("op=dequantize block=1x32 x=bf16 rows=2 cols=3 data=zeros seed=1");
  const DequantizeProblem p(c, {1, 2, 3, 4, 5, 6}, {127, 130});
  const Call call = p.call();
  ASSERT_EQ(call.inputs.size(), 2U);
  EXPECT_EQ(values_in<std::uint8_t>({call.inputs[0].data, call.inputs[0].bytes}), p.codes);
  EXPECT_EQ(values_in<std::uint8_t>({call.inputs[1].data, call.inputs[1].bytes}), p.scales);
  const std::vector<SavedTensor> saved = p.saved();
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(values_in<std::uint8_t>(saved[0].bytes), p.codes);
  EXPECT_EQ(values_in<std::uint8_t>(saved[1].bytes), p.scales);
}

TEST(DequantizeProblems, a_value_is_explained_by_its_code_and_its_scale) {
  const DequantizeProblem p(test::some_case("dequantize", {1, 32}, MXCHECK_TCGEN05));
  const ExpectedTensor expected = p.answer()[0];
  std::size_t at = 131 * 2;  // a number, not a NaN
  while (std::isnan(decode(Format::bf16, values_in<std::uint16_t>(expected.bytes)[at]))) ++at;
  std::vector<std::byte> observed = expected.bytes;
  observed[2 * at] ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  ASSERT_TRUE(f.difference);
  p.explain(0, f);
  std::string text;
  for (const std::string& line : f.element) text += line + "\n";
  for (const char* part :
       {"input     code(", "place     element (0, ", "scale     0x", "expected  0x", "; 1 step away"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // A plant of a case is a code with, above it, its scale byte: the relevant element is one.
  ASSERT_EQ(f.relevant.size(), 1U);
  EXPECT_EQ(f.relevant[0].bits & 0xFF, p.codes[at]);
  Case again = p.c;
  again.data = Data::zeros, again.plants = f.relevant;
  const DequantizeProblem alone(again);
  EXPECT_EQ(values_in<std::uint16_t>(alone.answer()[0].bytes)[at], values_in<std::uint16_t>(expected.bytes)[at]);
}

}  // namespace
}  // namespace mxcheck
