// Known answers are from the formula in arbitrary-precision integers (Python).

#include "reference/training/digest.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/reference/training/plain.h"

namespace mxcheck {
namespace {

TEST(Digest, has_known_answers) {
  EXPECT_EQ(tensor_digest(std::vector<float>{}, 1), 0U);
  EXPECT_EQ(tensor_digest(std::vector<float>{1.0F, -0.0F, std::numeric_limits<float>::quiet_NaN(), 3.5F}, 1),
            0x7d1571942da4efebU);
  EXPECT_EQ(tensor_digest(std::vector<std::uint16_t>{0x3f80, 0x8000, 0x7fff}, 1), 0x65d04b20902e44ebU);
  EXPECT_EQ(digest_of_digests(std::vector<std::uint64_t>{0x0123456789abcdef, 0xfedcba9876543210}), 0x3ec848f28b70cd24U);
  std::vector<float> counted;
  for (int i = 0; i < 70000; ++i) counted.push_back(static_cast<float>(i));
  for (const int threads : {1, 2, 3}) EXPECT_EQ(tensor_digest(counted, threads), 0xccd4898199ebc03fU);
}

TEST(Digest, every_nan_counts_alike_and_infinities_do_not) {
  const auto of = [](std::uint32_t bits) { return tensor_digest(std::vector<float>{std::bit_cast<float>(bits)}, 1); };
  EXPECT_EQ(of(0x7F800001), of(0xFFFFFFFF));
  EXPECT_NE(of(0x7F800000), of(0x7FFFFFFF));
  EXPECT_NE(of(0x7F800000), of(0xFF800000));
  const auto of_bf16 = [](std::uint16_t word) { return tensor_digest(std::vector<std::uint16_t>{word}, 1); };
  EXPECT_EQ(of_bf16(0x7F81), of_bf16(0xFFC0));
  EXPECT_NE(of_bf16(0x7F80), of_bf16(0x7FFF));
}

TEST(Digest, a_bit_an_exchange_and_a_length_are_seen) {
  std::vector<float> v = plain::values(100, 1);
  std::set<std::uint64_t> digests{tensor_digest(v, 1)};
  for (float& x : v) {
    const float kept = x;
    x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1U);
    EXPECT_TRUE(digests.insert(tensor_digest(v, 1)).second);
    x = kept;
  }
  std::swap(v[3], v[4]);
  EXPECT_TRUE(digests.insert(tensor_digest(v, 1)).second);
  v.push_back(0);
  EXPECT_TRUE(digests.insert(tensor_digest(v, 1)).second);
}

}  // namespace
}  // namespace mxcheck
