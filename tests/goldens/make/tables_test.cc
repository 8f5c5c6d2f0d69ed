#include "goldens/make/tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

GoldenSpec spec_of(GoldenKind kind, Format format) {
  GoldenSpec golden;
  golden.name = "g", golden.kind = kind, golden.format = format;
  return golden;
}

template <class T>
std::vector<T> values_of(const Table& table, const std::string& dataset) {
  for (std::size_t i = 0; i < table.data.size(); ++i) {
    if (table.info.datasets[i].name == dataset) return values_in<T>(table.data[i]);
  }
  ADD_FAILURE() << "no dataset " << dataset;
  return {};
}

TEST(Tables, hold_the_value_of_every_code) {
  GoldenSpec golden = spec_of(GoldenKind::formats, Format::e4m3);
  golden.formats = {Format::e4m3, Format::e2m1};
  const Table table = make_table(golden);
  const auto e4m3 = values_of<float>(table, "e4m3");
  ASSERT_EQ(e4m3.size(), 256U);
  EXPECT_EQ(e4m3[0x7E], 448.0F);
  EXPECT_TRUE(std::isnan(e4m3[0x7F]));
  EXPECT_EQ(values_of<float>(table, "e2m1"),
            (std::vector<float>{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6}));
}

TEST(Tables, hold_the_codecs_casts) {
  const Table table = make_table(spec_of(GoldenKind::casts, Format::e4m3));
  const auto x = values_of<float>(table, "x");
  const auto codes = values_of<std::uint8_t>(table, "nearest_even_saturate");
  const auto cut = values_of<std::uint8_t>(table, "toward_zero_non_saturate");
  EXPECT_GT(x.size(), 1500U);  // 127 magnitudes and midpoints, three floats each, both signs
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(codes[i], encode(Format::e4m3, x[i], Rounding::nearest_even, Overflow::saturate));
    EXPECT_EQ(cut[i], encode(Format::e4m3, x[i], Rounding::toward_zero, Overflow::non_saturate));
  }
}

TEST(Tables, hold_a_scale_of_every_recipe_and_tell_rules_apart) {
  const Table table = make_table(spec_of(GoldenKind::scales, Format::e4m3));
  EXPECT_EQ(table.info.datasets.size(), 1 + all_recipes().size());
  const auto amax = values_of<float>(table, "amax");
  const auto floor = values_of<std::uint8_t>(table, "floor"), te = values_of<std::uint8_t>(table, "te");
  std::size_t differ = 0;
  for (std::size_t i = 0; i < amax.size(); ++i) {
    if (std::isnan(amax[i])) continue;
    EXPECT_EQ(te[i], scale_byte_for_amax(recipe_named("te"), Format::e4m3, amax[i]));
    differ += floor[i] != te[i] ? 1 : 0;
  }
  EXPECT_GT(differ, 200U);
}

TEST(Tables, hold_both_layouts_of_scales_that_never_are_the_pad_byte) {
  GoldenSpec golden = spec_of(GoldenKind::layout, Format::e4m3);
  golden.rows = 5, golden.cols = 3, golden.pad_byte = 0x5A;
  const Table table = make_table(golden);
  const auto scales = values_of<std::uint8_t>(table, "scales");
  ASSERT_EQ(scales.size(), 15U);
  EXPECT_EQ(std::count(scales.begin(), scales.end(), 0x5A), 0);
  const ScaleShape shape{{5}, 3};
  EXPECT_EQ(values_of<std::uint8_t>(table, "tcgen05"), to_layout(ScaleLayout::tcgen05, shape, scales, 0x5A));
  EXPECT_EQ(values_of<std::uint8_t>(table, "deepgemm"), to_layout(ScaleLayout::deepgemm, shape, scales, 0x5A));
}

TEST(Tables, hold_every_code_under_every_scale_byte) {
  const Table table = make_table(spec_of(GoldenKind::dequantize, Format::e2m1));
  const auto values = values_of<float>(table, "values");
  ASSERT_EQ(values.size(), 256U * 32);
  EXPECT_EQ(values[128 * 32 + 7], 12.0F);  // 6 times 2
  EXPECT_TRUE(std::isnan(values[255 * 32]));
}

}  // namespace
}  // namespace mxcheck
