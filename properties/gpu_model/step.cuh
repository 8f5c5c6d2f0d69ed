#pragma once
// One step of one output (numerics/accumulate/fused_sum.h), split as the kernel needs it: the window from the largest
// exponent, each product truncated to an integer of units of 2^(window - fraction bits), their sum converted.
//
//   fast   windows -100 .. 120. a * b is exact in FP32 or far below one unit; times 2^(fraction - window), cut by the
//          conversion to int32. The result is a normal number or zero.
//   slow   all else, NaN and Inf included: 64-bit integers on the fields.
//   kept   no product but zeros, c NaN, or c infinite and every factor finite: c, which is a value of the output's
//          format already.

#include <cstdint>

#include "properties/gpu_model/element.cuh"

namespace mxcheck::gpu_model {

inline constexpr int kWindowFloor = -133;
inline constexpr std::uint32_t kNan = 0x7FFFFFFF;

// The unit's inverse as FP32 bits, or one of these two.
inline constexpr std::uint32_t kKept = 0;
inline constexpr std::uint32_t kSlow = 0xFFFFFFFF;

__device__ inline std::uint32_t inverse_unit(std::uint32_t largest_pair, std::uint32_t c, int fraction) {
  const int low = static_cast<std::int16_t>(largest_pair & 0xFFFF);
  const int high = static_cast<std::int16_t>(largest_pair >> 16);
  const int products = low > high ? low : high;
  if (products < -6000) return kKept;
  const int field = static_cast<int>(c >> 23) & 0xFF;
  if (field == 0xFF && ((c << 9) != 0 || products < 6000)) return kKept;
  const int of_c = (c << 1) == 0 ? kWindowFloor : (field == 0 ? 1 : field) - 127;
  const int window = products > of_c ? products : of_c;
  if (window < -100 || window > 120) return kSlow;
  return static_cast<std::uint32_t>(fraction - window + 127) << 23;
}

// Below 2^27 in magnitude for 25 fraction bits: eight fit 2^30. 0 for kKept; of kSlow the result is not used.
__device__ inline std::int32_t units(float a, float b, std::uint32_t inverse) {
  return __float2int_rz(__fmul_rn(__fmul_rn(a, b), __uint_as_float(inverse)));
}

__device__ inline std::int32_t units_of_c(std::uint32_t c, std::uint32_t inverse) {
  return __float2int_rz(__fmul_rn(__uint_as_float(c), __uint_as_float(inverse)));
}

// The sum of units as a word. 13 fraction bits: below 2^24, so that the mask alone cuts.
template <class F>
__device__ inline std::uint32_t word_of(std::int64_t sum, std::uint32_t inverse) {
  const float unit = __uint_as_float((254U << 23) - inverse);
  if constexpr (F::kFraction == 13) {
    const float cut = __uint_as_float(__float_as_uint(__int2float_rz(static_cast<std::int32_t>(sum))) & F::kWordMask);
    return __float_as_uint(__fmul_rn(cut, unit));
  } else {
    return __float_as_uint(__fmul_rn(__ll2float_rz(sum), unit));
  }
}

// magnitude * 2^unit, cut.
__device__ inline std::uint32_t convert(std::uint64_t magnitude, int unit, bool negative, std::uint32_t mask) {
  if (magnitude == 0) return 0;
  const std::uint32_t sign = negative ? 0x80000000U : 0U;
  const int width = 64 - __clzll(static_cast<long long>(magnitude));
  const int top = width - 1 + unit;  // exponent of the leading bit
  if (top >= 128) return sign | 0x7F800000U;
  const int lowest = (top < -126 ? -126 : top) - 23;
  const int left = unit - lowest;
  std::uint64_t fraction = 0;
  if (left >= 0) {
    fraction = magnitude << left;
  } else if (left > -64) {
    fraction = magnitude >> -left;
  }
  const std::uint32_t field = top < -126 ? 0U : static_cast<std::uint32_t>(top + 126);  // the hidden bit adds one
  const std::uint32_t word = ((field << 23) + static_cast<std::uint32_t>(fraction)) & mask;
  return word == 0 ? 0 : sign | word;
}

// The whole step. Elements are kStride apart, pairs of 16-bit exponents too.
template <class F, int kStride>
__device__ __noinline__ std::uint32_t slow_step(const float* a, const float* b, const std::uint32_t* a_pairs,
                                                const std::uint32_t* b_pairs, std::uint32_t c) {
  const auto exponent = [](const std::uint32_t* pairs, int k) {
    return static_cast<int>(static_cast<std::int16_t>(pairs[(k >> 1) * kStride] >> ((k & 1) * 16)));
  };
  bool nan = false;
  bool positive_infinity = false;
  bool negative_infinity = false;
  int window = kWindowFloor;
  for (int k = 0; k < F::kStep; ++k) {
    const std::uint32_t x = __float_as_uint(a[k * kStride]);
    const std::uint32_t y = __float_as_uint(b[k * kStride]);
    const std::uint32_t x_size = x & 0x7FFFFFFF;
    const std::uint32_t y_size = y & 0x7FFFFFFF;
    const bool zero = x_size == 0 || y_size == 0;
    const bool infinite = x_size == 0x7F800000 || y_size == 0x7F800000;
    if (x_size > 0x7F800000 || y_size > 0x7F800000 || (infinite && zero)) {
      nan = true;
    } else if (infinite) {
      (((x ^ y) >> 31) != 0 ? negative_infinity : positive_infinity) = true;
    } else if (!zero) {
      const int e = exponent(a_pairs, k) + exponent(b_pairs, k);
      window = e > window ? e : window;
    }
  }
  const std::uint32_t c_size = c & 0x7FFFFFFF;
  if (c_size > 0x7F800000) nan = true;
  if (c_size == 0x7F800000) ((c >> 31) != 0 ? negative_infinity : positive_infinity) = true;
  if (nan || (positive_infinity && negative_infinity)) return kNan;
  if (positive_infinity || negative_infinity) return negative_infinity ? 0xFF800000U : 0x7F800000U;

  const auto field = [](std::uint32_t bits) { return static_cast<int>((bits >> 23) & 0xFF); };
  const auto significand = [field](std::uint32_t bits) {
    return std::uint64_t{bits & 0x7FFFFF} | (field(bits) == 0 ? 0U : 0x800000U);
  };
  const auto unit = [field](std::uint32_t bits) { return (field(bits) == 0 ? 1 : field(bits)) - 150; };
  if (c_size != 0) {
    const int e = unit(c) + 23;
    window = e > window ? e : window;
  }
  const int quantum = window - F::kFraction;
  const auto aligned = [quantum](std::uint64_t magnitude, int at, bool negative) {
    const int left = at - quantum;
    const std::uint64_t kept = left >= 0 ? magnitude << left : left > -64 ? magnitude >> -left : 0;
    return negative ? -static_cast<std::int64_t>(kept) : static_cast<std::int64_t>(kept);
  };
  std::int64_t sum = c_size == 0 ? 0 : aligned(significand(c), unit(c), (c >> 31) != 0);
  for (int k = 0; k < F::kStep; ++k) {
    const std::uint32_t x = __float_as_uint(a[k * kStride]);
    const std::uint32_t y = __float_as_uint(b[k * kStride]);
    const std::uint64_t magnitude = significand(x) * significand(y);
    if (magnitude != 0) sum += aligned(magnitude, unit(x) + unit(y), ((x ^ y) >> 31) != 0);
  }
  return convert(static_cast<std::uint64_t>(sum < 0 ? -sum : sum), quantum, sum < 0, F::kWordMask);
}

}  // namespace mxcheck::gpu_model
