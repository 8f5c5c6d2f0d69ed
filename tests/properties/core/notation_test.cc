#include "properties/core/notation.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

TEST(Notation, gives_bits_fields_hexfloat_and_decimal) {
  struct Row {
    Format format;
    std::uint32_t bits;
    const char* text;
  };
  const Row rows[] = {
      {Format::bf16, 0x43E0, "0x43e0 = 0.10000111.1100000 = 0x1.cp+8 = 448"},
      {Format::e4m3, 0x7E, "0x7e = 0.1111.110 = 0x1.cp+8 = 448"},
      {Format::e4m3, 0x81, "0x81 = 1.0000.001 = -0x1p-9 = -0.001953125"},
      {Format::e4m3, 0x7F, "0x7f = 0.1111.111 = nan = nan"},
      {Format::e5m2, 0xFC, "0xfc = 1.11111.00 = -inf = -inf"},
      {Format::e8m0, 0x7F, "0x7f = 01111111 = 0x1p+0 = 1"},
      {Format::mxint8, 0xC0, "0xc0 = 11000000 = -0x1p+0 = -1"},
      {Format::e2m1, 0x7, "0x7 = 0.11.1 = 0x1.8p+2 = 6"},
      {Format::fp32, 0x80000000, "0x80000000 = 1.00000000.00000000000000000000000 = -0x0p+0 = -0"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(notations(row.format, row.bits), row.text);
  }
  EXPECT_EQ(notations(448.0), "0x1.cp+8 = 448");
}

TEST(Notation, steps_are_counted_on_the_ordered_line) {
  struct Row {
    Format format;
    std::uint32_t a, b;
    std::int64_t steps;
  };
  const Row rows[] = {
      {Format::e4m3, 0x00, 0x80, 1},
      {Format::e4m3, 0x7E, 0xFE, 2 * 0x7E + 1},
      {Format::e4m3, 0x38, 0x39, 1},
      {Format::e4m3, 0x7F, 0xFF, 0},
      {Format::e4m3, 0x7F, 0x7E, -1},
      {Format::e4m3, 0x00, 0x7F, -1},
      {Format::e8m0, 0, 254, 254},
      {Format::e8m0, 255, 254, -1},
      {Format::mxint8, 0x80, 0x7F, 255},
      {Format::bf16, 0x7F7F, 0x7F80, 1},
      {Format::fp32, 0x7FC00000, 0xFFC00001, 0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ulp_distance_of_codes(row.format, row.a, row.b), row.steps) << row.a << ' ' << row.b;
    EXPECT_EQ(ulp_distance_of_codes(row.format, row.b, row.a), row.steps) << row.b << ' ' << row.a;
  }
}

}  // namespace
}  // namespace mxcheck
