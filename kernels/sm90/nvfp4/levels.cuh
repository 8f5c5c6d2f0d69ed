#pragma once
// The numbers of NVFP4's two levels of scales on the device. FP32 operations are rounded to nearest even, one by one,
// and keep subnormal numbers: nothing here is an approximation, and nothing is contracted.
//
// A code is found in one of two ways. The fast one (encode.cuh) takes the elements' values v = RN(x * factor), |v| < 7,
// to codes by additions; beyond 7 they are cut to 6 first, as are NaN. The exact recipe has no factor: it takes the
// fast way with a quotient that is off by less than 2^-21 of itself. For elements whose code that leaves open, and for
// blocks with others than finite numbers, it compares.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/nvfp4/policy.h"
#include "kernels/sm90/nvfp4/reciprocal.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000;
inline constexpr float kLargestFloat = 0x1.fffffep127F;
inline constexpr std::uint32_t kE4m3Nan = 0x7F;
inline constexpr std::uint32_t kE2m1Nan = 7;  // E2M1 has no NaN: it becomes +6, whatever its sign

// The arithmetic of a recipe: exact, in FP32, or in FP32 with a choice between two scales (choice.cuh).
enum class Arithmetic { exact, floats, choice };
inline Arithmetic arithmetic_of(Nvfp4Recipe recipe) {
  if (recipe == Nvfp4Recipe::exact) return Arithmetic::exact;
  return recipe == Nvfp4Recipe::four_six ? Arithmetic::choice : Arithmetic::floats;
}

// The scale of the tensor, as the recipe uses it.
struct Nvfp4Outer {
  float encode = 1;         // S; exact: 2^k with s * 2^k in [1, 2), as far as floats have it
  float decode = 1;         // s
  float encode_over_6 = 1;  // RN(S * RN(1 / 6)); exact: 1 / (6 s 2^k)
  float rest = 1;           // exact: encode * rest is 2^k
  float of_zero = 0;        // the factor of a block whose scale is 0; not of exact
  bool ordinary = false;    // s is so far from 0 and infinity that b s and 1 / (b s) are normal; not of exact
};

__device__ __forceinline__ float power_of_two(int exponent) {  // -126 .. 127
  return __uint_as_float(static_cast<std::uint32_t>(exponent + 127) << 23);
}

template <Arithmetic kArithmetic>
__device__ __forceinline__ Nvfp4Outer outer_of(Nvfp4Recipe recipe, float stored) {
  Nvfp4Outer outer;
  if constexpr (kArithmetic == Arithmetic::exact) {
    const int k = -ilogbf(stored);  // -127 .. 149
    const int half = k / 2;
    outer.decode = stored;
    outer.encode = power_of_two(half), outer.rest = power_of_two(k - half);
    outer.encode_over_6 = __fdiv_rn(1.0F, 6.0F * (stored * outer.encode * outer.rest));
    return outer;
  }
  if constexpr (kArithmetic == Arithmetic::choice) {
    if (stored != 0) outer.encode = __fdiv_rn(1536.0F, stored);
  } else if (recipe == Nvfp4Recipe::vllm) {
    outer.encode = stored;
  } else if (stored != 0) {  // an amax of 0 leaves S at 1
    outer.encode = fminf(__fdiv_rn(2688.0F, stored), kLargestFloat);
  }
  outer.decode = __frcp_rn(outer.encode);
  outer.encode_over_6 = __fmul_rn(outer.encode, 1.0F / 6.0F);
  outer.of_zero = recipe == Nvfp4Recipe::vllm ? 0.0F : kLargestFloat;
  outer.ordinary = outer.decode > 0x1p-100F && outer.decode < 0x1p100F;
  return outer;
}

// RN to E4M3 of a number of 0 or more, at most 448; NaN for NaN.
__device__ __forceinline__ std::uint32_t e4m3_of(float quotient) {
  return ptx::cvt_rn_satfinite_e4m3x2_f32(quotient, 0.0F) & 0xFFU;
}

__device__ __forceinline__ float e4m3_value(std::uint32_t byte) {
  return ptx::cvt_f32_f16x2(ptx::cvt_rn_f16x2_e4m3x2(static_cast<std::uint16_t>(byte))).x;
}

