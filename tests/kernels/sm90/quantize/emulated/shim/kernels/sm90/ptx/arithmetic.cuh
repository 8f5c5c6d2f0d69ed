#pragma once
#include <cuda_runtime.h>
namespace mxcheck_kernels::sm90::ptx {
// Not the format's: another function of 8 bits that tells values apart, NaN included.
inline std::uint16_t two(float a, float b) { auto f = [](float v) -> unsigned { unsigned u = std::bit_cast<unsigned>(v); if (v != v) return 0x7F; if (std::fabs(v) < 0x1p-20f) return u >> 31 << 7; return (u >> 20 ^ u >> 28 ^ u >> 17) & 0xFF; }; return (std::uint16_t)(f(b) | f(a) << 8); }
// cvt d, a, b: a in the upper half; the wrapper is called (low, high)
inline std::uint32_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) { return two(high, low); }
inline std::uint32_t cvt_rn_satfinite_e5m2x2_f32(float low, float high) { return two(high, low); }
inline float2 cvt_f32_f16x2(std::uint32_t) { return {}; }
inline std::uint32_t cvt_rn_f16x2_e4m3x2(std::uint16_t) { return 0; }
inline std::uint32_t cvt_rn_f16x2_e5m2x2(std::uint16_t) { return 0; }
inline std::uint32_t mul_rn_bf16x2(std::uint32_t a, std::uint32_t b) {
  auto one = [](unsigned x, unsigned y) -> unsigned { float p = std::bit_cast<float>(x << 16) * std::bit_cast<float>(y << 16); if (p != p) return 0x7FFF; unsigned u = std::bit_cast<unsigned>(p); return (u + 0x7FFF + (u >> 16 & 1)) >> 16; };
  return one(a & 0xFFFF, b & 0xFFFF) | one(a >> 16, b >> 16) << 16;
}
inline std::uint32_t max_nan_xorsign_abs_bf16x2(std::uint32_t a, std::uint32_t b) {
  auto one = [](unsigned x, unsigned y) -> unsigned { unsigned s = (x ^ y) & 0x8000, p = x & 0x7FFF, q = y & 0x7FFF; unsigned m = p > 0x7F80 || q > 0x7F80 ? 0x7FFF : std::max(p, q); return m | (m == 0x7FFF ? 0 : s); };
  return one(a & 0xFFFF, b & 0xFFFF) | one(a >> 16, b >> 16) << 16;
}
}
