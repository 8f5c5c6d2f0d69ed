#include "numerics/format/format.h"

#include <gtest/gtest.h>

#include <set>

namespace mxcheck {
namespace {

TEST(Format, every_format_is_found_by_both_of_its_names) {
  for (const Format format : kAllFormats) {
    EXPECT_EQ(find_format(spec(format).name), format) << spec(format).name;
    EXPECT_EQ(find_format(spec(format).dtype_name), format) << spec(format).dtype_name;
  }
  EXPECT_EQ(find_format("float8_e4m3fn"), Format::e4m3);
}

TEST(Format, names_are_distinct) {
  std::set<std::string_view> names;
  for (const Format format : kAllFormats) names.insert(spec(format).name);
  EXPECT_EQ(names.size(), kAllFormats.size());
}

TEST(Format, unknown_names_are_no_format) {
  for (const char* name : {"", "E4M3", "e4m3 ", "e4m3fnuz", "float8_e4m3"}) {
    EXPECT_EQ(find_format(name), std::nullopt) << name;
  }
}

TEST(Format, fields_fill_the_width) {
  for (const Format format : kAllFormats) {
    const FormatSpec& f = spec(format);
    const bool has_sign = f.encoding != Encoding::power_of_two;
    const int integer_bits = f.encoding == Encoding::fixed_point ? 1 : 0;
    EXPECT_EQ((has_sign ? 1 : 0) + f.exponent_bits + integer_bits + f.mantissa_bits, f.bits) << f.name;
  }
}

TEST(Format, types_hold_their_bits_in_the_smallest_integer) {
  static_assert(sizeof(E4m3) == 1 && sizeof(E8m0) == 1 && sizeof(E2m1) == 1 && sizeof(E5m6) == 2 && sizeof(Bf16) == 2);
  EXPECT_EQ(E5m6::format, Format::e5m6);
  EXPECT_NE(E4m3{{1}}, E4m3{{2}});
}

}  // namespace
}  // namespace mxcheck
