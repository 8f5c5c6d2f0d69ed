// Descriptors of GEMMs: what is refused, what they are counted for, and which of them ask for options.

#include "properties/operations/matmul/operation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "tests/properties/drawn.h"

namespace mxcheck {
namespace {

const std::string kPromotedByE8m0 =
    "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e5m2 block=1x128 block_b=128x128 scales=e8m0 ";

TEST(MatmulOperation, every_field_survives_the_way_to_text_and_back) {
  const std::string text = kPromotedByE8m0 +
                           "groups=rows d=bf16 rows=3 cols=33 depth=256 experts=0,1,3 gather=50 data=normal seed=7 "
                           "adds=1 alpha=0.5 threads=2";
  const Case c = parse_case(text);
  EXPECT_EQ(to_text(c), text);
  const MatmulVariant& v = matmul_of(c.variant);
  EXPECT_EQ(v.format_b, Format::e5m2);
  EXPECT_EQ(v.block_b, (BlockShape{128, 128}));
  EXPECT_EQ(v.scales, MXCHECK_E8M0);
  EXPECT_EQ(v.groups, MXCHECK_ROWS);
  EXPECT_EQ(matmul_case(c).depth, 256);
  EXPECT_TRUE(matmul_case(c).adds);
  EXPECT_EQ(matmul_case(c).alpha, 0.5F);
}

// A NaN is unequal to itself: a case with it must not be, or it would never shrink.
TEST(MatmulOperation, an_alpha_of_nan_and_the_distance_of_products_that_cancel_survive_too) {
  const std::string text = kPromotedByE8m0 +
                           "groups=none d=bf16 rows=3 cols=33 depth=256 data=normal seed=7 adds=1 alpha=nan "
                           "cancels=16";
  const Case c = parse_case(text);
  EXPECT_EQ(to_text(c), text);
  EXPECT_EQ(matmul_case(c).cancels, 16);
  EXPECT_EQ(c, parse_case(text));
  Case other = c;
  matmul_case(other).alpha = 0;
  Case negative = other;
  matmul_case(negative).alpha = -0.0F;
  EXPECT_NE(other, negative);
  EXPECT_NE(other, c);
}

TEST(MatmulOperation, masked_groups_are_read_back_and_halved) {
  const std::string text =
      kPromotedByE8m0 + "groups=masked d=bf16 rows=24 cols=33 depth=256 counts=3,0,8 data=normal seed=7 adds=1";
  Case c = parse_case(text);
  EXPECT_EQ(to_text(c), text);
  find_operation("matmul")->halve_rows(c);
  EXPECT_NE(to_text(c).find("rows=12 cols=33 depth=256 counts=3,0,4 "), std::string::npos) << to_text(c);
}

TEST(MatmulOperation, refuses_what_no_call_can_pose) {
  test::expect_refused({
      {kPromotedByE8m0 + "groups=rows rows=3 cols=4 depth=128", "experts goes with groups=rows and groups=depth"},
      {kPromotedByE8m0 + "groups=none rows=3 cols=4 depth=128 experts=0,3",
       "experts goes with groups=rows and groups=depth"},
      {kPromotedByE8m0 + "groups=none rows=3 cols=4 depth=-1", "a matmul of 3 x 4 x -1"},
      {kPromotedByE8m0 + "groups=none rows=1073741824 cols=1 depth=1073741824", "operands of at most 2^36 codes"},
      {kPromotedByE8m0 + "groups=none rows=3 cols=4 depth=128 stride=9", "neither plants nor a stride"},
      {kPromotedByE8m0 + "groups=none rows=3 cols=4 depth=128 plant=0,0:0", "neither plants nor a stride"},
      {kPromotedByE8m0 + "groups=both rows=3 cols=4 depth=128",
       "case field groups=both is not one of none, rows, depth, masked"},
      {kPromotedByE8m0 + "groups=masked rows=4 cols=4 depth=128", "counts goes with groups=masked"},
      {kPromotedByE8m0 + "groups=rows rows=4 cols=4 depth=128 experts=0,4 counts=4", "counts goes with groups=masked"},
      {kPromotedByE8m0 + "groups=masked rows=5 cols=4 depth=128 counts=1,1",
       "2 masked groups of 5 rows in all: rows is a multiple of their number"},
      {kPromotedByE8m0 + "groups=masked rows=4 cols=4 depth=128 counts=1,3",
       "case field counts has 3: 0 to the groups' capacity, 2, is possible"},
      {kPromotedByE8m0 + "groups=masked rows=4 cols=4 depth=128 counts=-1,2", "case field counts has -1"},
      {kPromotedByE8m0 + "groups=masked rows=4 cols=4 depth=128 counts=1,2 gather=7",
       "masked groups have no row index"},
      {kPromotedByE8m0 + "groups=masked rows=4 cols=4 depth=128 counts=1,2 experts=0,4",
       "experts goes with groups=rows"},
      {kPromotedByE8m0 + "groups=none scales=int8 rows=3 cols=4",
       "case field scales=int8 is not one of none, e8m0, fp32"},
      {kPromotedByE8m0 + "groups=none rows=3 cols=4 tile=8", "case field tile=8"},
  });
  test::expect_error(ErrorKind::usage, "sm90_fp9", [] { (void)find_operation("matmul")->variant_name("sm90_fp9"); });
}

TEST(MatmulOperation, options_are_c_alpha_an_index_and_ragged_depth) {
  const Operation& matmul = *find_operation("matmul");
  const std::string plain = kPromotedByE8m0 + "groups=none d=fp32 rows=3 cols=4 depth=256 data=normal seed=1";
  EXPECT_FALSE(matmul.is_option(parse_case(plain)));
  for (const char* option : {" adds=1", " alpha=2", " gather=5"})
    EXPECT_TRUE(matmul.is_option(parse_case(plain + option))) << option;
  EXPECT_TRUE(matmul.is_option(parse_case(kPromotedByE8m0 + "groups=none rows=3 cols=4 depth=250")));
  EXPECT_TRUE(matmul.is_option(parse_case(kPromotedByE8m0 + "groups=depth rows=3 cols=4 depth=256 experts=0,100,256")));
  EXPECT_FALSE(
      matmul.is_option(parse_case(kPromotedByE8m0 + "groups=depth rows=3 cols=4 depth=256 experts=0,128,256")));
}

TEST(MatmulOperation, work_grows_with_depth_and_groups_end_where_they_say) {
  const Operation& matmul = *find_operation("matmul");
  const Case c = parse_case(kPromotedByE8m0 + "groups=depth rows=3 cols=4 depth=256 experts=0,128,256");
  EXPECT_EQ(matmul.work(c), 3 * 4 * 256);
  EXPECT_EQ(matmul.experts_end(c), 256);
  Case rows = parse_case(kPromotedByE8m0 + "groups=rows rows=10 cols=4 depth=256 experts=0,7,10");
  EXPECT_EQ(matmul.experts_end(rows), 10);
  matmul.halve_rows(rows);
  EXPECT_EQ(rows.rows, 5);
  EXPECT_EQ(rows.experts.back(), 5);
}

}  // namespace
}  // namespace mxcheck
