#pragma once
// Elements of a layer on the device: BF16 words, SwiGLU and its gradient, blocks to codes. Every operation is named
// with its rounding, so that the compiler contracts nothing.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/layer/sigmoid.h"
#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ __forceinline__ float low_half(std::uint32_t word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000); }

// The table of sigmoids in shared memory, by all threads of a block; a barrier follows.
__device__ __forceinline__ void load_sigmoids(float* q) {
  const auto* from = reinterpret_cast<const float4*>(kSigmoids.q);
  for (int i = static_cast<int>(threadIdx.x); i < kSigmoidEntries / 4; i += static_cast<int>(blockDim.x)) {
    reinterpret_cast<float4*>(q)[i] = from[i];
  }
  __syncthreads();
}
static_assert(kSigmoidEntries % 4 == 0);

// sigmoid_place of two BF16 gates, less kGateFirst each.
__device__ __forceinline__ std::uint32_t two_places(std::uint32_t gates) {
  constexpr std::uint32_t kFirst = kGateFirst * 0x10001U;
  constexpr std::uint32_t kLast = (kGateLast - 1) * 0x10001U;
  const std::uint32_t magnitudes = __vminu2(__vmaxu2(gates & 0x7FFF7FFF, kFirst), kLast);
  return magnitudes + (gates >> 15 & 0x00010001) * kGates;  // below 2^15: no carry
}

__device__ __forceinline__ float swiglu(float g, float u, float q) { return __fmul_rn(__fmul_rn(g, q), u); }

struct Gradient {
  float dg;
  float du;
};
__device__ __forceinline__ Gradient swiglu_gradient(float g, float u, float q, float da) {
  const float derivative = __fmul_rn(q, __fmaf_rn(g, __fsub_rn(1.0F, q), 1.0F));
  return {__fmul_rn(da, __fmul_rn(u, derivative)), __fmul_rn(da, __fmul_rn(g, q))};
}

// Magnitudes of BF16 numbers are ordered as their bits: the larger of each half, and of both as an FP32's bits.
__device__ __forceinline__ std::uint32_t larger_halves(std::uint32_t amax, std::uint32_t two) {
  return __vmaxu2(amax, two & 0x7FFF7FFF);
}
__device__ __forceinline__ std::uint32_t larger_half(std::uint32_t amax) { return max(amax << 16, amax & 0xFFFF0000); }

__device__ __forceinline__ std::uint32_t amax_of(const uint4& words) {
  const std::uint32_t low = larger_halves(words.x & 0x7FFF7FFF, words.y);
  return larger_halves(larger_halves(low, words.z), words.w);
}

// The largest of `lanes` neighbouring lanes, a power of two.
__device__ __forceinline__ std::uint32_t largest_of(std::uint32_t amax, int lanes) {
  for (int step = 1; step < lanes; step *= 2) amax = max(amax, __shfl_xor_sync(kAllLanes, amax, step));
  return amax;
}

// --- values to codes -------------------------------------------------------------------------------------------------
//
// By one coding, compiled for each kind of it.
//
// Codes of RN(x / s), for FP32 scales s, by two operations. With h = 1 / s towards zero and l = RN(h RN(1 - h s)),
// whose inner difference is exact, h + l is within 1.5 * 2^-46 of 1 / s, and y = fma(x, h, RN(x l)) is RN(x / s * (1 +
// d)) with |d| below 2^-45. RN(x / s) and y are the same float, or neighbours around a midpoint u of floats. Neighbours
// have different codes only if one of them is a midpoint of codes, of 5 bits at most: then u = 2^k N, N = 2^20 M +- 1
// for an integer M of 16 to 32. With X and S, of 24 bits, the significands of x and s, |2^j X - S N| <= 16 for j = 24
// or 25, which modulo 2^20 is S within 16 of a multiple of 2^20; for a multiple itself 2^j would have to divide S.
// Blocks with such an S divide. So do those with s outside 2^-80 to 2^80: between, a subnormal l loses less than 2^-68
// of h, and x l is subnormal to effect only where the quotient is below 2^-18 and its code a zero. Both terms have the
// sign of x, so that -0 stays.

