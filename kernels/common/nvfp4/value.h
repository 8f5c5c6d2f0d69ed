#pragma once
// The value of an NVFP4 code under its block's scale and the tensor's, rounded once: for the host and for CUDA.
//
//   value = code * b * s, or code * b / S, or code * b * amax / 2688
//
// code * b has at most 6 significant bits, so that its product with a float is exact in a double, which has 53 bits and
// more exponents. A quotient is rounded to a double, and then once more; that is as if it were rounded once, since no
// midpoint of a narrower type lies between the two: a product of n bits over a divisor of d is either such a midpoint,
// of at most 25 bits, or differs from it by more than 2^-(d + 26) of itself. d is 24 for S, and 5 for 2688 = 21 * 2^7
// and 1536 = 3 * 2^9.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/common/nvfp4/policy.h"

#ifdef __CUDACC__
  #include <cuda_runtime.h>
  #define MXCHECK_NVFP4_BOTH __host__ __device__
#else
  #define MXCHECK_NVFP4_BOTH
#endif

namespace mxcheck_kernels {

// The tensor's scale: a product is multiplied by one number, and divided by the other.
struct Nvfp4TensorScale {
  double times = 1;
  double over = 1;
};

MXCHECK_NVFP4_BOTH inline Nvfp4TensorScale nvfp4_tensor_scale(Nvfp4Recipe recipe, float stored) {
  const double s = static_cast<double>(stored);
  switch (recipe) {
    case Nvfp4Recipe::exact: return {s, 1};
    case Nvfp4Recipe::vllm: return {1, s};
    case Nvfp4Recipe::four_six: return {s, 1536};
    case Nvfp4Recipe::te:
    case Nvfp4Recipe::te_2_8: break;
  }
  return {s, 2688};
}

template <class To, class From>
MXCHECK_NVFP4_BOTH inline To nvfp4_bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// m * 2^exponent, exactly.
MXCHECK_NVFP4_BOTH inline double nvfp4_scaled(int m, int exponent) {
  return m * nvfp4_bits_as<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// The value of an E4M3 code that is no NaN; its sign counts, as in any E4M3 number.
MXCHECK_NVFP4_BOTH inline double nvfp4_scale_value(std::uint32_t byte) {
  const int field = static_cast<int>(byte >> 3 & 0xF);
  const int fraction = static_cast<int>(byte & 7);
  const double magnitude = field == 0 ? nvfp4_scaled(fraction, -9) : nvfp4_scaled(8 + fraction, field - 10);
  return (byte & 0x80) != 0 ? -magnitude : magnitude;
}

// The value of an E2M1 code of 0 to 7.
MXCHECK_NVFP4_BOTH inline double nvfp4_code_value(std::uint32_t code) {
  const int field = static_cast<int>(code >> 1);
  const int fraction = static_cast<int>(code & 1);
  return field == 0 ? nvfp4_scaled(fraction, -1) : nvfp4_scaled(2 + fraction, field - 2);
}

MXCHECK_NVFP4_BOTH inline bool nvfp4_is_nan(std::uint32_t byte) { return (byte & 0x7F) == 0x7F; }

// The value of a code of 0 to 7, nearly exact: on the right side of every midpoint of FP32 and BF16. A byte that is no
// NaN.
MXCHECK_NVFP4_BOTH inline double nvfp4_value(const Nvfp4TensorScale& scale, std::uint32_t code, std::uint32_t byte) {
  return nvfp4_code_value(code) * nvfp4_scale_value(byte) * scale.times / scale.over;
}

// Rounded to nearest even, with its sign.
MXCHECK_NVFP4_BOTH inline void nvfp4_round(double value, std::uint32_t& to) {
  to = nvfp4_bits_as<std::uint32_t>(static_cast<float>(value));
}

// To BF16 once: first to an FP32 number that is odd where something was cut, which lies on the same side of every
// midpoint of BF16.
MXCHECK_NVFP4_BOTH inline void nvfp4_round(double value, std::uint16_t& to) {
  const float nearest = static_cast<float>(value);
  std::uint32_t bits = nvfp4_bits_as<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  if (static_cast<double>(nvfp4_bits_as<float>(bits)) != value) bits |= 1;
  to = static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// FP32 or BF16 bits of the value of any code under any scale byte.
template <class T>
MXCHECK_NVFP4_BOTH inline T nvfp4_value_bits(const Nvfp4TensorScale& scale, std::uint32_t code, std::uint32_t byte) {
  if (nvfp4_is_nan(byte)) return static_cast<T>(0x7FC00000U >> (32 - 8 * sizeof(T)));
  const double magnitude = nvfp4_value(scale, code & 7, byte);
  T bits{};
  nvfp4_round((code & 8) != 0 ? -magnitude : magnitude, bits);
  return bits;
}

}  // namespace mxcheck_kernels
