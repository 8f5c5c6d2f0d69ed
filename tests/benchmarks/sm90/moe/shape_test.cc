#include "benchmarks/sm90/moe/shape.h"

#include <gtest/gtest.h>

#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

std::string refusal_of(const char* text) {
  try {
    parse_moe_shape(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(MoeShape, reads_five_numbers) {
  const MoeShape right{32768, 4096, 1024, 128, 8};
  EXPECT_EQ(parse_moe_shape("32768,4096,1024,128,8"), right);
  EXPECT_EQ(right.text(), "T=32768 d=4096 n=1024 E=128 K=8");
  EXPECT_EQ(right.rows(), 262144);
}

TEST(MoeShape, refuses_what_is_no_shape) {
  for (const char* text : {"", "1", "1,2,3,4", "1,2,3,4,", "1,2,3,4,x", "1;2,3,4,4", "1,2,3,4,4,5", "1,2,3,4,4 "}) {
    EXPECT_NE(refusal_of(text), "") << text;
  }
  EXPECT_NE(refusal_of("0,2,3,4,4").find("0 is not in 1 to 1048576"), std::string::npos);
  EXPECT_NE(refusal_of("1,2,3,4,5").find("K is above E"), std::string::npos);
}

TEST(MoeShape, counts_the_operations_of_two_gemms_and_of_their_gradients) {
  const MoeShape s = parse_moe_shape("10,7,5,4,3");
  const double up = 2.0 * 30 * 7 * (2 * 5);
  const double down = 2.0 * 30 * 5 * 7;
  EXPECT_EQ(s.operations(Direction::forward), up + down);
  EXPECT_EQ(s.operations(Direction::backward), 2 * (up + down));
  // 6300 operations in 2 microseconds.
  EXPECT_DOUBLE_EQ(s.tflops(Direction::forward, 2), 0.00315);
}

TEST(SonicMoe, has_a_rate_for_each_shape_that_is_measured_by_default) {
  for (const MoeShape& s : default_moe_shapes()) {
    const SonicMoeRate* const rate = find_sonic_moe_rate(s);
    ASSERT_NE(rate, nullptr) << s.text();
    EXPECT_GT(rate->forward, 0);
    EXPECT_GT(rate->backward, 0);
  }
  EXPECT_EQ(find_sonic_moe_rate(parse_moe_shape("32768,4096,1024,128,4")), nullptr);
}

TEST(SonicMoe, keeps_x_and_h) {
  // X of 10 x 7 and H of 30 x 10, both in BF16.
  EXPECT_EQ(sonic_moe_kept_bytes(parse_moe_shape("10,7,5,4,3")), 2U * 70 + 2U * 300);
}

}  // namespace
}  // namespace mxcheck::bench
