#include "reference/training/norm.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "numerics/error.h"
#include "tests/reference/training/plain.h"

namespace mxcheck {
namespace {

using namespace plain;

// docs/training.md, norm, for one row.
float plain_scale(const std::vector<float>& x) {
  std::vector<float> squares;
  for (const float v : x) squares.push_back(mul(v, v));
  return div(1, root(add(div(pairwise(squares), static_cast<float>(x.size())), 0x1p-16F)));
}

std::vector<float> part(const std::vector<float>& v, std::size_t row, std::size_t width) {
  return {v.begin() + static_cast<std::ptrdiff_t>(row * width),
          v.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

TEST(Norm, rows_and_gradients_are_those_of_the_definition) {
  // The last has so many elements that a difference in FP32's last bit reaches BF16 in some of them.
  for (const auto& [kRows, width] : {std::pair{19U, 1U}, {19U, 2U}, {19U, 13U}, {3000U, 64U}}) {
    const std::vector<float> x = values(kRows * width, 1), dy = values(kRows * width, 2), gain = values(width, 3, 4);
    const Norm n = norm(x, gain, 1);
    const NormGradient g = norm_backward(dy, x, n.scale, gain, 1);
    std::vector<std::vector<float>> columns(width);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::vector<float> row = part(x, r, width), d = part(dy, r, width);
      const float scale = plain_scale(row);
      EXPECT_EQ(n.scale[r], scale);
      std::vector<float> v, t, products;
      for (std::size_t i = 0; i < width; ++i) {
        ASSERT_EQ(n.y[r * width + i], bf16(mul(mul(row[i], scale), gain[i])));
        v.push_back(mul(row[i], scale)), t.push_back(mul(d[i], gain[i]));
        products.push_back(mul(t[i], v[i]));
        columns[i].push_back(mul(d[i], v[i]));
      }
      const float q = div(pairwise(products), static_cast<float>(width));
      for (std::size_t i = 0; i < width; ++i)
        ASSERT_EQ(g.dx[r * width + i], mul(scale, sub(t[i], mul(v[i], q)))) << width << ' ' << r << ' ' << i;
    }
    for (std::size_t i = 0; i < width; ++i) EXPECT_EQ(g.dgain[i], pairwise(columns[i]));
  }
}

TEST(Norm, threads_change_nothing) {
  const std::vector<float> x = values(3000 * 48, 1), dy = values(3000 * 48, 2), gain = values(48, 3);
  const Norm one = norm(x, gain, 1), three = norm(x, gain, 3);
  EXPECT_EQ(one.y, three.y);
  EXPECT_EQ(one.scale, three.scale);
  const NormGradient a = norm_backward(dy, x, one.scale, gain, 1), b = norm_backward(dy, x, one.scale, gain, 3);
  EXPECT_EQ(a.dx, b.dx);
  EXPECT_EQ(a.dgain, b.dgain);
}

TEST(Norm, rows_of_zeros_of_nan_and_beyond_the_range) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{0, 0, 1e-30F, -1e-30F, 3e38F, 1, kInf, 1, kNan, 1};
  const Norm n = norm(x, std::vector<float>{1, 2}, 1);
  EXPECT_EQ(n.scale[0], 256);  // 2^-16 alone is under the root
  EXPECT_EQ(n.y[0], 0);
  EXPECT_EQ(n.scale[1], 256);
  EXPECT_EQ(n.y[3], bf16(-2 * 256e-30F));
  EXPECT_EQ(n.scale[2], 0);  // the square is infinite
  EXPECT_EQ(n.y[4], 0);
  EXPECT_EQ(n.y[6], 0x7FFF);  // Inf * 0
  EXPECT_EQ(n.y[8], 0x7FFF);
  EXPECT_EQ(n.y[9], 0x7FFF);
}

TEST(Norm, sizes_that_do_not_agree_are_refused) {
  const std::vector<float> six(6), four(4), two(2), three(3);
  EXPECT_THROW(norm(six, four, 1), Error);
  EXPECT_THROW(norm(six, {}, 1), Error);
  EXPECT_THROW(norm_backward(four, six, three, two, 1), Error);
  EXPECT_THROW(norm_backward(six, six, two, two, 1), Error);
}

}  // namespace
}  // namespace mxcheck
