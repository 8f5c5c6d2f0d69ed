#pragma once
// The numbers of an operand under MS-EDEN: a piece of a line of up to 128 numbers along k, rotated, and quantized to
// code * block scale in BF16. docs/layer.md has the definition; all operations are rounded once to FP32.
//
//   m = FP32(6 / (17/16 * 0.93)), s = RN(RN(amax / 256) / m)
//   group   q = E4M3(RN(RN(a / m) / s)), code = E2M1(RN(x / RN(q s))), c = RN(RN(sum x x) / RN(sum x code q s)),
//           value = code * E4M3(RN(q c)), the last by a random word
//   rest    q = E4M3(RN(RN(a / 6) / s)) upwards, code = E2M1(RN(x / RN(q s))) by random words, value = code * q
//
// Sums are added in FP64, where they are off by less than 2^-45 of themselves. Where that may decide how they are
// rounded, and far from 1, they are added again in integers, which hold them.
//
// A piece is `count` numbers, `stride` from one to the next. tests/kernels/sm90/moe/ms_eden_values_test.cc compares
// all of it with the reference.

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

// The group that begins at `first` of a piece of `count` numbers: the largest power of two that is left, 0 below 16.
MXCHECK_EITHER int group_at(int first, int count) {
  for (int size = kEdenPiece; size >= kEdenBlock; size /= 2) {
    if (first + size <= count) return size;
  }
  return 0;
}

// RN(1 / sqrt(size)).
MXCHECK_EITHER float rotation_factor(int size) {
  switch (size) {
    case 128: return 0x1.6a09e6p-4F;
    case 64: return 0x1p-3F;
    case 32: return 0x1.6a09e6p-3F;
    default: return 0x1p-2F;
  }
}

// Every group of a piece, rotated in place in FP32; not yet rounded to BF16. Signs: bit i % 32 of word i / 32.
MXCHECK_EITHER void rotate_piece(float* x, int stride, int count, const std::uint32_t* signs) {
  for (int first = 0;;) {
    const int size = group_at(first, count);
    if (size == 0) return;
    float* const y = x + first * stride;
    for (int i = 0; i < size; ++i) {
      const std::uint32_t sign = (signs[i / 32] >> (i % 32) & 1U) << 31;
      y[i * stride] = float_of(bits_of(y[i * stride]) ^ sign);
    }
    for (int h = 1; h < size; h *= 2) {
      for (int i = 0; i < size / 2; ++i) {
        const int low = (i / h * 2 * h + i % h) * stride;
        const int high = low + h * stride;
        const float a = y[low];
        const float b = y[high];
        y[low] = sum_of(a, b), y[high] = sum_of(a, -b);
      }
    }
    const float factor = rotation_factor(size);
    for (int i = 0; i < size; ++i) y[i * stride] = product(y[i * stride], factor);
    first += size;
  }
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

// ---- A piece, quantized ----
//
// Words in place: x in BF16 comes in, its value in BF16 goes out. In between the upper half has the code's value.

struct EdenWords {
  std::uint32_t* words;
  int stride;

  MXCHECK_EITHER std::uint32_t& at(int i) const { return words[i * stride]; }
  MXCHECK_EITHER float x(int i) const { return float_of(at(i) << 16); }
  MXCHECK_EITHER float code(int i) const { return float_of(at(i) & 0xFFFF0000); }
  MXCHECK_EITHER void set_code(int i, float value) const { at(i) = (at(i) & 0xFFFF) | (bits_of(value) & 0xFFFF0000); }
  MXCHECK_EITHER void set_value(int i, float value) const { at(i) = to_bf16x2(value, 0) & 0xFFFF; }
};

// The largest magnitude, as BF16 bits: above 0x7F7F where a number is not finite.
MXCHECK_EITHER std::uint32_t amax_of(const EdenWords& w, int first, int count) {
  std::uint32_t amax = 0;
  for (int i = first; i < first + count; ++i) {
    const std::uint32_t magnitude = w.at(i) & 0x7FFF;
    if (magnitude > amax) amax = magnitude;
  }
  return amax;
}
MXCHECK_EITHER void set_nan(const EdenWords& w, int first, int count) {
  for (int i = first; i < first + count; ++i) w.at(i) = 0x7FFF;
}

// c, of the codes and the scales q of a group's blocks.
MXCHECK_EITHER float exact_correction(const EdenWords& w, int first, int size, const float* q, float s) {
  WideSum sum;
  clear(sum);
  for (int i = 0; i < size; ++i) add(sum, w.x(first + i), w.x(first + i));
  const float of_x = times(sum, 1);
  clear(sum);
  for (int i = 0; i < size; ++i) add(sum, w.x(first + i), product(w.code(first + i), q[i / kEdenBlock]));
  const float of_both = times(sum, s);
  return of_both > 0 ? quotient(of_x, of_both) : 1.0F;
}

// word(i): the random word of element i of the piece.
template <class Word>
MXCHECK_EITHER void quantize_group(const EdenWords& w, int first, int size, float s, const Word& word) {
  float q[kEdenPiece / kEdenBlock];
  double of_x = 0;
  double of_both = 0;
  for (int b = 0; b < size / kEdenBlock; ++b) {
    const int begin = first + b * kEdenBlock;
    const float a = float_of(amax_of(w, begin, kEdenBlock) << 16);
    q[b] = e4m3_value_of(quotient(quotient(a, kEdenCodeMax), s));
    if (q[b] == 0) q[b] = 1;
    const float divisor = product(q[b], s);
    for (int i = begin; i < begin + kEdenBlock; ++i) {
      const float x = w.x(i);
      const float code = code_value_of<false>(quotient(x, divisor), 1, 0);
      w.set_code(i, code);
      of_x += static_cast<double>(x) * static_cast<double>(x);
      of_both += static_cast<double>(x) * static_cast<double>(product(code, q[b]));
    }
  }
  of_both *= static_cast<double>(s);
  const float numerator = nearest_float(of_x);
  const float denominator = nearest_float(of_both);
  float c = denominator > 0 ? quotient(numerator, denominator) : 1.0F;
  if (is_unsure(of_x) || is_unsure(of_both)) c = exact_correction(w, first, size, q, s);
  for (int b = 0; b < size / kEdenBlock; ++b) {
    const int begin = first + b * kEdenBlock;
    const float scale = e4m3_by_word(product(q[b], c), word(begin));
    for (int i = begin; i < begin + kEdenBlock; ++i) w.set_value(i, product(w.code(i), scale));
  }
}

template <class Word>
MXCHECK_EITHER void quantize_rest(const EdenWords& w, int first, int count, float s, const Word& word) {
  const float a = float_of(amax_of(w, first, count) << 16);
  float q = e4m3_above(quotient(quotient(a, 6), s));
  if (q == 0) q = 1;
  const float divisor = product(q, s);
  for (int i = first; i < first + count; ++i) {
    const float code = code_value_of<true>(quotient(w.x(i), divisor), 1, word(i));
    w.set_value(i, product(code, q));
  }
}

template <class Word>
MXCHECK_EITHER void quantize_piece(const EdenWords& w, int count, float s, const Word& word) {
  for (int first = 0; first < count;) {
    const int size = group_at(first, count);
    const int numbers = size != 0 ? size : count - first;
    if (amax_of(w, first, numbers) >= kInfinityBf16) {
      set_nan(w, first, numbers);
    } else if (size != 0) {
      quantize_group(w, first, size, s, word);
    } else {
      quantize_rest(w, first, numbers, s, word);
    }
    first += numbers;
  }
}

}  // namespace mxcheck_kernels::sm90
