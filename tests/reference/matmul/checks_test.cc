#include "reference/matmul/checks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "numerics/error.h"
#include "tests/reference/matmul/test_matmul.h"

namespace mxcheck {
namespace {

using test::fill;
using test::Owned;

TEST(MatmulChecks, what_does_not_fit_is_refused_before_anything_is_written) {
  const auto refused = [](auto change) {
    Owned o;
    fill(o, "sm90_fp8+promote128", {6, 8, 256, 2}, {1, 128}, {128, 128}, Format::e8m0, 14);
    o.offsets = {0, 2, 6};
    change(o);
    std::vector<float> d(96, -77);
    EXPECT_THROW(matmul(o.m, d.data()), Error);
    for (float x : d) EXPECT_EQ(x, -77);
  };
  refused([](Owned& o) { o.m.contract = {}; });
  refused([](Owned& o) { o.m.b.depth = 128; });
  refused([](Owned& o) { o.m.a.rows = -1; });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8+promote256"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_bf16"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm100_mxf8f6f4"); });
  refused([](Owned& o) { o.m.a.format = Format::bf16; });
  refused([](Owned& o) { o.m.a.scale_format = Format::bf16; });
  refused([](Owned& o) { o.m.a.block = {1, -128}; });
  refused([](Owned& o) { o.m.output = Format::e4m3; });
  refused([](Owned& o) { o.m.grouping = Grouping::rows; });
  refused([](Owned& o) { o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {0, 7, 6}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {1, 6}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {0, 128}, o.m.grouping = Grouping::depth, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.index = {0, 6}, o.m.gathers = true, o.m.row_index = o.index; });
  refused([](Owned& o) { o.m.contract.from_c = true; });
}

TEST(MatmulChecks, say_what_would_fit) {
  const auto text = [](auto change) {
    Owned o;
    fill(o, "sm90_fp8+promote128", {6, 8, 256}, {1, 128}, {128, 128}, Format::e8m0, 16);
    EXPECT_NO_THROW(check_matmul(o.m));
    change(o);
    try {
      check_matmul(o.m);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text([](Owned& o) { o.m.b.depth = 128; }), "K differs: operand a has 256, operand b 128");
  EXPECT_EQ(text([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8"); }),
            "contract sm90_fp8 takes no scales; with +promote128 they enter as each block's sum is added, with +decode "
            "before");
  EXPECT_EQ(text([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8+promote256"); }),
            "contract sm90_fp8+promote256 adds up every 256 of k, but scales of operand a change every 128");
  EXPECT_EQ(text([](Owned& o) { o.m.a.scale_format = Format::bf16; }),
            "scales of operand a are bf16: contract sm90_fp8+promote128 takes e8m0 or fp32");
  EXPECT_EQ(text([](Owned& o) {
              o.index = {0, 6}, o.m.gathers = true, o.m.row_index = o.index;
            }),
            "row index 6 of operand a, which has 6 rows");
  EXPECT_EQ(text([](Owned& o) {
              o.offsets = {0, 4, 2}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
            }),
            "offsets of groups begin with 0 and end with the number of rows, which is 6");
}

}  // namespace
}  // namespace mxcheck
