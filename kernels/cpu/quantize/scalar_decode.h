#pragma once
// One code and one scale byte to a value, in integers, right for every pair: decode(code) * 2^(byte - 127).

#include <bit>
#include <cstdint>

#include "kernels/cpu/quantize/element.h"

namespace mxcheck_kernels::cpu {

// The value as FP32: exact (the smallest, E5M2's 2^-16 * 2^-127, is an FP32 subnormal), or Inf from 2^128 on.
template <class F>
std::uint32_t decode_fp32(std::uint8_t code, std::uint8_t byte) {
  constexpr std::uint32_t kNan = 0x7FC00000;
  const std::uint32_t sign = std::uint32_t{code & 0x80U} << 24;
  const std::uint32_t magnitude = code & 0x7F;
  if (byte == kNanByte) return kNan;
  if (magnitude > F::kLargestCode) {
    return F::kHasInfinity && magnitude == F::kLargestCode + 1 ? sign | 0x7F800000 : kNan;
  }
  if (magnitude == 0) return sign;
  const int field = static_cast<int>(magnitude >> F::kMantissaBits);
  const std::uint32_t hidden = std::uint32_t{1} << F::kMantissaBits;
  const std::uint32_t significand = (magnitude & (hidden - 1)) | (field != 0 ? hidden : 0);
  const int exponent =
      (field != 0 ? field : 1) - F::kBias - F::kMantissaBits + byte - 127;  // of the significand's unit
  const int shift = std::countl_zero(significand) - 8;
  const std::uint32_t normal = significand << shift;  // 2^23 .. 2^24 - 1
  const int fp32_field = exponent - shift + 150;
  if (fp32_field >= 255) return sign | 0x7F800000;
  if (fp32_field >= 1) return sign | static_cast<std::uint32_t>(fp32_field) << 23 | (normal & 0x7FFFFF);
  return sign | normal >> (1 - fp32_field);
}

inline void narrow(std::uint32_t fp32, std::uint32_t& to) { to = fp32; }

// To BF16, nearest even: from the exact FP32 value, so rounded once.
inline void narrow(std::uint32_t fp32, std::uint16_t& to) {
  to = static_cast<std::uint16_t>((fp32 + 0x7FFF + (fp32 >> 16 & 1)) >> 16);
}

}  // namespace mxcheck_kernels::cpu
