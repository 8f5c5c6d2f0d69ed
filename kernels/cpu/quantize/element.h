#pragma once
// The two element formats this library writes, as constants for integer arithmetic on bits. OFP8 1.0.

#include <cstdint>

namespace mxcheck_cpu {

struct E4m3 {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr int kLargestExponent = 8;  // 448 = 1.75 * 2^8
  static constexpr std::uint8_t kLargestCode = 0x7E;
  static constexpr std::uint8_t kNanCode = 0x7F;
  static constexpr bool kHasInfinity = false;
  static constexpr std::uint32_t kFp32RuleException = 0x04600001;  // see Rule::rceil_fp32
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

// Both largest values have the significand 1.75, on which the round-up rule turns.

enum class Element : std::uint8_t { e4m3, e5m2 };
enum class Wide : std::uint8_t { bf16, fp32 };

enum class Rule : std::uint8_t {
  rceil,       // exact ceil(log2(amax / largest value))
  floor,       // floor(log2 amax) - largest exponent ("ocp")
  rceil_fp32,  // RN(amax * RN(1/largest value)) rounded up to a power of two ("torchao"): as rceil for every amax but
               // one, kFp32RuleException, an ulp above byte 0's range, whose product rounds back to 2^-127
  te,          // rceil_fp32, but a NaN counts as nothing in amax, and an infinite amax gives byte 254
};

// A block's largest magnitude as a stored scale byte; 255 poisons the block: every code becomes kNanCode.
inline constexpr std::uint8_t kNanByte = 255;

}  // namespace mxcheck_cpu
