#include "properties/core/case.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/core/rng.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

constexpr const char* kExample =
    "op=quantize format=e4m3 recipe=rceil block=1x32 layout=tcgen05 x=bf16 rows=3 cols=33 stride=40 experts=0,1,3 "
    "gather=5 "
    "data=normal seed=7 plant=0,31:7f80 pad=255 threads=2";

Case random_case(std::uint64_t seed) {
  Draw draw(seed);
  Case c;
  constexpr const char* kOperations[] = {"quantize", "quantize_dual", "dequantize", "scale_layout"};
  constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::mxint8};
  constexpr BlockShape kShapes[] = {{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}};
  constexpr Format kDtypes[] = {Format::bf16, Format::fp32, Format::fp16};
  constexpr const char* kRecipes[] = {"rceil", "floor", "te"};
  c.variant.operation = draw.pick(kOperations);
  blocks_of(c.variant) = {draw.pick(kFormats), draw.pick(kRecipes), draw.pick(kShapes),
                          static_cast<int>(draw.below(2))};
  c.variant.dtype = draw.pick(kDtypes);
  c.rows = draw.between(0, 200), c.cols = draw.between(0, 200);
  if (draw.chance(30)) c.stride = c.cols + draw.between(1, 9);
  if (draw.chance(40)) c.experts = {0, draw.between(0, c.rows), c.rows};
  c.data = static_cast<Data>(draw.below(std::size(kDataNames)));
  c.seed = draw.word();
  for (std::uint64_t n = draw.below(4); n > 0 && c.elements() > 0; --n) {
    c.plants.push_back(
        {draw.between(0, c.rows - 1), draw.between(0, c.cols - 1), static_cast<std::uint32_t>(draw.below(65536))});
  }
  if (draw.chance(60)) blocks_case(c).pad = static_cast<std::uint8_t>(draw.below(256));
  c.threads = static_cast<int>(draw.below(5));
  return c;
}

TEST(Case, reads_the_example_of_its_header) {
  const Case c = parse_case(kExample);
  Variant expected{"quantize", Format::bf16};
  blocks_of(expected) = {Format::e4m3, "rceil", {1, 32}, 1};
  EXPECT_EQ(c.variant, expected);
  EXPECT_EQ(c.rows, 3);
  EXPECT_EQ(c.cols, 33);
  EXPECT_EQ(c.stride, 40);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(c.data, Data::normal);
  EXPECT_EQ(c.seed, 7U);
  EXPECT_EQ(c.plants, (std::vector<Plant>{{0, 31, 0x7F80}}));
  EXPECT_EQ(int{blocks_case(c).pad}, 255);
  EXPECT_EQ(c.threads, 2);
  EXPECT_EQ(to_text(c), kExample);
}

TEST(Case, survives_the_way_to_text_and_back) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = random_case(seed);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
  }
}

TEST(Case, has_a_name_for_every_distribution) {
  for (std::size_t i = 0; i < std::size(kDataNames); ++i) {
    Case c;
    c.variant.operation = "quantize", c.data = static_cast<Data>(i);
    EXPECT_NE(to_text(c).find("data=" + std::string(kDataNames[i]) + " "), std::string::npos);
  }
  EXPECT_EQ(static_cast<std::size_t>(Data::real) + 1, std::size(kDataNames));
}

TEST(Case, fields_come_in_any_order_with_any_spaces) {
  EXPECT_EQ(parse_case("  rows=2   op=quantize cols=4 "), parse_case("op=quantize cols=4 rows=2"));
}

