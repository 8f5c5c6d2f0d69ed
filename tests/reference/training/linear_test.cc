// A linear map and its gradients: exact on small integers, and the same product whichever way operands lie.

#include "reference/training/linear.h"

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "tests/reference/training/plain.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

Words turned(const Words& w, std::int64_t rows, std::int64_t cols) {
  Words t(w.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c)
      t[static_cast<std::size_t>(c * rows + r)] = w[static_cast<std::size_t>(r * cols + c)];
  }
  return t;
}

Words integers(std::size_t count, int seed) {
  Words w;
  for (std::size_t i = 0; i < count; ++i)
    w.push_back(plain::bf16(static_cast<float>((static_cast<int>(i) * 7 + seed) % 9 - 4)));
  return w;
}

// Sums of products of integers below 5 are exact in every order, and below 2^8 in BF16 too.
TEST(Linear, products_of_integers_are_exact) {
  const LinearShape s{5, 7, 3};
  const Words x = integers(35, 1);
  const Words w = integers(21, 2);
  const Words dy = integers(15, 3);
  const auto at = [](const Words& m, std::int64_t cols, std::int64_t r, std::int64_t c) {
    return plain::wide(m[static_cast<std::size_t>(r * cols + c)]);
  };
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      float y = 0;
      for (std::int64_t i = 0; i < s.in; ++i) y += at(x, 7, r, i) * at(w, 7, o, i);
      EXPECT_EQ(linear(s, x, w, 1)[static_cast<std::size_t>(r * 3 + o)], y);
      EXPECT_EQ(plain::wide(linear_bf16(s, x, w, 1)[static_cast<std::size_t>(r * 3 + o)]), y);
    }
    for (std::int64_t i = 0; i < s.in; ++i) {
      float dx = 0;
      for (std::int64_t o = 0; o < s.out; ++o) dx += at(dy, 3, r, o) * at(w, 7, o, i);
      EXPECT_EQ(linear_dx(s, dy, w, 1)[static_cast<std::size_t>(r * 7 + i)], dx);
    }
  }
  for (std::int64_t o = 0; o < s.out; ++o) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      float dw = 0;
      for (std::int64_t r = 0; r < s.rows; ++r) dw += at(dy, 3, r, o) * at(x, 7, r, i);
      EXPECT_EQ(linear_dw(s, dy, x, 1)[static_cast<std::size_t>(o * 7 + i)], dw);
    }
  }
}

// The order of a contract's sum is by k, not by how operands lie: gradients are the map of transposed tensors.
TEST(Linear, gradients_are_the_same_product_of_transposed_operands) {
  const LinearShape s{45, 67, 35};
  const Words x = plain::words(45 * 67, 1);
  const Words w = plain::words(35 * 67, 2);
  const Words dy = plain::words(45 * 35, 3);
  EXPECT_EQ(linear_dx(s, dy, w, 1), linear({45, 35, 67}, dy, turned(w, 35, 67), 1));
  EXPECT_EQ(linear_dx_bf16(s, dy, w, 1), linear_bf16({45, 35, 67}, dy, turned(w, 35, 67), 1));
  EXPECT_EQ(linear_dw(s, dy, x, 1), linear({35, 45, 67}, turned(dy, 45, 35), turned(x, 45, 67), 1));
  EXPECT_EQ(linear_dw(s, dy, x, 1), linear_dw(s, dy, x, 3));
  const std::vector<float> y = linear(s, x, w, 1);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(linear_bf16(s, x, w, 3)[i], plain::bf16(y[i]));
}

TEST(Linear, sizes_that_do_not_agree_are_refused) {
  const LinearShape s{4, 8, 2};
  const Words x(32), w(16), dy(8);
  EXPECT_THROW(linear(s, w, w, 1), Error);
  EXPECT_THROW(linear_bf16(s, x, x, 1), Error);
  EXPECT_THROW(linear_dx(s, x, w, 1), Error);
  EXPECT_THROW(linear_dx_bf16(s, dy, x, 1), Error);
  EXPECT_THROW(linear_dw(s, dy, dy, 1), Error);
}

}  // namespace
}  // namespace mxcheck