// A block's scale: the word that is stored (a byte, or a float's bits), and what elements are multiplied by: of FP32
// scales h and l, or, where elements are divided, less the scale in place of l.
struct BlockScale {
  std::uint32_t stored;
  float factor;
  float low;
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
      const float high = __frcp_rz(scale);
      const float low = __fmul_rn(high, __fmaf_rn(-high, scale, 1.0F));
      return {__float_as_uint(scale), high, is_divided(scale) ? -scale : low};
    } else {
      const std::uint32_t byte = scale_byte<kElement>(amax, addend);
      return {byte, factor_of(byte), 0.0F};
    }
  }

  // Four codes in a word.
  __device__ __forceinline__ std::uint32_t codes(float a, float b, float c, float d, const BlockScale& s) const {
    if constexpr (kFp32) {
      if (divides(s)) return codes_by<true>(a, b, c, d, s);
    }
    return codes_by<false>(a, b, c, d, s);
  }

  // The same where a scale is shared by so many that the way to its codes is chosen once: codes_by<divides(s)>.
  static __device__ __forceinline__ bool divides(const BlockScale& s) { return kFp32 && s.low < 0; }

  template <bool kDivides>
  __device__ __forceinline__ std::uint32_t codes_by(float a, float b, float c, float d, const BlockScale& s) const {
    if constexpr (kFp32 && kDivides) {
      return encode4<kElement>(__fdiv_rn(a, -s.low), __fdiv_rn(b, -s.low), __fdiv_rn(c, -s.low), __fdiv_rn(d, -s.low));
    } else {
      return encode4<kElement>(scaled(a, s), scaled(b, s), scaled(c, s), scaled(d, s));
    }
  }

  // Codes of four words of two columns in BF16, each column with its scale: of the low halves in x, of the high in y.
  //
  // A BF16 times a power of two is exact in BF16, or so small that its code is a zero.
  __device__ __forceinline__ uint2 codes_of_columns(const std::uint32_t* w, const BlockScale& low,
                                                    const BlockScale& high) const {
    if constexpr (kFp32) {
      return {codes(low_half(w[0]), low_half(w[1]), low_half(w[2]), low_half(w[3]), low),
              codes(high_half(w[0]), high_half(w[1]), high_half(w[2]), high_half(w[3]), high)};
    } else {
      const std::uint32_t factors = __byte_perm(__float_as_uint(low.factor), __float_as_uint(high.factor), 0x7632);
      std::uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = ptx::mul_rn_bf16x2(w[i], factors);
      return {encode4<kElement>(low_half(x[0]), low_half(x[1]), low_half(x[2]), low_half(x[3])),
              encode4<kElement>(high_half(x[0]), high_half(x[1]), high_half(x[2]), high_half(x[3]))};
    }
  }
  // Codes of four neighbours in two words, with one scale.
  __device__ __forceinline__ std::uint32_t codes_of_neighbours(std::uint32_t w0, std::uint32_t w1,
                                                               const BlockScale& s) const {
    if constexpr (kFp32) {
      return codes(low_half(w0), high_half(w0), low_half(w1), high_half(w1), s);
    } else {
      const std::uint32_t factors = __byte_perm(__float_as_uint(s.factor), 0, 0x3232);
      w0 = ptx::mul_rn_bf16x2(w0, factors), w1 = ptx::mul_rn_bf16x2(w1, factors);
      return encode4<kElement>(low_half(w0), high_half(w0), low_half(w1), high_half(w1));
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
    return kFp32 ? __fmaf_rn(x, s.factor, __fmul_rn(x, s.low)) : __fmul_rn(x, s.factor);
  }

  static __device__ __forceinline__ bool is_divided(float scale) {
    const std::uint32_t low = __float_as_uint(scale) & 0xFFFFF;
    const bool near = low != 0 && ((low + 16) & 0xFFFFF) <= 32;
    return near || scale < 0x1p-80F || scale > 0x1p80F;
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
