#include "reference/layer/any_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/run.h"
#include "reference/layer/swiglu.h"

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
                                          std::span<const std::uint8_t> wanted, Format output, int threads) {
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
        one.low -= flushed, one.high += flushed;
        if (output == Format::bf16) one.low = in_bf16(one.low), one.high = in_bf16(one.high);
      }
    }
  });
  return ranges;
}

ExactOutput exact_aggregate(const AggregatedRows& from, const TokenSlots& slots, std::int64_t token, std::int64_t col) {
  check_aggregation(from, slots);
  return exact_output(TokenProduct(from, slots, token).product(), col);
}

// SwiGLU, element by element.

namespace {

constexpr double kUlp = 0x1p-23;
constexpr double kLeast = 0x1p-149;
constexpr double kMost = 0x1p127;

struct Interval {
  double low, high;
  [[nodiscard]] bool has_zero() const { return low <= 0 && high >= 0; }
  [[nodiscard]] double least() const { return has_zero() ? 0 : std::min(std::fabs(low), std::fabs(high)); }
  [[nodiscard]] double most() const { return std::max(std::fabs(low), std::fabs(high)); }
};
Interval around(double x, double off) { return {x - off, x + off}; }
Interval times(Interval a, Interval b) {
  const double all[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  return {*std::min_element(all, all + 4), *std::max_element(all, all + 4)};
}

OutputRange nothing_said() { return {-kNoRange, kNoRange, false, true}; }
OutputRange only_nan() { return {0, 0, true, false}; }

// A finite gate's sigmoid, and what is made of it.
struct Gate {
  double g, q, rest;  // rest: 1 - q
  Interval range{};   // of q
  Interval factor{};  // f
  Interval slope{};   // D = q f

  Gate(float gate, SigmoidKind kind) : g(gate), q(1 / (1 + std::exp(-g))), rest(1 / (1 + std::exp(g))) {
    const double relative = 0x1p-20 + rest * (2 + 1.173 * std::fabs(g)) * kUlp;
    const double absolute = kind == SigmoidKind::of_exp ? 0 : 0x1p-12 + 0x1p-20;
    const double off = relative * q + absolute + (q < 0x1p-125 ? kLeast : 0);
    range = around(q, off);
    if (q < 0x1p-125) range.low = std::min(range.low, 0.0);
    const double size = 1 + std::fabs(g) * rest;
    const double off_factor = std::fabs(g) * (off + 0x1p-20) + 0x1p-20 * size;
    factor = around(1 + g * rest, off_factor);
    slope = around(q * (1 + g * rest), off * size + (q + off) * off_factor);
    if (range.has_zero()) slope = {std::min(slope.low, 0.0), std::max(slope.high, 0.0)};
  }
};

// The product of these numbers and of `inexact`, an interval, in any order: a range of BF16. parts: numbers whose
// product the interval is, in place of which some kernel may multiply by each.
OutputRange product_range(std::span<const float> numbers, Interval inexact, std::span<const Interval> parts) {
  bool has_zero = false, is_infinite = false;
  double product = 1, least = 1, most = 1;
  for (const float x : numbers) {
    const double size = std::fabs(double{x});
    if (std::isnan(x)) return only_nan();
    if (std::isinf(x)) {
      is_infinite = true, product *= std::copysign(1.0, x);
      continue;
    }
    has_zero |= x == 0;
    product *= x, least *= std::min(1.0, size), most *= std::max(1.0, size);
  }
  if (has_zero) return is_infinite ? only_nan() : OutputRange{};
  for (const Interval& part : parts) least *= std::min(1.0, part.least()), most *= std::max(1.0, part.most());
  const bool may_be_small = least < kNormal;
  const double sign = std::copysign(1.0, product) * std::copysign(1.0, inexact.low);
  if (is_infinite) {
    if (may_be_small || inexact.has_zero()) return nothing_said();
    return {sign * kNoRange, sign * kNoRange, false, false};
  }
  if (!(most < kMost)) return nothing_said();
  const double roundings = 1 + 2 * kUlp * static_cast<double>(numbers.size() + parts.size());
  Interval all = times(times({product, product}, inexact), {1 / roundings, roundings});
  if (may_be_small) {
    const double off = 8 * kLeast * most;
    all = {std::min(all.low, 0.0) - (all.low < 0 ? off : 0), std::max(all.high, 0.0) + (all.high > 0 ? off : 0)};
  }
  return {in_bf16(all.low), in_bf16(all.high), false, false};
}

}  // namespace

OutputRange swiglu_range(float g, float u, SigmoidKind kind) {
  if (std::isnan(g) || std::isnan(u)) return only_nan();
  if (std::isinf(g)) return nothing_said();
  const Gate gate(g, kind);
  return product_range(std::array{g, u}, gate.range, std::array{gate.range});
}

SwigluGradientRanges swiglu_gradient_ranges(float g, float u, float p, float weight, SigmoidKind kind) {
  const OutputRange a = swiglu_range(g, u, kind);
  SwigluGradientRanges ranges{nothing_said(), nothing_said(), nothing_said()};
  if (std::isnan(weight) || a.is_nan) {
    ranges.scaled_a = only_nan();
  } else if (!a.unbounded) {
    const bool is_infinite = std::isinf(a.low);
    const std::array ends{weight, static_cast<float>(a.low)};
    ranges.scaled_a = is_infinite
                          ? product_range(ends, {1, 1}, {})
                          : product_range(std::array{weight}, {a.low, a.high}, std::array{Interval{a.low, a.high}});
    if (a.is_point() && a.low == 0) ranges.scaled_a = std::isinf(weight) ? only_nan() : OutputRange{};
  }
  if (std::isnan(g) || std::isnan(p) || std::isnan(weight)) {
    ranges.dg = ranges.du = only_nan();
    return ranges;
  }
  if (std::isnan(u)) ranges.dg = only_nan();
  if (std::isinf(g)) return ranges;
  const Gate gate(g, kind);
  ranges.du = product_range(std::array{weight, p, g}, gate.range, std::array{gate.range});
  if (!std::isnan(u))
    ranges.dg = product_range(std::array{weight, p, u}, gate.slope, std::array{gate.range, gate.factor});
  return ranges;
}

OutputRange swiglu_weight_gradient_range(std::span<const float> g, std::span<const float> u, std::span<const float> p,
                                         SigmoidKind kind) {
  std::vector<std::uint16_t> a;
  std::vector<std::int32_t> all;
  double off = 0;
  for (std::size_t j = 0; j < g.size(); ++j) {
    const OutputRange range = swiglu_range(g[j], u[j], kind);
    if (range.unbounded) return nothing_said();
    a.push_back(layer_bf16(swiglu(g[j], u[j])));
    all.push_back(static_cast<std::int32_t>(j));
    const double own = fp32_of(a.back());
    if (!range.is_point()) off += std::fabs(double{p[j]}) * std::max(range.high - own, own - range.low);
  }
  if (a.empty()) return {};
  const auto n = std::ssize(a);
  const std::vector<std::int64_t> offsets{0, n};
  OutputRange sum = aggregate_ranges({a, n, 1, p}, {offsets, all}, {}, Format::fp32, 1)[0];
  // Other values of A: they change the sum by `off`, and what it loses by as much of that as of the sum.
  off *= 1 + 2 * (std::expm1(static_cast<double>(n) * kUlp) + 2 * kUlp);
  if (!std::isfinite(off)) return nothing_said();
  sum.low -= off, sum.high += off;
  return sum;
}

namespace {

constexpr double kOffOfExact = 0x1p-48;  // relative, of values made of libm's exp

ExactOutput exact_or_none(double value, double magnitude) {
  return {std::isfinite(magnitude) ? value : std::numeric_limits<double>::quiet_NaN(), magnitude,
          kOffOfExact * magnitude};
}

}  // namespace

ExactOutput exact_swiglu(float g, float u) {
  const Gate gate(g, SigmoidKind::of_exp);
  const double a = gate.g * gate.q * double{u};
  return exact_or_none(a, std::fabs(a));
}

ExactSwigluGradient exact_swiglu_gradient(float g, float u, float p, float weight) {
  const Gate gate(g, SigmoidKind::of_exp);
  const double da = double{weight} * double{p}, du = da * gate.g * gate.q;
  const double size = std::fabs(da * double{u}) * gate.q * (1 + std::fabs(gate.g) * gate.rest);
  return {exact_or_none(da * double{u} * gate.q * (1 + gate.g * gate.rest), size), exact_or_none(du, std::fabs(du))};
}

}  // namespace mxcheck
