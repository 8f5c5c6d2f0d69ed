// The explanation of a difference in codes or scales, which a person reads first.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "properties/operations/quantize/problem.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
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
  const std::string row = std::to_string(p.index[2]);
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
