#pragma once
// The numbers of an operand under MS-EDEN: pieces of a line of up to 128 numbers along k, rotated, and quantized to
// code * block scale in BF16. docs/layer.md has the definition; all operations are rounded once to FP32.
//
//   m = FP32(6 / (17/16 * 0.93)), s = RN(RN(amax / 256) / m)
//   group   q = E4M3(RN(RN(a / m) / s)), code = E2M1(RN(x / RN(q s))), c = RN(RN(sum x x) / RN(sum x code q s)),
//           value = code * E4M3(RN(q c)), the last by a random word
//   rest    q = E4M3(RN(RN(a / 6) / s)) upwards, code = E2M1(RN(x / RN(q s))) by random words, value = code * q
//
// A thread has a block of 16 numbers. Blocks of a group exchange numbers in the last stages of the rotation, sums, and
// whether all numbers are finite; log_of_block() tells the groups of a piece.
//
// Sums are added in FP64, in any order: of at most 128 exact products, by at most 24 roundings, and times q and s, they
// are off by less than 2^-45 of themselves. Where that may decide how they are rounded, and far from 1, they are added
// again in integers, which hold them. tests/kernels/sm90/moe/ms_eden_values_test.cc compares all of it with the
// reference.

#include <cstdint>

#include "kernels/sm90/moe/two_level_values.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kEdenPiece = 128;  // the largest group
inline constexpr int kEdenBlock = 16;
inline constexpr float kEdenCodeMax = static_cast<float>(6 / ((17.0 / 16) * 0.93));
inline constexpr float kEdenUnit = 256 * kEdenCodeMax;  // by which an outer scale divides the amax; exact

#ifdef __CUDACC__
MXCHECK_EITHER float nearest_float(double x) { return __double2float_rn(x); }
MXCHECK_EITHER std::uint64_t double_bits(double x) { return static_cast<std::uint64_t>(__double_as_longlong(x)); }
MXCHECK_EITHER double double_of(std::uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); }
#else
MXCHECK_EITHER float nearest_float(double x) { return static_cast<float>(x); }
MXCHECK_EITHER std::uint64_t double_bits(double x) { return std::bit_cast<std::uint64_t>(x); }
MXCHECK_EITHER double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }
#endif

// ---- Groups ----

// The group of block `block` of a piece of `count` numbers, where each group is the largest power of two that is left,
// down to 16: log2 of its size, less 3, and 0 for what is in none.
MXCHECK_EITHER int log_of_block(int count, int block) {
  const int blocks = count / kEdenBlock;
  int first = 0;
  MXCHECK_UNROLL
  for (int log = 4; log > 0; --log) {
    const int size = 1 << (log - 1);
    if ((blocks & size) == 0) continue;
    if (block < first + size) return log;
    first += size;
  }
  return 0;
}
// A block's number in its group: groups begin at multiples of their size.
MXCHECK_EITHER int number_in_group(int block, int log) { return log == 0 ? 0 : block & ((1 << (log - 1)) - 1); }
// True if a block takes part in stage `stage` of the exchanges, with block ^ 2^stage.
MXCHECK_EITHER bool exchanges(int log, int stage) { return log > stage + 1; }

// RN(1 / sqrt(size)), of log_of_block.
MXCHECK_EITHER float rotation_factor(int log) {
  const float odd = log > 2 ? 0x1.6a09e6p-4F : 0x1.6a09e6p-3F;
  const float even = log > 2 ? 0x1p-3F : 0x1p-2F;
  return log % 2 == 0 ? odd : even;
}

// ---- Rotation ----

// The first stages, inside a block. Signs: bit i is set where number i changes its own.
MXCHECK_EITHER void rotate_block(float (&y)[kEdenBlock], std::uint32_t signs) {
  MXCHECK_UNROLL
  for (int i = 0; i < kEdenBlock; ++i) y[i] = float_of(bits_of(y[i]) ^ (signs << (31 - i) & 0x80000000));
  MXCHECK_UNROLL
  for (int h = 1; h < kEdenBlock; h *= 2) {
    MXCHECK_UNROLL
    for (int i = 0; i < kEdenBlock; ++i) {
      if ((i & h) != 0) continue;
      const float a = y[i];
      y[i] = sum_of(a, y[i + h]), y[i + h] = sum_of(a, -y[i + h]);
    }
  }
}
// A number after a stage of the exchanges; sign: 1, or -1 where it is the second of the two. The product is exact.
MXCHECK_EITHER float crossed(float own, float other, float sign) { return fused(own, sign, other); }

