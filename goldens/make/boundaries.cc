#include "goldens/make/boundaries.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kSpecials[] = {0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x7F7FFFFF,
                                       0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF};

// Tells apart every pair of scale rules in use that differ anywhere: zeros and subnormals around 2^-133 and 2^-127, the
// single exceptions of the FP32 shortcuts (0x04600001, 0x07e00001, 0x01400001, 0x047fffff), approximate logarithms
// (0x01000000, 0x01000001), amax clamps (1e-10, 1e-4), 448 times 1.125, 1.25 and 1.375, and E4M3's rounding of 464,
// 480.
constexpr std::uint32_t kRules[] = {0x00000000, 0x80000000, 0x00000001, 0x000000E0, 0x00010000, 0x00400000, 0x00400001,
                                    0x01000000, 0x01000001, 0x01400000, 0x01400001, 0x01400002, 0x04600000, 0x04600001,
                                    0x04600002, 0x04733333, 0x047FFFFF, 0x04E00001, 0x07E00000, 0x07E00001, 0x07E00002,
                                    0x2EDBE6FF, 0x38D1B717, 0x43CC0000, 0x43E00000, 0x43E00001, 0x43E80000, 0x43F00000,
                                    0x43F80000, 0x43FC0000, 0x440C0000, 0x441A0000, 0x43FFFFFF, 0x47E00001, 0x63E00001,
                                    0x7F7FFFFF, 0x7F800000, 0x7FC00000};

// By magnitude, the positive one of two first.
std::vector<std::uint32_t> sorted(const std::set<std::uint32_t>& patterns) {
  std::vector<std::uint32_t> all(patterns.begin(), patterns.end());
  std::sort(all.begin(), all.end(), [](std::uint32_t a, std::uint32_t b) {
    return std::pair(a & ~kSign, a & kSign) < std::pair(b & ~kSign, b & kSign);
  });
  return all;
}

void add_around(std::set<std::uint32_t>& patterns, double magnitude) {
  const auto value = static_cast<float>(magnitude);
  if (!std::isfinite(value) || static_cast<double>(value) != magnitude) return;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
    if (near < kInfinity) patterns.insert(near);  // bits - 1 of zero is none
  }
}

}  // namespace

std::vector<std::uint32_t> cast_boundaries(Format format) {
  std::set<double> values;
  for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(format).bits; ++code) {
    const double value = std::fabs(decode(format, code));
    if (std::isfinite(value)) values.insert(value);
  }
  const double largest = *values.rbegin();
  values.insert(largest + (largest - *std::next(values.rbegin())));
  std::set<std::uint32_t> patterns(std::begin(kSpecials), std::end(kSpecials));
  double below = 0;
  for (const double value : values) {
    add_around(patterns, value);
    add_around(patterns, (below + value) / 2);
    below = value;
  }
  std::set<std::uint32_t> both = patterns;
  for (const std::uint32_t bits : patterns) both.insert(bits | kSign);
  return sorted(both);
}

std::vector<std::uint32_t> amax_boundaries(Format element) {
  std::set<std::uint32_t> patterns(std::begin(kRules), std::end(kRules));
  const double largest = decode(element, spec(element).max_code);
  constexpr int kFirst = -149;
  constexpr int kLast = 127;
  for (int k = kFirst; k <= kLast; ++k) {
    add_around(patterns, std::ldexp(1.0, k));
    add_around(patterns, std::ldexp(1.5, k));
    add_around(patterns, largest * std::ldexp(1.0, k - std::ilogb(largest)));
  }
  return sorted(patterns);
}

}  // namespace mxcheck
