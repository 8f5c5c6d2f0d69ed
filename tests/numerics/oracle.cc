#include "tests/numerics/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace mxcheck::oracle {
namespace {

constexpr int kUnitExponent = -1200;
constexpr std::uint32_t kSignBit = 0x80000000;
constexpr std::uint32_t kInfinityPattern = 0x7F800000;

Units power(int exponent) { return Units(1) << (exponent - kUnitExponent); }

float float_of(std::uint32_t pattern) { return std::bit_cast<float>(pattern); }

bool saturates(const Shape& s, Overflow overflow) {
  return overflow == Overflow::saturate || s.kind == Kind::finite || s.kind == Kind::twos_complement;
}

// A code's bits from its magnitude code and sign; finite_count stands for "beyond the finite values".
std::uint32_t assemble(const Shape& s, std::uint32_t m, bool negative) {
  if (s.kind == Kind::power_of_two) return m;
  if (s.kind == Kind::twos_complement) return negative ? (256 - m) % 256 : m;
  if (s.kind == Kind::nan_above_max && m == s.finite_count) return s.nan_code;
  return m + (negative ? std::uint32_t{1} << (s.bits - 1) : 0);
}

// The greatest m <= finite_count with magnitude(m) <= x, given magnitude(0) <= x.
std::uint32_t below(Format format, const Units& x) {
  std::uint32_t low = 0;
  std::uint32_t high = shape_of(format).finite_count + 1;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (magnitude(format, middle) <= x ? low : high) = middle;
  }
  return low;
}

bool goes_up(const Shape& s, std::uint32_t m, const Units& to_lower, const Units& to_upper, Rounding rounding,
             bool negative, std::uint32_t random_word) {
  switch (rounding) {
    case Rounding::nearest_even:
      if (to_lower != to_upper) return to_upper < to_lower;
      return s.kind == Kind::power_of_two || m % 2 == 1;
    case Rounding::nearest_away: return to_upper <= to_lower;
    case Rounding::toward_zero: return false;
    case Rounding::upward: return to_lower != 0 && !negative;
    case Rounding::stochastic: return (to_lower << 32) / (to_lower + to_upper) + random_word >= Units(1) << 32;
  }
  throw std::logic_error("unknown rounding");
}

// The least exact input whose magnitude code is m or more, and whether that input itself is included.
struct Bound {
  Units at;
  bool inclusive;
};

Bound bound_of(Format format, std::uint32_t m, Rounding rounding, bool negative, std::uint32_t random_word) {
  const Shape s = shape_of(format);
  const Units lower = magnitude(format, m - 1);
  const Units upper = magnitude(format, m);
  switch (rounding) {
    case Rounding::nearest_even: return {(lower + upper) / 2, s.kind == Kind::power_of_two || m % 2 == 0};
    case Rounding::nearest_away: return {(lower + upper) / 2, true};
    case Rounding::toward_zero: return {upper, true};
    case Rounding::upward: return negative ? Bound{upper, true} : Bound{lower, false};
    case Rounding::stochastic:
      return {lower + (upper - lower) * ((Units(1) << 32) - random_word) / (Units(1) << 32), true};
  }
  throw std::logic_error("unknown rounding");
}

// The least pattern of 0 .. 0x7F800000 with reached(pattern), which is monotone; Inf counts as reached.
std::uint32_t first_pattern(const std::function<bool(const Units&)>& reached, std::uint32_t from) {
  std::uint32_t low = from;
  std::uint32_t high = kInfinityPattern;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (reached(units(float_of(middle))))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// The smallest e with holds(e), which is monotone; e from -400 to 400.
int smallest(const std::function<bool(int)>& holds) {
  int offset = 0;
  for (int step = 512; step != 0; step /= 2) {
    if (!holds(offset + step - 1 - 400)) offset += step;
  }
  return offset - 400;
}

Units largest(Format element) { return magnitude(element, shape_of(element).finite_count - 1); }

int largest_exponent(Format element) {
  return smallest([&](int e) { return largest(element) < power(e + 1); });
}

int byte_of(int e) { return std::clamp(e + 127, 0, 255); }

std::vector<std::uint32_t> largest_per_byte(const std::function<int(float)>& byte) {
  std::vector<std::uint32_t> result;
  std::uint32_t from = 0;
  for (int b = 0; b < 256; ++b) {
    std::uint32_t low = from;
    std::uint32_t high = kInfinityPattern;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (byte(float_of(middle)) > b)
        high = middle;
      else
        low = middle + 1;
    }
    result.push_back(low - 1);
    from = low;
  }
  return result;
}

}  // namespace