// 16 bits of the rotation's random signs, of a block by its number in the group.
MXCHECK_EITHER std::uint32_t signs_of_block(const std::uint32_t (&signs)[4], int number) {
  return signs[number / 2] >> (16 * (number % 2)) & 0xFFFF;
}

// ---- Values of two levels: RN(x amax / unit) ----

struct EdenMade {
  float amax;
  float unit;     // 1536 or 2688
  float inverse;  // RN(1 / unit)
};

// The product of two significands of 8 bits is exact, as long as it is far from the ends of FP32's range.
inline constexpr std::uint32_t kMadeLeast = (127 - 40) << 7, kMadeMost = (127 + 40) << 7;  // of magnitudes of BF16
MXCHECK_EITHER bool is_far_amax(std::uint32_t amax) { return amax < (127U - 60) << 7 || amax > (127U + 60) << 7; }
// Bit 15 or 31 of two BF16 that are not zero and out of that range.
MXCHECK_EITHER std::uint32_t far_of(std::uint32_t two) {
  const std::uint32_t magnitudes = two & 0x7FFF7FFF;
  const std::uint32_t large = magnitudes + (0x7FFF - kMadeMost) * 0x10001;
  const std::uint32_t not_small = magnitudes + (0x8000 - kMadeLeast) * 0x10001;
  return (large | ((magnitudes + 0x7FFF7FFF) & ~not_small)) & 0x80008000;
}
MXCHECK_EITHER float made_of(const EdenMade& made, float x) {
  const float magnitude = quotient_by(product(magnitude_of(x), made.amax), made.unit, made.inverse);
  return float_of(bits_of(magnitude) | (bits_of(x) & 0x80000000));
}
// For any x: no quotient of 16 bits by the unit lies so near the middle of two FP32 numbers that its rounding to FP64
// matters.
MXCHECK_EITHER float made_of_any(const EdenMade& made, float x) {
  return nearest_float(static_cast<double>(x) * static_cast<double>(made.amax) / static_cast<double>(made.unit));
}

// ---- Scales ----

MXCHECK_EITHER float eden_scale_of(std::uint32_t amax) {  // the bits of a finite BF16 magnitude
  const float s = quotient(quotient(float_of(amax << 16), 256), kEdenCodeMax);
  return s == 0 ? 1.0F : s;
}

// f, 0 or more or NaN, as a number of steps of E4M3 between its neighbours: the distance is a power of two.
struct E4m3Place {
  float below;     // steps
  float fraction;  // of a step
  float step;
};
MXCHECK_EITHER E4m3Place e4m3_place(float f) {
  constexpr std::uint32_t kLowestNormal = 0x3C800000;  // 2^-6
  const std::uint32_t binade = bits_of(f) & kFp32Exponent;
  const std::uint32_t steps = (binade > kLowestNormal ? binade : kLowestNormal) - (3U << 23);
  const float scaled = product(f, float_of((254U << 23) - steps));
  const auto below = static_cast<float>(integer_below(scaled));
  return {below, sum_of(scaled, -below), float_of(steps)};
}
MXCHECK_EITHER float e4m3_above(float f) {
  if (f >= 448) return 448;
  const E4m3Place p = e4m3_place(f);
  return product(p.fraction > 0 ? p.below + 1 : p.below, p.step);
}
// The word is added to the first 32 bits of the fraction; a carry rounds up.
MXCHECK_EITHER float e4m3_by_word(float f, std::uint32_t word) {
  if (is_nan(f)) return f;
  if (f >= 448) return 448;
  const E4m3Place p = e4m3_place(f);
  const std::uint32_t fraction = integer_below(product(p.fraction, 0x1p32F));
  return product(fraction + word < fraction ? p.below + 1 : p.below, p.step);
}

// ---- Sums ----

