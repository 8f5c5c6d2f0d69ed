#pragma once
// The two element formats this library writes, as constants for integer arithmetic on bits. OFP8 1.0.

#include <cstdint>

#include "kernels/common/quantize/policy.h"

namespace mxcheck_kernels::cpu {

struct E4m3 {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr int kLargestExponent = 8;  // 448 = 1.75 * 2^8
  static constexpr std::uint8_t kLargestCode = 0x7E;
  static constexpr std::uint8_t kNanCode = 0x7F;
  static constexpr bool kHasInfinity = false;
  static constexpr std::uint32_t kFp32RuleException = 0x04600001;  // see ScaleRule::rceil_fp32
};

struct E5m2 {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr int kLargestExponent = 15;  // 57344 = 1.75 * 2^15
  static constexpr std::uint8_t kLargestCode = 0x7B;
  static constexpr std::uint8_t kNanCode = 0x7F;
  static constexpr bool kHasInfinity = true;
  static constexpr std::uint32_t kFp32RuleException = 0x07E00001;
};

// Both largest values have the significand 1.75, the threshold of the round-up rule.

// A block's largest magnitude as a stored scale byte; 255 makes the whole block NaN: every code becomes kNanCode.
inline constexpr std::uint8_t kNanByte = 255;

}  // namespace mxcheck_kernels::cpu
