#include "properties/operations/scaled_blocks/divisors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "numerics/error.h"
#include "numerics/format/format.h"

namespace mxcheck {
namespace {

constexpr std::uint32_t kMantissaBits = 0x7FFFFF;
constexpr int kEighths = 8;      // E4M3 scales of one binade
constexpr int kUlpsAside = 8;    // roundings on the way from the stored number move a divisor by less
constexpr int kTriedTimes = 64;  // each time at another block scale or exponent: the first tries succeed

std::uint32_t mantissa_of(float value) { return std::bit_cast<std::uint32_t>(value) & kMantissaBits; }

// The scale that a tensor stores where products are multiplied by s, before it is rounded.
double stored_of(const TwoLevel& levels, double s) {
  switch (levels.stored) {
    case StoredScale::decode: return s;
    case StoredScale::encode: return 1 / s;
    case StoredScale::amax: break;
  }
  return s * double{levels.limit} * largest_value(Format::e2m1);
}

}  // namespace

float element_divisor(const TwoLevel& levels, float stored, float b) {
  const OuterScale outer = outer_scale_of_stored(levels, largest_value(Format::e2m1), stored);
  switch (levels.element) {
    case ElementQuotient::encode_over_scale:
    case ElementQuotient::encode_times_inverse: return outer.encode / b;
    case ElementQuotient::over_quotient: return b / outer.encode;
    default: return b * outer.decode;
  }
}

bool has_divisor_at_an_end(const TwoLevel& levels, float stored) {
  for (int i = kEighths; i < 2 * kEighths; ++i) {
    const float divisor = element_divisor(levels, stored, static_cast<float>(i) / kEighths);
    const std::uint32_t mantissa = mantissa_of(divisor);
    if (std::isnormal(divisor) && std::ranges::find(kDivisorMantissas, mantissa) != kDivisorMantissas.end())
      return true;
  }
  return false;
}

DivisorScale scale_of_divisor(const TwoLevel& levels, std::size_t which, int exponent, std::uint64_t word) {
  const std::uint32_t wanted = kDivisorMantissas[which];
  const bool divides = element_divisor(levels, 1, 2) < element_divisor(levels, 1, 1);  // a larger b, a smaller divisor
  for (std::uint64_t i = 0; i < kTriedTimes; ++i) {
    const float b = static_cast<float>(kEighths + (word + i) % kEighths) / kEighths;
    const int e = exponent + static_cast<int>(i / kEighths % 2);
    const double end = std::ldexp(1 + wanted / 0x1p23, e);
    // A divisor S / b of 2^-e * wanted has s = 2^e / (wanted * b).
    const double s = divides ? std::ldexp(1.0, 2 * e) / (end * static_cast<double>(b)) : end / static_cast<double>(b);
    const auto middle = std::bit_cast<std::uint32_t>(static_cast<float>(stored_of(levels, s)));
    for (std::uint32_t stored = middle - kUlpsAside; stored <= middle + kUlpsAside; ++stored) {
      const float divisor = element_divisor(levels, std::bit_cast<float>(stored), b);
      if (std::isnormal(divisor) && mantissa_of(divisor) == wanted) return {stored, b};
    }
  }
  throw Error(ErrorKind::internal, "no scale of a tensor has such a divisor");
}

}  // namespace mxcheck