// A number of FP32 with at most 8 significant bits, which are `mantissa` and have the weight 2^exponent.
struct ShortFloat {
  std::uint32_t mantissa;
  int exponent;
};
MXCHECK_EITHER ShortFloat short_float(float x) {
  const std::uint32_t magnitude = bits_of(x) & 0x7FFFFFFF;
  const std::uint32_t field = magnitude >> 23;
  const std::uint32_t fraction = (magnitude & 0x7FFFFF) >> 16;
  return field == 0 ? ShortFloat{fraction, -133} : ShortFloat{fraction | 0x80, static_cast<int>(field) - 134};
}

// A sum of products of two such numbers, all of them positive, in integers of the weight 2^kLowest.
struct WideSum {
  static constexpr int kWords = 20;
  static constexpr int kLowest = -300;
  std::uint32_t words[kWords];
};
MXCHECK_EITHER void clear(WideSum& sum) {
  for (int i = 0; i < WideSum::kWords; ++i) sum.words[i] = 0;
}
MXCHECK_EITHER void add(WideSum& sum, float x, float y) {
  const ShortFloat a = short_float(x);
  const ShortFloat b = short_float(y);
  const int at = a.exponent + b.exponent - WideSum::kLowest;
  std::uint64_t carry = std::uint64_t{a.mantissa * b.mantissa} << (at % 32);
  for (int i = at / 32; carry != 0 && i < WideSum::kWords; ++i) {
    const std::uint64_t word = sum.words[i] + (carry & 0xFFFFFFFF);
    sum.words[i] = static_cast<std::uint32_t>(word);
    carry = (carry >> 32) + (word >> 32);
  }
}
MXCHECK_EITHER std::uint32_t bit_at(const WideSum& sum, int i) {
  return i < 0 || i >= 32 * WideSum::kWords ? 0 : sum.words[i / 32] >> (i % 32) & 1U;
}
// RN(sum * s), s positive and finite.
MXCHECK_EITHER float times(WideSum& sum, float s) {
  const std::uint32_t field = bits_of(s) >> 23;
  const std::uint32_t fraction = bits_of(s) & 0x7FFFFF;
  const std::uint32_t mantissa = field == 0 ? fraction : fraction | 0x800000;
  std::uint64_t carry = 0;
  for (int i = 0; i < WideSum::kWords; ++i) {
    carry += std::uint64_t{sum.words[i]} * mantissa;
    sum.words[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  const int lowest = WideSum::kLowest + (field == 0 ? -149 : static_cast<int>(field) - 150);  // the weight of bit 0
  int top = 32 * WideSum::kWords - 1;
  while (top >= 0 && bit_at(sum, top) == 0) --top;
  if (top < 0) return 0;
  const int last = top - 23 > -149 - lowest ? top - 23 : -149 - lowest;  // the bit of the result's last place
  if (last > top + 1) return 0;
  std::uint32_t kept = 0;
  for (int i = top; i >= last; --i) kept = kept * 2 + bit_at(sum, i);
  bool below_half = false;
  for (int i = last - 2; i >= 0 && !below_half; --i) below_half = bit_at(sum, i) != 0;
  if (bit_at(sum, last - 1) != 0 && (below_half || kept % 2 != 0)) ++kept;
  return nearest_float(kept * double_of(static_cast<std::uint64_t>(last + lowest + 1023) << 52));
}

// True if a sum that is off by less than 2^-45 may round to another FP32 than the exact one, or is far from 1.
MXCHECK_EITHER bool is_unsure(double sum) {
  constexpr std::int64_t kHalf = 1 << 28;  // of the 29 bits that FP32 has not
  constexpr std::int64_t kMargin = 1 << 9;
  const auto rest = static_cast<std::int64_t>(double_bits(sum) & 0x1FFFFFFF);
  const bool near = rest > kHalf - kMargin && rest < kHalf + kMargin;
  return near || (sum != 0 && !(sum > 0x1p-120 && sum < 0x1p126));
}

// ---- A group ----

// Codes of a block under q: |x| 2^k / (divisor 2^k), so that both are normal numbers.
struct EdenDivisor {
  float divisor;  // RN(q s), times `power`
  float inverse;  // RN(1 / divisor)
  float power;    // 2^k
};
MXCHECK_EITHER float eden_power_of(float s) { return s < 0x1p-60F ? 0x1p64F : s > 0x1p60F ? 0x1p-64F : 1.0F; }
MXCHECK_EITHER EdenDivisor eden_divisor(float q, float s) {
  const float power = eden_power_of(s);
  const float divisor = product(product(q, s), power);
  return {divisor, reciprocal(divisor), power};
}
// The code of a finite magnitude. A quotient that is not normal has the code 0, one above 7 that of 6.
MXCHECK_EITHER float eden_code(float magnitude, const EdenDivisor& by) {
  return smaller(e2m1_below_7(quotient_by(product(magnitude, by.power), by.divisor, by.inverse)), 6);
}

// q of a block in a group. amax: bits of a finite BF16 magnitude.
MXCHECK_EITHER float eden_block_scale(std::uint32_t amax, float s) {
  const float q = e4m3_value_of(quotient(quotient(float_of(amax << 16), kEdenCodeMax), s));
  return q == 0 ? 1.0F : q;
}
// The same by fewer operations, of s from 2^-60 to 2^60 and its inverse RN(1 / s). Quotients that are not exact there
// are far below those that round to a q of more than 0; the largest is 256.
MXCHECK_EITHER bool is_near_one(float s) { return s >= 0x1p-60F && s <= 0x1p60F; }
MXCHECK_EITHER float eden_block_scale(std::uint32_t amax, float s, float inverse) {
  const float a = quotient_by(float_of(amax << 16), kEdenCodeMax, 1 / kEdenCodeMax);
  const float q = e4m3_below_464(quotient_by(a, s, inverse));
  return q == 0 ? 1.0F : q;
}

// A magnitude that BF16 holds as FP64, by integers: subnormal numbers and 0 become numbers below 2^-126.
MXCHECK_EITHER double wide(float magnitude) {
  return double_of(static_cast<std::uint64_t>((bits_of(magnitude) >> 3) + 0x38000000) << 32);
}
// c of a group, of the sums of x x and x code q by wide(). amax: its largest magnitude, finite. False where they do not
// say.
//
// With a, q of the largest number, from 2^-54 on, what wide() adds is below 2^-50 of both sums: s is above 2^-66 then,
// so that numbers below 2^-126 have the code 0, and the largest number's code is 2 or more. Unless all codes are 0, as
// where q would be 0: then c does not matter.
struct EdenSums {
  double of_x;
  double of_both;
};
MXCHECK_EITHER bool find_correction(const EdenSums& sums, std::uint32_t amax, float s, float& c) {
  const double of_both = sums.of_both * static_cast<double>(s);
  c = 1;
  if (amax == 0 || sums.of_both < 0x1p-90 * static_cast<double>(float_of(amax << 16))) return true;
  c = quotient(nearest_float(sums.of_x), nearest_float(of_both));
  const bool in_range = amax >= (127U - 54) << 7 && amax <= (127U + 60) << 7;
  return in_range && !is_unsure(sums.of_x) && !is_unsure(of_both);
}

// The same in integers. x(i): the numbers of a group of `size`, which are finite.
template <class Numbers>
MXCHECK_EITHER float exact_correction(const Numbers& x, int size, float s) {
  WideSum squares, both;
  clear(squares), clear(both);
  for (int first = 0; first < size; first += kEdenBlock) {
    std::uint32_t amax = 0;
    for (int i = first; i < first + kEdenBlock; ++i) {
      const std::uint32_t magnitude = bits_of(x(i)) >> 16 & 0x7FFF;
      if (magnitude > amax) amax = magnitude;
    }
    const float q = eden_block_scale(amax, s);
    const EdenDivisor by = eden_divisor(q, s);
    for (int i = first; i < first + kEdenBlock; ++i) {
      add(squares, x(i), x(i));
      add(both, x(i), product(eden_code(magnitude_of(x(i)), by), q));
    }
  }
  const float of_both = times(both, s);
  return of_both > 0 ? quotient(times(squares, 1), of_both) : 1.0F;
}

// ---- Numbers in no group ----

// The value of x(i), of up to 15 numbers of the largest magnitude amax, by its word.
MXCHECK_EITHER float eden_rest_scale(std::uint32_t amax, float s) {
  const float q = e4m3_above(quotient(quotient(float_of(amax << 16), 6), s));
  return q == 0 ? 1.0F : q;
}
MXCHECK_EITHER float eden_rest_value(float x, float q, float s, std::uint32_t word) {
  return product(code_value_of<true>(quotient(x, product(q, s)), 1, word), q);
}

}  // namespace mxcheck_kernels::sm90
