#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "numerics/byte_stream.h"
#include "numerics/bytes.h"

namespace mxcheck {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::input);
    return e.what();
  }
  return "none";
}

TEST(ByteStream, gives_numbers_texts_and_lists_again) {
  ByteWriter to;
  to.number(std::int64_t{-2});
  to.text("a\n");
  to.list(std::vector<std::uint16_t>{1, 0xFFFF});
  to.number(std::uint8_t{7});
  to.list(std::vector<double>{});
  to.text("");
  ByteReader from(to.bytes(), "x");
  EXPECT_EQ(from.number<std::int64_t>(), -2);
  EXPECT_EQ(from.text(), "a\n");
  EXPECT_EQ(from.list<std::uint16_t>(), (std::vector<std::uint16_t>{1, 0xFFFF}));
  EXPECT_EQ(from.number<std::uint8_t>(), 7);
  EXPECT_TRUE(from.list<double>().empty());
  EXPECT_EQ(from.text(), "");
  EXPECT_NO_THROW(from.finish());
}

TEST(ByteStream, is_little_endian_with_lengths_of_eight_bytes) {
  ByteWriter to;
  to.text("ab");
  to.number(std::uint16_t{0x1234});
  const std::vector<std::byte> wanted{std::byte{2},   std::byte{0},   std::byte{0},    std::byte{0},
                                      std::byte{0},   std::byte{0},   std::byte{0},    std::byte{0},
                                      std::byte{'a'}, std::byte{'b'}, std::byte{0x34}, std::byte{0x12}};
  EXPECT_EQ(to.bytes(), wanted);
}

TEST(ByteStream, refuses_what_ends_early_goes_on_or_calls_for_more_than_there_is) {
  ByteWriter to;
  to.text("abc");
  to.number(std::numeric_limits<std::uint64_t>::max());
  for (std::size_t cut = 0; cut < 11; ++cut) {
    EXPECT_NE(refusal([&] { ByteReader(std::span(to.bytes()).first(cut), "x.y: 3").text(); }), "none") << cut;
  }
  EXPECT_EQ(refusal([&] { ByteReader(std::span(to.bytes()).first(4), "x.y: 3").text(); }), "x.y: 3: ends early");
  ByteReader from(to.bytes(), "x");
  EXPECT_EQ(from.text(), "abc");
  EXPECT_EQ(refusal([&] { from.finish(); }), "x: 8 bytes too many");
  EXPECT_EQ(refusal([&] { from.list<std::uint64_t>(); }), "x: a length is more than what follows");
}

TEST(Bytes, are_those_of_memory_and_come_back) {
  const std::vector<std::uint16_t> values{0x0102, 0x0304};
  const std::vector<std::byte> bytes = to_bytes(values);
  EXPECT_EQ(bytes, (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{4}, std::byte{3}}));
  EXPECT_EQ(values_in<std::uint16_t>(bytes), values);
  EXPECT_EQ(values_in<std::uint32_t>(bytes), std::vector<std::uint32_t>{0x03040102});
}

TEST(Bytes, that_are_no_whole_value_are_left_out_whatever_their_alignment) {
  const std::vector<std::byte> bytes = to_bytes(std::vector<std::uint32_t>{0x04030201, 0x08070605});
  EXPECT_EQ(values_in<std::uint32_t>(std::span(bytes).subspan(1)), std::vector<std::uint32_t>{0x05040302});
  EXPECT_TRUE(values_in<std::uint64_t>(std::span(bytes).first(7)).empty());
  EXPECT_TRUE(to_bytes(std::vector<double>{}).empty());
}

}  // namespace
}  // namespace mxcheck