Shape shape_of(Format format) {
  switch (format) {
    case Format::e4m3: return {Kind::nan_above_max, 8, 3, -9, 127, 0x7F};
    case Format::e5m2: return {Kind::ieee, 8, 2, -16, 124, 0x7F};
    case Format::e8m0: return {Kind::power_of_two, 8, 0, -127, 255, 0xFF};
    case Format::bf16: return {Kind::ieee, 16, 7, -133, 32640, 0x7FC0};
    case Format::fp16: return {Kind::ieee, 16, 10, -24, 31744, 0x7E00};
    case Format::e2m1: return {Kind::finite, 4, 1, -1, 8, 0x7};
    case Format::e2m3: return {Kind::finite, 6, 3, -3, 32, 0x1F};
    case Format::e3m2: return {Kind::finite, 6, 2, -4, 32, 0x1F};
    case Format::mxint8: return {Kind::twos_complement, 8, 6, -6, 128, 0x7F};
    case Format::e5m6: return {Kind::ieee, 12, 6, -20, 1984, 0x7E0};
    case Format::fp32: return {Kind::ieee, 32, 23, -149, 2139095040, 0x7FC00000};
    default: break;  // integers and FP64, whose codes nothing converts
  }
  throw std::logic_error("unknown format");
}

Units units(double x) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(x), &exponent);  // in [1/2, 1), or 0
  return Units(static_cast<std::int64_t>(std::ldexp(fraction, 53))) << (exponent - 53 - kUnitExponent);
}

// Values grow by a constant step, which doubles after each 2^mantissa_bits codes, the first 2 * 2^mantissa_bits codes
// having the smallest: m counts steps until the first doubling, and b is how often it has doubled.
Units magnitude(Format format, std::uint32_t m) {
  const Shape s = shape_of(format);
  if (s.kind == Kind::power_of_two) return power(s.smallest_exponent + static_cast<int>(m));
  if (s.kind == Kind::twos_complement) return m * power(s.smallest_exponent);
  const std::uint32_t run = std::uint32_t{1} << s.mantissa_bits;
  const std::uint32_t b = m < 2 * run ? 0 : m / run - 1;
  return Units(m - b * run) << (s.smallest_exponent + static_cast<int>(b) - kUnitExponent);
}

std::optional<Value> value(Format format, std::uint32_t code) {
  const Shape s = shape_of(format);
  if (s.kind == Kind::power_of_two) {
    if (code == 255) return std::nullopt;
    return Value{false, magnitude(format, code)};
  }
  if (s.kind == Kind::twos_complement)
    return code < 128 ? Value{false, magnitude(format, code)} : Value{true, magnitude(format, 256 - code)};
  const std::uint32_t half = std::uint32_t{1} << (s.bits - 1);
  if (code % half >= s.finite_count) return std::nullopt;
  return Value{code >= half, magnitude(format, code % half)};
}

std::uint32_t encode(Format format, double x, Rounding rounding, Overflow overflow, std::uint32_t random_word) {
  const Shape s = shape_of(format);
  if (std::isnan(x)) return s.nan_code;
  const bool negative = std::signbit(x) && s.kind != Kind::power_of_two;
  const std::uint32_t beyond = saturates(s, overflow) ? s.finite_count - 1 : s.finite_count;
  if (std::isinf(x)) return assemble(s, beyond, negative);
  const Units exact = units(x);
  if (exact <= magnitude(format, 0)) return assemble(s, 0, negative);
  const std::uint32_t m = below(format, exact);
  if (m == s.finite_count) {  // at or beyond the value that would come next
    const bool truncated = rounding == Rounding::toward_zero || (rounding == Rounding::upward && negative);
    return assemble(s, truncated ? s.finite_count - 1 : beyond, negative);
  }
  const bool up =
      goes_up(s, m, exact - magnitude(format, m), magnitude(format, m + 1) - exact, rounding, negative, random_word);
  const std::uint32_t result = m + (up ? 1 : 0);
  return assemble(s, result == s.finite_count ? beyond : result, negative);
}

