#pragma once
// Codes as the model keeps them: the value as an FP32, which holds every format's values, and the encoded exponent.

#include <cstdint>

#include "properties/gpu_model/gpu_model.h"

namespace mxcheck::gpu_model {

// Exponents of what has none. Sums of two stay apart from those of numbers (-252 .. 254) and within 16 bits:
// zero * number < -6000, zero * special > 6000, special * special < 32768.
inline constexpr int kZeroExponent = -7000;
inline constexpr int kSpecialExponent = 14000;

struct Element {
  float value;
  int exponent;
};

__device__ inline float power_of_two(int e) {  // -149 <= e <= 127
  return __uint_as_float(e >= -126 ? static_cast<std::uint32_t>(e + 127) << 23 : 1U << (e + 149));
}

template <int kFormat>
struct FormatOf;

// kBits wide with kMantissa fraction bits; kIeee: the largest exponent is of Inf and NaN, otherwise only of the code of
// all ones (E4M3). kStep products, kFraction bits and kWordMask are the contract's.
template <class CodeType, int kBitsValue, int kMantissaValue, bool kIeeeValue, int kStepValue, int kFractionValue,
          std::uint32_t kWordMaskValue, std::uint32_t kCodeMaskValue = 0xFFFFFFFF>
struct FormatTraits {
  using Code = CodeType;
  static constexpr int kBits = kBitsValue;
  static constexpr int kMantissa = kMantissaValue;
  static constexpr bool kIeee = kIeeeValue;
  static constexpr int kStep = kStepValue;
  static constexpr int kFraction = kFractionValue;
  static constexpr std::uint32_t kWordMask = kWordMaskValue;
  static constexpr std::uint32_t kCodeMask = kCodeMaskValue;
  static constexpr int kBias = (1 << (kBits - kMantissa - 2)) - 1;
};

template <>
struct FormatOf<MXCHECK_GPU_MODEL_E4M3> : FormatTraits<std::uint8_t, 8, 3, false, 32, 13, 0xFFFFFC00> {};
template <>
struct FormatOf<MXCHECK_GPU_MODEL_E5M2> : FormatTraits<std::uint8_t, 8, 2, true, 32, 13, 0xFFFFFC00> {};
template <>
struct FormatOf<MXCHECK_GPU_MODEL_BF16> : FormatTraits<std::uint16_t, 16, 7, true, 16, 25, 0xFFFFFFFF> {};
template <>
struct FormatOf<MXCHECK_GPU_MODEL_FP16> : FormatTraits<std::uint16_t, 16, 10, true, 16, 25, 0xFFFFFFFF> {};
template <>
struct FormatOf<MXCHECK_GPU_MODEL_TF32> : FormatTraits<std::uint32_t, 32, 23, true, 8, 25, 0xFFFFFFFF, 0xFFFFE000> {};

template <class F>
__device__ inline Element decode(std::uint32_t word) {
  constexpr std::uint32_t kSign = 1U << (F::kBits - 1);
  constexpr std::uint32_t kHidden = 1U << F::kMantissa;
  constexpr std::uint32_t kTopField = (kSign - 1) >> F::kMantissa;
  const std::uint32_t code = word & F::kCodeMask;
  const std::uint32_t magnitude = code & (kSign - 1);
  const std::uint32_t sign = (code & kSign) != 0 ? 0x80000000U : 0U;
  const std::uint32_t field = magnitude >> F::kMantissa;
  const std::uint32_t mantissa = magnitude & (kHidden - 1);
  if (F::kIeee && field == kTopField) {
    return {__uint_as_float(sign | (mantissa != 0 ? 0x7FC00000U : 0x7F800000U)), kSpecialExponent};
  }
  if (!F::kIeee && magnitude == kSign - 1) return {__uint_as_float(0x7FC00000U), kSpecialExponent};
  const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - F::kBias;
  const std::uint32_t significand = field == 0 ? mantissa : kHidden | mantissa;
  const float value = static_cast<float>(significand) * power_of_two(exponent - F::kMantissa);
  return {__uint_as_float(__float_as_uint(value) | sign), magnitude == 0 ? kZeroExponent : exponent};
}

__device__ inline float decode_e8m0(std::uint8_t byte) {
  return byte == 0xFF ? __uint_as_float(0x7FFFFFFF) : power_of_two(byte - 127);
}

// To nearest even; any NaN is 0x7FFF.
__device__ inline std::uint32_t bf16_word(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

// E4M3 * 2^(scale - 127) as BF16. The 4 bits of an E4M3 fit BF16 but below its smallest subnormal, 2^-133.
__device__ inline std::uint32_t mx_as_bf16(std::uint8_t code, std::uint8_t scale) {
  const std::uint32_t sign = (code & 0x80U) << 8;
  const std::uint32_t magnitude = code & 0x7FU;
  if (magnitude == 0x7F || scale == 0xFF) return 0x7FFF;
  const std::uint32_t field = magnitude >> 3;
  const std::uint32_t significand = field == 0 ? magnitude : 8 | (magnitude & 7);
  const int unit = (field == 0 ? 1 : static_cast<int>(field)) - 10 + scale - 127;
  if (unit < -133) {
    const int drop = -133 - unit;  // at most 3
    const std::uint32_t half = 1U << (drop - 1);
    const std::uint32_t kept = significand >> drop;
    const std::uint32_t rest = significand & ((1U << drop) - 1);
    return sign | (kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0));
  }
  // Exact, or Inf; powers beyond 2^127 in two factors.
  const int first = unit < 100 ? unit : 100;
  const float value = static_cast<float>(significand) * power_of_two(first) * power_of_two(unit - first);
  return sign | (__float_as_uint(value) >> 16);
}

// E2M1 * |E4M3| as BF16: significands of 2 and of 4 bits, whose product has six.
__device__ inline std::uint32_t nvfp4_as_bf16(std::uint32_t code, std::uint8_t scale) {
  const std::uint32_t of_scale = scale & 0x7FU;
  if (of_scale == 0x7F) return 0x7FFF;
  const auto significand = [](std::uint32_t magnitude, int bits) {
    const std::uint32_t fraction = magnitude & ((1U << bits) - 1);
    return magnitude >> bits == 0 ? fraction : fraction | 1U << bits;
  };
  const auto unit = [](std::uint32_t magnitude, int bits, int bias) {
    const auto field = static_cast<int>(magnitude >> bits);
    return (field == 0 ? 1 : field) - bias - bits;
  };
  const std::uint32_t magnitude = code & 7U;
  const float value = static_cast<float>(significand(magnitude, 1) * significand(of_scale, 3)) *
                      power_of_two(unit(magnitude, 1, 1) + unit(of_scale, 3, 7));
  return (code & 8U) << 12 | __float_as_uint(value) >> 16;
}

}  // namespace mxcheck::gpu_model
