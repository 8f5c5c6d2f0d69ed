#include "goldens/make/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include "reference/common/matrix.h"

namespace mxcheck {
namespace {

// Without ties and near ties the goldens would tell less than they say.
TEST(SyntheticLogits, tie_in_every_way) {
  InputSpec input;
  input.rows = 48, input.cols = 16;
  for (const Format dtype : {Format::fp32, Format::bf16}) {
    input.dtype = dtype;
    const Tensor t = tied_logits(input);
    const MatrixView view{dtype, t.data.data(), 48, 16, 16};
    int rows_with_ties = 0, boundary_ties = 0;
    std::set<std::uint32_t> values;
    for (std::int64_t row = 0; row < 48; ++row) {
      std::vector<float> x(16);
      view.read_row(row, x);
      for (const float v : x) values.insert(std::bit_cast<std::uint32_t>(v));
      std::sort(x.begin(), x.end(), std::greater<>());
      rows_with_ties += std::adjacent_find(x.begin(), x.end()) != x.end() ? 1 : 0;
      boundary_ties += x[3] == x[4] ? 1 : 0;
    }
    EXPECT_EQ(values.size(), 16U);
    EXPECT_GT(rows_with_ties, 40);
    EXPECT_GT(boundary_ties, 10);
  }
}

TEST(SyntheticLogits, give_every_expert_its_load) {
  InputSpec input;
  input.loads = {0, 3, 1, 7, 4};
  input.rows = 15, input.cols = 5;
  for (const Format dtype : {Format::fp32, Format::bf16}) {
    input.dtype = dtype;
    const Tensor t = loaded_logits(input);
    const MatrixView view{dtype, t.data.data(), 15, 5, 5};
    std::vector<std::int64_t> loads(5);
    for (std::int64_t row = 0; row < 15; ++row) {
      std::vector<float> x(5);
      view.read_row(row, x);
      const auto best = std::max_element(x.begin(), x.end());
      EXPECT_GE(*best, 2);
      EXPECT_EQ(std::count_if(x.begin(), x.end(), [](float v) { return v > 0; }), 1);
      ++loads[static_cast<std::size_t>(best - x.begin())];
    }
    EXPECT_EQ(loads, input.loads);
  }
}

TEST(SyntheticGradient, is_of_24_bits_on_both_sides_of_zero_and_does_not_depend_on_its_length) {
  const std::vector<float> gradient = synthetic_gradient(1000);
  const std::vector<float> start = synthetic_gradient(10);
  EXPECT_TRUE(std::equal(start.begin(), start.end(), gradient.begin()));
  const auto [least, most] = std::minmax_element(gradient.begin(), gradient.end());
  EXPECT_GE(*least, -1);
  EXPECT_LT(*least, -0.9F);
  EXPECT_LT(*most, 1);
  EXPECT_GT(*most, 0.9F);
  for (const float g : gradient) EXPECT_EQ(std::ldexp(g, 23), std::round(std::ldexp(g, 23)));
}

}  // namespace
}  // namespace mxcheck