std::uint64_t words_that_round_up(Format format, double x) {
  const Units exact = units(x);
  const std::uint32_t m = below(format, exact);
  const Units lower = magnitude(format, m);
  return static_cast<std::uint64_t>(((exact - lower) << 32) / (magnitude(format, m + 1) - lower));
}

FloatEncoder::FloatEncoder(Format format, Rounding rounding, Overflow overflow, std::uint32_t random_word)
    : shape_(shape_of(format)) {
  for (const bool negative : {false, true}) {
    std::vector<std::uint32_t>& first = first_[negative ? 1 : 0];
    first.push_back(0);
    const bool sign = negative && shape_.kind != Kind::power_of_two;
    const bool truncated = rounding == Rounding::toward_zero || (rounding == Rounding::upward && sign);
    for (std::uint32_t m = 1; m < shape_.finite_count; ++m) {
      const Bound bound = bound_of(format, m, rounding, sign, random_word);
      const auto reached = [&](const Units& x) { return bound.inclusive ? x >= bound.at : x > bound.at; };
      first.push_back(first_pattern(reached, first.back()));
    }
    if (saturates(shape_, overflow)) continue;
    const Bound bound = bound_of(format, shape_.finite_count, rounding, sign, random_word);
    const auto reached = [&](const Units& x) { return bound.inclusive ? x >= bound.at : x > bound.at; };
    first.push_back(truncated ? kInfinityPattern : first_pattern(reached, first.back()));
  }
}

std::uint32_t FloatEncoder::code(std::uint32_t m, bool negative) const { return assemble(shape_, m, negative); }

std::uint32_t FloatEncoder::operator()(std::uint32_t pattern) const { return step_at(pattern).code; }

FloatEncoder::Step FloatEncoder::step_at(std::uint32_t pattern) const {
  const std::uint32_t sign = pattern & kSignBit;
  const std::uint32_t magnitude_bits = pattern & ~kSignBit;
  const std::uint64_t end = std::uint64_t{sign} + kSignBit;
  if (magnitude_bits > kInfinityPattern) return {end, shape_.nan_code};
  const std::vector<std::uint32_t>& first = first_[sign != 0 ? 1 : 0];
  const auto next = std::upper_bound(first.begin(), first.end(), magnitude_bits);
  const std::uint64_t step_end = next == first.end() ? std::uint64_t{kInfinityPattern} + 1 : std::uint64_t{*next};
  return {sign + step_end, code(static_cast<std::uint32_t>(next - first.begin()) - 1, sign != 0)};
}

int rceil_byte(Format element, float amax) {
  if (amax == 0) return 0;
  const Units a = units(amax);
  const Units v = largest(element);
  return byte_of(smallest([&](int e) { return e < 0 ? (a << -e) <= v : a <= v << e; }));
}

int floor_byte(Format element, float amax) {
  if (amax == 0) return 0;
  const Units a = units(amax);
  return byte_of(smallest([&](int e) { return a < power(e + 1); }) - largest_exponent(element));
}

int ceil_byte(Format element, float amax) {
  if (amax == 0) return 0;
  const Units a = units(amax);
  return byte_of(smallest([&](int e) { return a <= power(e); }) - largest_exponent(element));
}

std::vector<std::uint32_t> largest_amax_per_byte(Format element) {
  return largest_per_byte([element](float a) { return rceil_byte(element, a); });
}

std::vector<std::uint32_t> largest_amax_per_floor_byte(Format element) {
  return largest_per_byte([element](float a) { return floor_byte(element, a); });
}

std::vector<std::uint32_t> largest_amax_per_ceil_byte(Format element) {
  return largest_per_byte([element](float a) { return ceil_byte(element, a); });
}

}  // namespace mxcheck::oracle
