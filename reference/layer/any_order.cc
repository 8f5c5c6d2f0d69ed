#include "reference/layer/any_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

constexpr double kNoRange = std::numeric_limits<double>::infinity();
constexpr double kNormal = 0x1p-126;  // FP32's smallest normal number

double in_bf16(double x) {
  return std::isfinite(x)
             ? decode(Format::bf16, encode(Format::bf16, x, Rounding::nearest_even, Overflow::non_saturate))
             : x;
}

bool may_be_flushed(float x) { return x != 0 && std::fabs(double{x}) < kNormal; }

// A token's rows as a product: its weights times the rows of y.
class TokenProduct {
 public:
  TokenProduct(const AggregatedRows& from, const TokenSlots& slots, std::int64_t token) : cols_(from.cols) {
    for (std::int64_t slot = slots.token_offsets[static_cast<std::size_t>(token)];
         slot < slots.token_offsets[static_cast<std::size_t>(token) + 1]; ++slot) {
      const std::int32_t row = slots.token_rows[static_cast<std::size_t>(slot)];
      if (row < 0) continue;
      weights_.push_back(from.weights.empty() ? 1 : from.weights[static_cast<std::size_t>(row)]);
      const auto of_row = row_of(from.y, row, from.cols);
      y_.insert(y_.end(), of_row.begin(), of_row.end());
    }
    ones_.assign(weights_.size(), 0x3F80);
    const auto depth = std::ssize(weights_);
    product_.contract = parse_matmul_contract("any_order");
    product_.a = {Format::fp32, weights_.data(), 1, depth, depth};
    if (from.weights.empty()) product_.a = {Format::bf16, ones_.data(), 1, depth, depth};
    product_.b = {Format::bf16, y_.data(), cols_, depth, 1, cols_};
    product_.threads = 1;
  }
  TokenProduct(const TokenProduct&) = delete;
  TokenProduct& operator=(const TokenProduct&) = delete;

  [[nodiscard]] const Matmul& product() const { return product_; }
  // The terms of a column that may be missing.
  [[nodiscard]] double flushed(std::int64_t col) const {
    double sum = 0;
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      const float y = fp32_of(y_[k * static_cast<std::size_t>(cols_) + static_cast<std::size_t>(col)]);
      if (may_be_flushed(weights_[k]) || may_be_flushed(y)) sum += std::fabs(double{weights_[k]} * double{y});
    }
    return sum;
  }

 private:
  std::int64_t cols_;
  std::vector<float> weights_;
  std::vector<std::uint16_t> ones_;
  std::vector<std::uint16_t> y_;  // rows x cols
  Matmul product_;
};

}  // namespace

std::vector<OutputRange> aggregate_ranges(const AggregatedRows& from, const TokenSlots& slots,
                                          std::span<const std::uint8_t> wanted, int threads) {
  check_aggregation(from, slots);
  const auto tokens = std::ssize(slots.token_offsets) - 1;
  std::vector<OutputRange> ranges;
  resize_or_throw(ranges, checked_product(tokens, from.cols, "output"), "ranges of the output");
  parallel_ranges(tokens, tokens * from.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto of_token = row_of(ranges, t, from.cols);
      const auto asked = wanted.empty() ? wanted : row_of(wanted, t, from.cols);
      std::fill(of_token.begin(), of_token.end(), OutputRange{-kNoRange, kNoRange, false, true});
      if (!asked.empty() && std::all_of(asked.begin(), asked.end(), [](std::uint8_t one) { return one == 0; }))
        continue;
      const TokenProduct token(from, slots, t);
      const std::vector<OutputRange> sums = any_order_ranges(token.product(), asked);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        OutputRange& one = of_token[j] = sums[j];
        if (one.unbounded || one.is_nan) continue;
        const double flushed = token.flushed(static_cast<std::int64_t>(j));
        one.low = in_bf16(one.low - flushed), one.high = in_bf16(one.high + flushed);
      }
    }
  });
  return ranges;
}

ExactOutput exact_aggregate(const AggregatedRows& from, const TokenSlots& slots, std::int64_t token, std::int64_t col) {
  check_aggregation(from, slots);
  return exact_output(TokenProduct(from, slots, token).product(), col);
}

}  // namespace mxcheck
