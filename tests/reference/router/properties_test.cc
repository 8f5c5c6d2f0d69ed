// Effects of packed order and of the order of softmax and top-k: what they change and what they do not.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "reference/router/router.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"

namespace mxcheck {
namespace {

using test::bits;
using test::fp32_matrix;
using test::router_of;
using test::Row;
using test::TestMatrix;

using Experts = std::vector<std::int32_t>;

Experts experts_of(std::string_view name, std::int64_t top_k, const TestMatrix& matrix) {
  return route(router_of(name, top_k), matrix.view()).experts;
}

std::set<std::int32_t> as_set(const Experts& experts) { return {experts.begin(), experts.end()}; }

TEST(PackedOrder, of_fp32_is_another_set_where_values_differ_in_the_low_bits) {
  const TestMatrix row = fp32_matrix(1, 4, {1, 1 + 0x1p-23F, 0, 0});
  EXPECT_EQ(experts_of("topk-softmax", 1, row), Experts{1});
  EXPECT_EQ(experts_of("topk-softmax-packed", 1, row), Experts{0});
  // The same below zero: the larger of the two is -1, at index 1.
  const TestMatrix negative = fp32_matrix(1, 4, {-1 - 0x1p-23F, -1, -9, -9});
  EXPECT_EQ(experts_of("topk-softmax", 1, negative), Experts{1});
  EXPECT_EQ(experts_of("topk-softmax-packed", 1, negative), Experts{0});
}

TEST(PackedOrder, of_fp32_weighs_values_with_cleared_bits) {
  const float x = 1 + 3 * 0x1p-23F;  // two experts: one bit is cleared
  const Routes exact = route(router_of("topk-softmax", 2), fp32_matrix(1, 2, {1, x}).view());
  const Routes packed = route(router_of("topk-softmax-packed", 2), fp32_matrix(1, 2, {1, x}).view());
  const float e = exp_rn(-0x1p-22F);
  EXPECT_EQ(packed.experts, (Experts{1, 0}));
  EXPECT_EQ(packed.weights, (Row{1 / (1 + e), e / (1 + e)}));
  EXPECT_NE(bits(packed.weights), bits(exact.weights));
}

TEST(PackedOrder, of_bf16_is_the_order) {
  std::mt19937 engine(17);
  for (const std::int64_t experts : {2, 7, 64, 129, 512}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < 40 * experts; ++i) {  // few values, so that most tie
      values.push_back(static_cast<float>(static_cast<int>(engine() % 64) - 32) * 0.125F);
    }
    const TestMatrix matrix(Format::bf16, 40, experts, values);
    for (const std::int64_t k : {std::int64_t{1}, (experts + 1) / 2, experts}) {
      const Routes exact = route(router_of("topk-softmax", k), matrix.view());
      const Routes packed = route(router_of("topk-softmax-packed", k), matrix.view());
      EXPECT_EQ(packed.experts, exact.experts);
      EXPECT_EQ(bits(packed.weights), bits(exact.weights));
    }
  }
}

// A BF16 keeps its value when 16 bits below it are overwritten: every pair of neighbours, both ways round.
TEST(PackedOrder, of_every_bf16_and_its_neighbour_is_the_order) {
  std::vector<float> values;
  for (std::uint32_t code = 0; code < 0xFF7F; ++code) {
    const float x = std::bit_cast<float>(code << 16);
    const float y = std::bit_cast<float>((code + 1) << 16);
    if (!std::isfinite(x) || !std::isfinite(y) || code == 0x8000) continue;
    for (const float v : {x, y, y, x}) values.push_back(v);
  }
  const TestMatrix matrix(Format::bf16, std::ssize(values) / 2, 2, values);
  EXPECT_EQ(experts_of("topk-softmax-packed", 2, matrix), experts_of("topk-softmax", 2, matrix));
}

TEST(PackedOrder, puts_negative_zeros_behind_zeros_and_in_reverse) {
  const TestMatrix row(Format::bf16, 1, 4, {-0.0F, 0, -0.0F, 0});
  EXPECT_EQ(experts_of("topk-softmax", 4, row), (Experts{0, 1, 2, 3}));
  EXPECT_EQ(experts_of("topk-softmax-packed", 4, row), (Experts{1, 3, 2, 0}));
}

TEST(SoftmaxFirst, can_make_equal_what_logits_told_apart) {
  const TestMatrix row = fp32_matrix(1, 2, {0, 0x1p-30F});
  EXPECT_EQ(experts_of("topk-softmax", 1, row), Experts{1});
  EXPECT_EQ(experts_of("softmax-topk-renorm", 1, row), Experts{0});
}

// Where the kept are the same, both start from the same exp(d), for the row's largest is kept. With u = 2^-24,
// topk-softmax adds K of them ((K - 1) u) and divides (u); the other divides by S (u), adds (K - 1) and divides, on
// both sides of the quotient: K + 2. Together 2K + 2, and 1 for products of errors.
TEST(SoftmaxFirst, renormalized_equals_softmax_of_the_kept_within_rounding_but_not_in_bits) {
  std::mt19937 engine(23);
  std::vector<float> values;
  for (int i = 0; i < 2000 * 32; ++i) values.push_back(static_cast<float>(engine() % 20000) * 1e-3F - 10);
  const TestMatrix matrix = fp32_matrix(2000, 32, values);
  for (const std::int64_t k : {1, 2, 8}) {
    const Routes last = route(router_of("topk-softmax", k), matrix.view());
    const Routes first = route(router_of("softmax-topk-renorm", k), matrix.view());
    std::size_t differ = 0;
    double worst = 0;
    for (std::size_t t = 0; t < 2000; ++t) {
      const auto begin = static_cast<std::ptrdiff_t>(t) * k;
      const Experts a(last.experts.begin() + begin, last.experts.begin() + begin + k);
      const Experts b(first.experts.begin() + begin, first.experts.begin() + begin + k);
      if (as_set(a) != as_set(b)) continue;
      for (std::size_t i = t * static_cast<std::size_t>(k); i < (t + 1) * static_cast<std::size_t>(k); ++i) {
        const double x = last.weights[i];
        const double y = first.weights[i];
        differ += x != y;
        worst = std::max(worst, std::fabs(x - y) / x);
      }
    }
    EXPECT_LE(worst, static_cast<double>(2 * k + 3) * 0x1p-24) << k;
    EXPECT_TRUE(k != 8 || differ > 100) << differ;
  }
}

}  // namespace
}  // namespace mxcheck
