#include "numerics/measure/measures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  const double below = *std::max_element(values.begin(), middle);
  return std::isinf(*middle) ? *middle : below + (*middle - below) / 2;
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

void PairwiseSum::add(double value) {
  std::size_t level = 0;
  for (std::uint64_t bits = count_; (bits & 1) != 0; bits >>= 1) value += partial_[level++];
  if (level == partial_.size()) partial_.push_back(0);
  partial_[level] = value;
  ++count_;
}

double PairwiseSum::total() const {
  double sum = 0;
  for (std::size_t level = 0; level < partial_.size(); ++level) {
    if ((count_ >> level & 1) != 0) sum += partial_[level];
  }
  return sum;
}

ErrorMeter::ErrorMeter(Format element) : element_(element) {
  if (spec(element).encoding == Encoding::power_of_two) {
    throw Error(ErrorKind::usage,
                "e8m0 holds scales, not elements; measure e4m3, e5m2, e2m1, e2m3, e3m2, mxint8 or e5m6");
  }
  largest_ = decode(element, spec(element).max_code);
}

void ErrorMeter::compare(double original, double dequantized) {
  ++counts_.compared;
  const double error = std::fabs(dequantized - original);
  signal_.add(original * original);
  noise_.add(error * error);
  if (original == 0 && dequantized == 0) return;
  relative_.push_back(original == 0 ? kInfinity : error / std::fabs(original));
}

void ErrorMeter::add(float original, float dequantized, std::uint32_t code, float scale) {
  ++counts_.count;
  if (spec(element_).bits < 32 && code >> spec(element_).bits != 0) ordinal(element_, code);  // throws
  const double magnitude = std::fabs(decode(element_, code));
  if (magnitude == 0 && std::isfinite(original) && original != 0) ++counts_.flushed;
  if (magnitude >= largest_ && !std::isinf(magnitude)) {
    // The product of two floats' worth of bits is exact in a double, unlike the quotient.
    if (std::fabs(static_cast<double>(original)) > largest_ * static_cast<double>(scale)) ++counts_.saturated;
  }
  if (std::isnan(original) || std::isnan(dequantized)) {
    if (std::isnan(original) && std::isnan(dequantized))
      ++counts_.nan_in_both;
    else if (std::isnan(original))
      ++counts_.nan_lost;
    else
      ++counts_.nan_introduced;
  } else if (std::isinf(original)) {
    if (original != dequantized) ++counts_.infinity_lost;
  } else {
    compare(original, dequantized);
  }
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
  m.max_relative = relative_.empty() ? 0 : *std::max_element(relative_.begin(), relative_.end());
  m.median_relative = median(relative_);
  return m;
}

}  // namespace mxcheck