TEST(Case, refuses_what_it_cannot_mean) {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"", "a case without op="},
      {"rows=2 cols=2", "a case without op="},
      {"op=quantize rows", "of the form FIELD=VALUE"},
      {"op=quantize color=red", "case field color=red is not a field of op=quantize"},
      {"op=quantize rows=two", "case field rows=two is not a number"},
      {"op=quantize rows=", "case field rows= is not a number"},
      {"op=quantize rows=2x", "case field rows=2x is not a number"},
      {"op=quantize rows=-1", "a case of -1 x 0 elements"},
      {"op=quantize rows=99999999999999999999", "is not a number in range"},
      {"op=quantize rows=68719476737 cols=1", "at most 2^36"},
      {"op=quantize rows=1048576 cols=1048576", "at most 2^36"},
      {"op=quantize rows=68719476736 cols=1 stride=137438953472", "at most 2^36"},
      {"op=quantize rows=2 cols=4 stride=3", "case field stride is less than cols"},
      {"op=quantize rows=2 cols=4 stride=-1", "stride"},
      {"op=quantize rows=2 cols=4 gather=-1", "case field gather"},
      {"op=quantize rows=2 cols=4 gather=68719476736", "case field gather"},
      {"op=quantize format=e9m9", "case field format=e9m9 is not a format"},
      {"op=quantize x=double", "case field x=double is not a format"},
      {"op=quantize recipe=best", "best"},
      {"op=quantize block=7", "7"},
      {"op=quantize layout=flat", "case field layout=flat is not one of compact, tcgen05"},
      {"op=quantize pad=256", "case field pad=256 is not a number in range"},
      {"op=quantize pad=-1", "case field pad=-1 is not a number in range"},
      {"op=quantize seed=-1", "case field seed=-1 is not a number in range"},
      {"op=quantize threads=-1", "case field threads is negative"},
      {"op=quantize data=nice", "case field data=nice is not a distribution"},
      {"op=quantize rows=3 cols=1 experts=1,3", "offset"},
      {"op=quantize rows=3 cols=1 experts=0,2", "offset"},
      {"op=quantize rows=3 cols=1 experts=0,3,2,3", "offset"},
      {"op=quantize rows=3 cols=1 experts=", "case field experts= is not a list"},
      {"op=quantize rows=3 cols=1 experts=0,,3", "case field experts= is not a number"},
      {"op=quantize rows=2 cols=2 plant=0,0", "is not ROW,COL:HEXBITS"},
      {"op=quantize rows=2 cols=2 plant=0:0,1", "is not ROW,COL:HEXBITS"},
      {"op=quantize rows=2 cols=2 plant=0,0:zz", "case field plant=zz is not a number"},
      {"op=quantize rows=2 cols=2 plant=2,0:0", "lies outside the matrix"},
      {"op=quantize rows=2 cols=2 plant=0,-1:0", "lies outside the matrix"},
      {"op=quantize x=bf16 rows=2 cols=2 plant=0,0:10000", "more bits than x=bf16"},
      {"op=quantize rows=1 cols=1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 "
       "plant=0,0:1 plant=0,0:1",
       "more than 8"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    test::expect_error(ErrorKind::usage, row.message, [&] { (void)parse_case(row.text); });
  }
}

TEST(Case, says_where_its_tensors_begin) {
  constexpr const char* kText =
      "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=2 data=zeros seed=0 "
      "misaligned=2,8,0,0/5,0,0,63";
  const Case c = parse_case(kText);
  EXPECT_EQ(c.misaligned.of_input(0), 2);
  EXPECT_EQ(c.misaligned.of_input(7), 0);
  EXPECT_EQ(c.misaligned.of_output(0), 5);
  EXPECT_EQ(c.misaligned.of_output(4), 63);
  EXPECT_EQ(to_text(c), kText);
  for (const char* wrong : {"1", "1,2/3", "64,0,0,0/0,0,0,0", "0,0,0,0/0,0,0", "0,0,0,0/0,0,0,x", "-1,0,0,0/0,0,0,0"}) {
    test::expect_error(ErrorKind::usage, "case field misaligned=", [&] {
      (void)parse_case(std::string("op=quantize rows=1 cols=1 misaligned=") + wrong);
    });
  }
}

}  // namespace
}  // namespace mxcheck
