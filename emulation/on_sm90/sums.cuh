#pragma once
// The sums of a tensor core, by threads: a row of A in registers, columns of B in shared memory. The same numbers as
// emulation/sm100/tensor_core/multiply.cc, which has the reckoning: a product's term is trunc(P * 2^s) with
// s = E - W + 25 - f, and every step of that is exact in FP32 but the conversion, which truncates.
//
// A term is |.| < 2^27, so 16 of them fit in 32 bits. Exponents are 16 bits, two to a word: VIADDMNMX adds and takes
// the larger of two at once.

#include "emulation/on_sm90/descriptor.h"
#include "emulation/on_sm90/device.cuh"
#include "emulation/sm100/tensor_core/output.h"

namespace mxcheck::emulation::on_sm90 {

inline constexpr int kZeroExponent = -4096;  // of a zero, an infinity, a NaN: no product's
inline constexpr int kWindowFloor = -133;
inline constexpr int kFractionBits = 25;
inline constexpr int kScaleBias = 127;
inline constexpr std::uint32_t kNanScale = 0xFF;

struct Decoded {
  float significand;  // with its sign
  int exponent;
  bool special;
};

__device__ __forceinline__ Decoded decode_element(const ElementFacts& f, std::uint32_t code, bool negate) {
  const std::uint32_t magnitude = code & ((1u << (f.bits - 1)) - 1);
  if (magnitude == 0) return {0, kZeroExponent, false};
  if (magnitude > f.max_code) return {0, kZeroExponent, true};
  const int field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t hidden = 1u << f.mantissa_bits;
  const std::uint32_t m = (magnitude & (hidden - 1)) + (field == 0 ? 0 : hidden);
  const bool negative = (code >> (f.bits - 1) != 0) != negate;
  const float value = static_cast<float>(m);
  return {negative ? -value : value, (field == 0 ? 1 : field) - f.bias, false};
}

__device__ __forceinline__ std::uint32_t two(int low, int high) {
  return (static_cast<std::uint32_t>(low) & 0xFFFFu) | static_cast<std::uint32_t>(high) << 16;
}
__device__ __forceinline__ std::uint32_t both(int x) { return two(x, x); }
__device__ __forceinline__ int low_of(std::uint32_t x) { return static_cast<std::int16_t>(x & 0xFFFFu); }
__device__ __forceinline__ int high_of(std::uint32_t x) { return static_cast<std::int32_t>(x) >> 16; }

struct Row {
  float significands[kMaxK];
  std::uint32_t exponents[kMaxK / 2];
};

// The sum of the first 2 * kWords products and `addend`, a word of D.
template <int kWords>
__device__ __forceinline__ std::uint32_t sum_of(const Row& a, const float* significands, const std::uint32_t* exponents,
                                                std::uint32_t addend, const sm100::detail::Output& out,
                                                int fraction_bits) {
  const sm100::detail::Addend c = sm100::detail::addend_of(out, addend);
  std::uint32_t window2 = both(kWindowFloor);
#pragma unroll
  for (int i = 0; i < kWords; ++i) window2 = __viaddmax_s16x2(a.exponents[i], exponents[i], window2);
  int window = max(low_of(window2), high_of(window2));
  window = max(window, static_cast<int>(c.exponent));
  const std::uint32_t shift = both(kFractionBits - fraction_bits + 127 - window);
  std::int64_t sum = sm100::detail::units_of(out, c, window);
  const std::uint32_t none = both(-32768);
#pragma unroll
  for (int first = 0; first < kWords; first += 8) {
    int part = 0;
#pragma unroll
    for (int i = first; i < first + 8; ++i) {
      const std::uint32_t e = __viaddmax_s16x2(a.exponents[i], exponents[i], none);
      const std::uint32_t fields = __viaddmax_s16x2(e, shift, both(1));
      const float low = __uint_as_float(fields << 23);
      const float high = __uint_as_float((fields & 0xFFFF0000u) << 7);
      part += __float2int_rz(__fmul_rn(__fmul_rn(a.significands[2 * i], significands[2 * i]), low));
      part += __float2int_rz(__fmul_rn(__fmul_rn(a.significands[2 * i + 1], significands[2 * i + 1]), high));
    }
    sum += part;
  }
  return sm100::detail::word_of(out, sum, window - kFractionBits);
}

// --- infinities and NaNs
// --------------------------------------------------------------------------------------------------------------

struct Specials {
  bool nan = false;
  bool positive = false;
  bool negative = false;

  __device__ __forceinline__ void product(const ElementFacts& fa, std::uint32_t a, bool negate_a,
                                          const ElementFacts& fb, std::uint32_t b, bool negate_b) {
    const std::uint32_t ma = a & ((1u << (fa.bits - 1)) - 1);
    const std::uint32_t mb = b & ((1u << (fb.bits - 1)) - 1);
    if (ma <= fa.max_code && mb <= fb.max_code) return;
    const bool nan_a = ma > fa.max_code + (fa.infinities ? 1 : 0);
    const bool nan_b = mb > fb.max_code + (fb.infinities ? 1 : 0);
    if (nan_a || nan_b || ma == 0 || mb == 0) {
      nan = true;
      return;
    }
    const bool minus = ((a >> (fa.bits - 1) != 0) != negate_a) != ((b >> (fb.bits - 1) != 0) != negate_b);
    (minus ? negative : positive) = true;
  }
  __device__ __forceinline__ void addend(const sm100::detail::Output& out, std::uint32_t c) {
    const std::uint32_t magnitude = c & (out.sign() - 1);
    if (magnitude > out.infinity()) nan = true;
    if (magnitude == out.infinity()) ((c & out.sign()) != 0 ? negative : positive) = true;
  }
  __device__ __forceinline__ bool any() const { return nan || positive || negative; }
  __device__ __forceinline__ std::uint32_t word(const sm100::detail::Output& out) const {
    if (nan || (positive && negative)) return out.nan;
    return (negative ? out.sign() : 0) | out.infinity();
  }
};

}  // namespace mxcheck::emulation::on_sm90
