#pragma once
// Values to codes by one coding, compiled for each kind of it.
//
// RN(x / scale) of FP32 scales is not a division: with r = RN(1 / scale), q = RN(x r) is within 2 ulp, one step of
// Newton's makes it faithful, a second one correctly rounded (Markstein, IA-64 and Elementary Functions, 2000; Muller
// et al., Handbook of Floating-Point Arithmetic, 2nd ed., section 4.7), as long as the remainders are exact. They are
// where |x| is above 2^-102. Below, with a scale of 2^-80 or more, the quotient is below 2^-22 and its code a zero
// whatever its last bits; blocks with smaller scales divide.

#include <cstdint>

#include "kernels/sm90/layer/steps/values.cuh"

namespace mxcheck_kernels::sm90 {

// A block's scale: the word that is stored (a byte, or a float's bits), and what elements are multiplied by; of FP32
// scales the scale itself too.
struct BlockScale {
  std::uint32_t stored;
  float factor;
  float scale;
};

template <Element kElement_, bool kFp32_>
struct Coder {
  static constexpr Element kElement = kElement_;
  static constexpr bool kFp32 = kFp32_;
  std::uint32_t addend;
  int log2_block;  // 5 or 7: a shift instead of a division for each block

  __device__ __forceinline__ int block() const { return 1 << log2_block; }

  __device__ __forceinline__ BlockScale scale_of(std::uint32_t amax) const {
    if constexpr (kFp32) {
      constexpr float kLargest = kElement == Element::e4m3 ? 448.0F : 57344.0F;
      const float quotient = __fdiv_rn(__uint_as_float(amax), kLargest);
      const float scale = amax >= kInfinity ? __uint_as_float(kNan) : quotient == 0 ? 1.0F : quotient;
      return {__float_as_uint(scale), __frcp_rn(scale), scale};
    } else {
      const std::uint32_t byte = scale_byte<kElement>(amax, addend);
      return {byte, factor_of(byte), 0.0F};
    }
  }

  // Four codes in a word.
  __device__ __forceinline__ std::uint32_t codes(float a, float b, float c, float d, const BlockScale& s) const {
    return divides(s) ? codes_by<true>(a, b, c, d, s) : codes_by<false>(a, b, c, d, s);
  }

  // The same where a scale is shared by so many that the way to its codes is chosen once: codes_by<divides(s)>.
  static __device__ __forceinline__ bool divides(const BlockScale& s) { return kFp32 && s.scale < 0x1p-80F; }

  template <bool kDivides>
  __device__ __forceinline__ std::uint32_t codes_by(float a, float b, float c, float d, const BlockScale& s) const {
    if constexpr (kFp32 && kDivides) {
      return encode4<kElement>(__fdiv_rn(a, s.scale), __fdiv_rn(b, s.scale), __fdiv_rn(c, s.scale),
                               __fdiv_rn(d, s.scale));
    } else {
      return encode4<kElement>(scaled(a, s), scaled(b, s), scaled(c, s), scaled(d, s));
    }
  }

  __device__ __forceinline__ void store_scale(void* scales, std::int64_t at, const BlockScale& s) const {
    if constexpr (kFp32) {
      static_cast<std::uint32_t*>(scales)[at] = s.stored;
    } else {
      static_cast<std::uint8_t*>(scales)[at] = static_cast<std::uint8_t>(s.stored);
    }
  }

 private:
  static __device__ __forceinline__ float scaled(float x, const BlockScale& s) {
    float q = __fmul_rn(x, s.factor);
    if constexpr (kFp32) {
      q = __fmaf_rn(__fmaf_rn(-q, s.scale, x), s.factor, q);
      q = __fmaf_rn(__fmaf_rn(-q, s.scale, x), s.factor, q);
      q = copysignf(q, x);  // -0 / scale is -0, which the sums above lose
    }
    return q;
  }
};

// The same of blocks of 128 alone, which the compiler then knows.
template <Element kElement_, bool kFp32_>
struct Coder128 : Coder<kElement_, kFp32_> {
  static constexpr int log2_block = 7;
  __device__ __forceinline__ int block() const { return 128; }
};

// Where no codes are written.
struct NoCoder {};

// launch(coder) with the coder of this coding.
template <class Launch>
cudaError_t with_coder(const DeviceCoding& c, const Launch& launch) {
  const int log2 = c.block == 32 ? 5 : 7;
  if (c.element == Element::e4m3) {
    return c.fp32 ? launch(Coder<Element::e4m3, true>{c.addend, log2})
                  : launch(Coder<Element::e4m3, false>{c.addend, log2});
  }
  return c.fp32 ? launch(Coder<Element::e5m2, true>{c.addend, log2})
                : launch(Coder<Element::e5m2, false>{c.addend, log2});
}

// launch(coder) with a coder like `like`, of the element of `c`.
template <class Like, class Launch>
cudaError_t with_element(const DeviceCoding& c, const Like& like, const Launch& launch) {
  if (c.element == Element::e4m3) return launch(Coder<Element::e4m3, Like::kFp32>{like.addend, like.log2_block});
  return launch(Coder<Element::e5m2, Like::kFp32>{like.addend, like.log2_block});
}

}  // namespace mxcheck_kernels::sm90
