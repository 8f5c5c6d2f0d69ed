#include "numerics/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace mxcheck {
namespace {

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