// RN to E4M3 of a / (6 s), as if exact. A quotient in floats decides unless it lies near a midpoint, which has 20 bits
// below E4M3's that are 0x80000; below 2^-6 midpoints lie elsewhere. Then the quotient of doubles decides, rounded to
// odd to 24 bits, of which E4M3 has less than half.
__device__ __forceinline__ std::uint32_t exact_byte(const Nvfp4Outer& outer, float a) {
  const float near = a * outer.encode * outer.rest * outer.encode_over_6;
  const std::uint32_t below = __float_as_uint(near) & 0xFFFFFU;
  const bool sure = (near >= 0x1p-6F && below - 0x7FFE0U > 0x40U) || near < 0x1p-11F;
  if (sure) return e4m3_of(near);
  const double quotient = __ddiv_rn(static_cast<double>(a), 6.0 * static_cast<double>(outer.decode));
  if (quotient >= 448) return 0x7E;
  const float cut = __double2float_rz(quotient);
  const bool is_cut = static_cast<double>(cut) != quotient;
  return e4m3_of(__uint_as_float(__float_as_uint(cut) | (is_cut ? 1U : 0U)));
}

// The scale of a block, and by which its elements are multiplied.
struct Nvfp4Scale {
  std::uint32_t byte = 0;
  float factor = 0;  // exact: 1 / (b s), nearly, or 0 where it is far from 1
};

// Finds the scales of several blocks from the bits of their amax, NaN if a NaN counts.
template <bool kExact, int kBlocks>
__device__ __forceinline__ void find_scales(Nvfp4Recipe recipe, const Nvfp4Outer& outer,
                                            const std::uint32_t (&amax)[kBlocks], Nvfp4Scale (&scales)[kBlocks]) {
  if constexpr (kExact) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      scales[i].byte = amax[i] >= kInfinityBits ? kE4m3Nan : exact_byte(outer, __uint_as_float(amax[i]));
      const float product = __fmul_rn(e4m3_value(scales[i].byte), outer.decode);
      scales[i].factor = product > 0x1p-100F && product < 0x1p100F ? reciprocal_of_normal(product) : 0;
    }
    return;
  }
  float quotient[kBlocks];
  if (recipe == Nvfp4Recipe::te_2_8) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) quotient[i] = __fmul_rn(__fdiv_rn(__uint_as_float(amax[i]), 6.0F), outer.encode);
  } else {
    const bool once = recipe == Nvfp4Recipe::te;  // a product with 1 changes nothing
    const float first = once ? outer.encode_over_6 : 1.0F / 6.0F;
    const float second = once ? 1.0F : outer.encode;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) quotient[i] = __fmul_rn(__fmul_rn(__uint_as_float(amax[i]), first), second);
  }
  float product[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    scales[i].byte = e4m3_of(quotient[i]);
    product[i] = __fmul_rn(e4m3_value(scales[i].byte), outer.decode);
  }
  if (outer.ordinary) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) scales[i].factor = reciprocal_of_normal(product[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const float factor = __frcp_rn(product[i]);
      scales[i].factor = recipe == Nvfp4Recipe::vllm ? factor : fminf(factor, kLargestFloat);  // as a NaN becomes too
    }
  }
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (scales[i].byte == 0) scales[i].factor = outer.of_zero;
  }
}

// The code of an element under the exact recipe, whatever it is, by its comparison with the midpoints: doubles hold the
// products of midpoints, b and s.
__device__ __noinline__ inline std::uint32_t slow_code(float decode, std::uint32_t byte, float x) {
  if (isnan(x) || byte == kE4m3Nan) return kE2m1Nan;
  const std::uint32_t sign = __float_as_uint(x) >> 28 & 8U;
  if (byte == 0) return sign;
  const double m = fabs(static_cast<double>(x));
  const double quarter = static_cast<double>(e4m3_value(byte)) * static_cast<double>(decode) / 4;
  return sign | ((m > quarter ? 1U : 0U) + (m >= 3 * quarter ? 1U : 0U) + (m > 5 * quarter ? 1U : 0U) +
                 (m >= 7 * quarter ? 1U : 0U) + (m > 10 * quarter ? 1U : 0U) + (m >= 14 * quarter ? 1U : 0U) +
                 (m > 20 * quarter ? 1U : 0U));
}

}  // namespace mxcheck_kernels::sm90
