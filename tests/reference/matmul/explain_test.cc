// explain_output: one output of a matmul with each of its steps as a line.

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "tests/reference/matmul/test_matmul.h"

namespace mxcheck {
namespace {

using test::fill;
using test::Owned;
using test::run;

TEST(Explain, an_explained_output_is_the_output) {
  for (const char* contract :
       {"sm90_fp8+promote128", "sm90_fp8+promote32+descending", "exact", "ieee_fp32", "sm90_bf16+decode"}) {
    Owned o;
    const std::int64_t block = std::string(contract).find("128") != std::string::npos ? 128 : 32;
    fill(o, contract, {6, 9, 200}, {1, block}, {1, block}, Format::e8m0, 12);
    o.c.assign(54, 0.25F), o.m.c = o.c.data();
    const std::vector<float> d = run(o.m);
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 9; ++j) {
        const ExplainedOutput e = explain_output(o.m, 0, i, j);
        EXPECT_EQ(e.word, std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>(i * 9 + j)])) << contract;
        EXPECT_GE(e.lines.size(), 3U);
      }
    }
    EXPECT_THROW((void)explain_output(o.m, 0, 6, 0), Error);
    EXPECT_THROW((void)explain_output(o.m, 1, 0, 0), Error);
  }
}

TEST(Explain, finds_the_expert_of_a_row_and_of_a_depth_group) {
  for (const Grouping grouping : {Grouping::rows, Grouping::depth}) {
    Owned o;
    fill(o, "sm90_fp8", {6, 5, 64, 3}, {0, 0}, {0, 0}, Format::e8m0, 15);
    o.offsets =
        grouping == Grouping::rows ? std::vector<std::int64_t>{0, 2, 2, 6} : std::vector<std::int64_t>{0, 32, 32, 64};
    o.m.grouping = grouping, o.m.offsets = o.offsets;
    const std::vector<float> d = run(o.m);
    for (std::int64_t e = 0; e < (grouping == Grouping::rows ? 1 : 3); ++e) {
      for (std::int64_t i = 0; i < 6; ++i) {
        for (std::int64_t j = 0; j < 5; ++j) {
          EXPECT_EQ(explain_output(o.m, e, i, j).word,
                    std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>((e * 6 + i) * 5 + j)]));
        }
      }
    }
  }
}

// 1 * 1 + 2 * 0.5 in one step of 32, then alpha and C: every number is exact.
TEST(Explain, says_each_step_in_words) {
  std::vector<std::uint8_t> a(32), b(32);
  a[0] = b[0] = 0x38, a[1] = 0x40, b[1] = 0x30;
  const float c = 0.25F;
  Matmul m;
  m.contract = parse_matmul_contract("sm90_fp8");
  m.a = {Format::e4m3, a.data(), 1, 32, 32};
  m.b = {Format::e4m3, b.data(), 1, 32, 32};
  m.alpha = 3, m.c = &c;
  const ExplainedOutput e = explain_output(m, 0, 0, 0);
  EXPECT_EQ(e.word, std::bit_cast<std::uint32_t>(6.25F));
  EXPECT_EQ(e.lines, (std::vector<std::string>{
                         "k 0..31: window 2^0, unit 2^-13; 2 terms, 0 cut, 0 lost; 16384 units = 2; sum 40000000 = 2",
                         "times alpha, 3", "plus C, 3e800000 = 0.25", "D as fp32: 40c80000 = 6.25"}));
}

}  // namespace
}  // namespace mxcheck
