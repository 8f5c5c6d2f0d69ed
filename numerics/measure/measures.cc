#include "numerics/measure/measures.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/measure/paired_errors.h"

namespace mxcheck {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kChunk = 1024;  // elements whose squares and errors are held

// 1 for NaN and infinities.
std::uint32_t is_special(float value) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1 : 0;
}

double decibels(double signal, double noise) {
  if (noise == 0) return kInfinity;
  return signal == 0 ? -kInfinity : 10 * std::log10(signal / noise);
}

}  // namespace

std::optional<std::int64_t> ordinal(Format format, std::uint32_t code) {
  const FormatSpec& f = spec(format);
  if (f.bits < 32 && code >> f.bits != 0) {
    throw Error(ErrorKind::usage, "code " + std::to_string(code) + " has more than the " + std::to_string(f.bits) +
                                      " bits of " + std::string(f.name));
  }
  if (std::isnan(decode(format, code))) return std::nullopt;
  if (f.encoding == Encoding::power_of_two) return code;
  if (f.encoding == Encoding::fixed_point) return static_cast<std::int8_t>(code);
  const std::uint32_t sign_bit = std::uint32_t{1} << (f.bits - 1);
  const std::int64_t magnitude = code & (sign_bit - 1);
  return (code & sign_bit) != 0 ? -magnitude : magnitude;
}

std::optional<std::uint64_t> ulp_distance(Format format, std::uint32_t a, std::uint32_t b) {
  const auto place_a = ordinal(format, a);
  const auto place_b = ordinal(format, b);
  if (!place_a && !place_b) return 0;
  if (!place_a || !place_b) return std::nullopt;
  return static_cast<std::uint64_t>(std::abs(*place_a - *place_b));
}

void ErrorMeter::Part::classify(float original, float dequantized, double& signal, double& noise, double& relative) {
  if (!std::isnan(original) && !std::isnan(dequantized) && !std::isinf(original)) {
    ++counts_.compared;
    return;
  }
  signal = noise = 0;
  relative = kNan;
  if (std::isnan(original) && std::isnan(dequantized))
    ++counts_.nan_in_both;
  else if (std::isnan(original))
    ++counts_.nan_lost;
  else if (std::isnan(dequantized))
    ++counts_.nan_introduced;
  else if (original != dequantized)
    ++counts_.infinity_lost;
}

void ErrorMeter::Part::add_chunk(std::span<const float> originals, std::span<const float> dequantized) {
  std::array<double, kChunk> signal, noise, relative;
  const std::size_t size = originals.size();
  std::uint32_t special = 0;
  for (std::size_t i = 0; i < size; ++i) {
    special |= is_special(originals[i]) | is_special(dequantized[i]);
    const double x{originals[i]};
    const double error = std::fabs(double{dequantized[i]} - x);
    signal[i] = x * x;
    noise[i] = error * error;
    relative[i] = error / std::fabs(x);  // NaN for 0 / 0, which has no place in the median
  }
  counts_.count += size;
  if (special == 0) {
    counts_.compared += size;
  } else {
    for (std::size_t i = 0; i < size; ++i) classify(originals[i], dequantized[i], signal[i], noise[i], relative[i]);
  }
  median_.add(std::span(relative).first(size));
  if (!is_first_pass_) return;
  signal_.add(std::span(signal).first(size));
  noise_.add(std::span(noise).first(size));
  for (std::size_t i = 0; i < size; ++i) {
    if (relative[i] > max_relative_) max_relative_ = relative[i];
  }
}

void ErrorMeter::Part::add(std::span<const float> originals, std::span<const float> dequantized) {
  if (originals.size() != dequantized.size()) {
    throw Error(ErrorKind::usage, std::to_string(originals.size()) + " originals and " +
                                      std::to_string(dequantized.size()) + " dequantized values: as many are needed");
  }
  for (std::size_t at = 0; at < originals.size(); at += kChunk) {
    const std::size_t count = std::min(kChunk, originals.size() - at);
    add_chunk(originals.subspan(at, count), dequantized.subspan(at, count));
  }
}

ErrorMeter::Part ErrorMeter::part(std::uint64_t first_element) const {
  return {first_element, is_first_pass_, median_.part()};
}

void ErrorMeter::add(const Part& part) {
  median_.add(part.median_);
  if (!is_first_pass_) return;
  part.signal_.append_to(signal_);
  part.noise_.append_to(noise_);
  max_relative_ = std::max(max_relative_, part.max_relative_);
  counts_.count += part.counts_.count;
  counts_.compared += part.counts_.compared;
  counts_.flushed += part.flushed;
  counts_.saturated += part.saturated;
  counts_.nan_in_both += part.counts_.nan_in_both;
  counts_.nan_introduced += part.counts_.nan_introduced;
  counts_.nan_lost += part.counts_.nan_lost;
  counts_.infinity_lost += part.counts_.infinity_lost;
}

