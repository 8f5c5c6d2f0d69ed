#include "numerics/format/packing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Codes = std::vector<std::uint16_t>;
using Words = std::vector<std::uint32_t>;

template <class Action>
std::string refusal(Action action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Packing, e2m1_puts_the_first_code_in_the_low_nibble) {
  EXPECT_EQ(pack_e2m1(Bytes{0x1, 0x2, 0xF, 0x0}), (Bytes{0x21, 0x0F}));
  EXPECT_EQ(unpack_e2m1(Bytes{0x21, 0x0F}, 4), (Bytes{0x1, 0x2, 0xF, 0x0}));
}

TEST(Packing, e2m1_fills_an_odd_end_with_zero) {
  EXPECT_EQ(pack_e2m1(Bytes{0x7, 0x8, 0x9}), (Bytes{0x87, 0x09}));
  EXPECT_EQ(unpack_e2m1(Bytes{0x87, 0x09}, 3), (Bytes{0x7, 0x8, 0x9}));
  EXPECT_EQ(pack_e2m1(Bytes{}), Bytes{});
  EXPECT_EQ(unpack_e2m1(Bytes{}, 0), Bytes{});
}

TEST(Packing, e2m1_unpacks_every_byte_to_what_packs_to_it) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const Bytes packed{static_cast<std::uint8_t>(byte)};
    EXPECT_EQ(unpack_e2m1(packed, 2),
              (Bytes{static_cast<std::uint8_t>(byte & 15), static_cast<std::uint8_t>(byte >> 4)}));
    EXPECT_EQ(pack_e2m1(unpack_e2m1(packed, 2)), packed);
  }
}

TEST(Packing, e5m6_runs_from_the_high_end_of_the_first_word) {
  // As hexadecimal digits the codes follow one another: three digits a code, eight digits a word.
  EXPECT_EQ(pack_e5m6(Codes{0x123, 0x456, 0x789, 0xABC, 0xDEF, 0x012, 0x345, 0x678}),
            (Words{0x12345678, 0x9ABCDEF0, 0x12345678}));
}

TEST(Packing, e5m6_places_each_code_alone) {
  const Words expected[8] = {{0xFFF00000, 0, 0}, {0x000FFF00, 0, 0}, {0x000000FF, 0xF0000000, 0},
                             {0, 0x0FFF0000, 0}, {0, 0x0000FFF0, 0}, {0, 0x0000000F, 0xFF000000},
                             {0, 0, 0x00FFF000}, {0, 0, 0x00000FFF}};
  for (std::size_t i = 0; i < 8; ++i) {
    Codes codes(8);
    codes[i] = 0xFFF;
    EXPECT_EQ(pack_e5m6(codes), expected[i]) << i;
    EXPECT_EQ(unpack_e5m6(expected[i]), codes) << i;
  }
}

TEST(Packing, e5m6_unpacks_what_it_packs) {
  Codes codes;
  for (unsigned code = 0; code < 0x1000; ++code) codes.push_back(static_cast<std::uint16_t>(code * 2731 & 0xFFF));
  EXPECT_EQ(pack_e5m6(codes).size(), codes.size() * 3 / 8);
  EXPECT_EQ(unpack_e5m6(pack_e5m6(codes)), codes);
  EXPECT_EQ(pack_e5m6(Codes{}), Words{});
  EXPECT_EQ(unpack_e5m6(Words{}), Codes{});
}

TEST(Packing, refuses_codes_that_are_too_wide) {
  EXPECT_EQ(refusal(
                [] {
                  pack_e2m1(Bytes{1, 16});
                },
                ErrorKind::input),
            "code 16 at index 1 is no e2m1 code; the largest is 15");
  EXPECT_EQ(refusal(
                [] {
                  pack_e5m6(Codes{0, 0, 0, 0, 0, 0, 0, 0x1000});
                },
                ErrorKind::input),
            "code 4096 at index 7 is no e5m6 code; the largest is 4095");
}

TEST(Packing, refuses_counts_that_do_not_fit) {
  EXPECT_EQ(refusal([] { pack_e5m6(Codes(7)); }, ErrorKind::usage),
            "7 e5m6 codes do not fill groups: the count must be a multiple of 8");
  EXPECT_EQ(refusal([] { unpack_e5m6(Words(4)); }, ErrorKind::usage),
            "4 e5m6 words do not fill groups: the count must be a multiple of 3");
  EXPECT_EQ(refusal([] { unpack_e2m1(Bytes(2), 5); }, ErrorKind::usage), "5 e2m1 codes take 3 bytes, not 2");
  EXPECT_EQ(refusal([] { unpack_e2m1(Bytes{0x10}, 1); }, ErrorKind::input),
            "the unused high nibble of the last byte of 1 e2m1 codes is not zero");
}

}  // namespace
}  // namespace mxcheck