bool ErrorMeter::finish_pass() {
  is_first_pass_ = false;
  return median_.finish_pass();
}

ErrorMeasures ErrorMeter::measures() const {
  ErrorMeasures m = counts_;
  if (m.count != 0) {
    m.flushed_share = static_cast<double>(m.flushed) / static_cast<double>(m.count);
    m.saturated_share = static_cast<double>(m.saturated) / static_cast<double>(m.count);
  }
  if (m.compared == 0 || m.nan_introduced + m.nan_lost + m.infinity_lost != 0) {
    m.sqnr_db = m.max_relative = m.median_relative = kNan;
    return m;
  }
  m.sqnr_db = decibels(signal_.total(), noise_.total());
  m.max_relative = max_relative_;
  m.median_relative = median_.median();
  return m;
}

void PairwiseSum::add_tree(int level, double sum) {
  const std::uint64_t values = std::uint64_t{1} << level;
  if (count_ % values != 0) {
    throw Error(ErrorKind::usage, "a pairwise sum of " + std::to_string(count_) + " values takes no tree of " +
                                      std::to_string(values) + ": values are missing before it");
  }
  auto at = static_cast<std::size_t>(level);
  for (; (count_ >> at & 1) != 0; ++at) sum += partial_[at];
  if (at >= partial_.size()) partial_.resize(at + 1);
  partial_[at] = sum;
  count_ += values;
}

double PairwiseSum::total() const {
  double sum = 0;
  for (std::size_t level = 0; level < partial_.size(); ++level) {
    if ((count_ >> level & 1) != 0) sum += partial_[level];
  }
  return sum;
}

void PairwisePart::add(std::span<const double> values) {
  while (!values.empty()) {
    if (open_.empty() && position_ % kTree == 0 && values.size() >= kTree) {
      // Neighbours first, then neighbouring sums: the tree that PairwiseSum makes of them one by one.
      std::array<double, kTree / 2> sums;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = values[2 * i] + values[2 * i + 1];
      for (std::size_t n = sums.size() / 2; n != 0; n /= 2) {
        for (std::size_t i = 0; i < n; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
      trees_.push_back(sums[0]);
      position_ += kTree;
      values = values.subspan(kTree);
      continue;
    }
    const std::size_t count = std::min<std::size_t>(kTree - position_ % kTree, values.size());
    open_.insert(open_.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
    position_ += count;
    values = values.subspan(count);
    if (position_ % kTree != 0) continue;
    if (open_.size() < kTree) {
      head_ = std::move(open_);
      open_.clear();
      continue;
    }
    const std::vector<double> full = std::move(open_);
    open_.clear();
    position_ -= kTree;
    add(full);
  }
}

void PairwisePart::append_to(PairwiseSum& sum) const {
  if (sum.count() != first_) {
    throw Error(ErrorKind::usage, "a part of a sum from value " + std::to_string(first_) + " on after " +
                                      std::to_string(sum.count()) + " values: parts are added in their order");
  }
  for (const double value : head_) sum.add(value);
  for (const double tree : trees_) sum.add_tree(kLevel, tree);
  for (const double value : open_) sum.add(value);
}

namespace {

constexpr double kChoices = 2;  // signs and means

// NaN is an error of 1: no comparison with it holds.
double error_up_to_one(double error) { return error < 1 ? error : 1; }

}  // namespace

void PairedErrors::add(double candidate, double other, double off) {
  ++pairs_;
  candidate = error_up_to_one(candidate), other = error_up_to_one(other);
  const double d = candidate - other;
  if (!(std::fabs(d) > off)) return;
  ++differing_;
  worse_ += d > 0 ? 1 : 0;
  candidate_ += candidate, other_ += other;
  magnitudes_ += std::fabs(d), squares_ += d * d;
}

double PairedErrors::log_chance() const {
  return std::min(0.0, std::min(log_chance_of_signs(), log_chance_of_means()) + std::log(kChoices));
}

double PairedErrors::log_chance_of_signs() const {
  const auto n = static_cast<double>(differing_);
  const double x = differing_ == 0 ? 0 : static_cast<double>(worse_) / n;
  if (!(x > kMostWorse)) return 0;
  const double better = x < 1 ? (1 - x) * std::log((1 - x) / (1 - kMostWorse)) : 0;
  return -n * (x * std::log(x / kMostWorse) + better);
}

double PairedErrors::log_chance_of_means() const {
  const double beyond = candidate_ - other_ - (2 * kMostWorse - 1) * magnitudes_;
  return beyond > 0 ? -beyond * beyond / (2 * squares_) : 0;
}

std::int64_t PairedErrors::fewest(double log_level) {
  return static_cast<std::int64_t>(std::floor((log_level - std::log(kChoices)) / std::log(kMostWorse))) + 1;
}

}  // namespace mxcheck
