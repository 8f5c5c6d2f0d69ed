#pragma once
// Two BF16 in a word, each operation with one rounding to nearest, ties to even; and E5M6 codes in words. Compiled for
// the host they are the same operations, so that tests need no device.

#include <cstdint>

#include "kernels/sm90/common/either.cuh"
#ifdef __CUDACC__
  #include "kernels/sm90/ptx/arithmetic.cuh"
#endif

namespace mxcheck_kernels::sm90 {

#ifdef __CUDACC__
MXCHECK_EITHER std::uint32_t larger2(std::uint32_t a, std::uint32_t b) { return __vmaxu2(a, b); }
MXCHECK_EITHER std::uint32_t smaller2(std::uint32_t a, std::uint32_t b) { return __vminu2(a, b); }
MXCHECK_EITHER std::uint32_t fma2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return ptx::fma_rn_bf16x2(a, b, c);
}
// NaN is 0x7FFF.
MXCHECK_EITHER std::uint32_t to_bf16x2(float low, float high) { return ptx::cvt_rn_bf16x2_f32(low, high); }
#else
MXCHECK_EITHER std::uint32_t larger2(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t high = a >> 16 > b >> 16 ? a : b;
  return (high & 0xFFFF0000) | ((a & 0xFFFF) > (b & 0xFFFF) ? a & 0xFFFF : b & 0xFFFF);
}
MXCHECK_EITHER std::uint32_t smaller2(std::uint32_t a, std::uint32_t b) { return ~larger2(~a, ~b); }
MXCHECK_EITHER std::uint32_t to_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  return std::isnan(x) ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
MXCHECK_EITHER std::uint32_t to_bf16x2(float low, float high) { return to_bf16(high) << 16 | to_bf16(low); }
// An FP32 sum of a BF16 and a power of two not far from it is exact; of one far from it, that power.
MXCHECK_EITHER std::uint32_t fma2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return to_bf16x2(std::fma(float_of(a << 16), float_of(b << 16), float_of(c << 16)),
                   std::fma(float_of(a & 0xFFFF0000), float_of(b & 0xFFFF0000), float_of(c & 0xFFFF0000)));
}
#endif

// --- E5M6 ------------------------------------------------------------------------------------------------------------
//
// Eight E5M6 codes in three words, the first in the highest bits of the first word (numerics/format/packing.h). An E5M6
// code and four zero bits are an FP16, so that codes come and go as halves: halves[i] holds codes 2 i and, above it,
// 2 i + 1, each shifted left by four.
//
//   words[0]  c0 (12 bits)  c1 (12)  c2's upper 8
//   words[1]  c2's lower 4  c3 (12)  c4 (12)  c5's upper 4
//   words[2]  c5's lower 8  c6 (12)  c7 (12)

MXCHECK_EITHER void pack_e5m6(const std::uint32_t (&halves)[4], std::uint32_t (&words)[3]) {
  words[0] = halves[0] << 16 | (halves[0] >> 12 & 0x000FFF00) | (halves[1] >> 8 & 0x000000FF);
  words[1] = halves[1] << 24 | (halves[1] >> 4 & 0x0FFF0000) | (halves[2] & 0x0000FFF0) | halves[2] >> 28;
  words[2] = (halves[2] << 4 & 0xFF000000) | (halves[3] << 8 & 0x00FFF000) | halves[3] >> 20;
}

MXCHECK_EITHER void unpack_e5m6(const std::uint32_t (&words)[3], std::uint32_t (&halves)[4]) {
  halves[0] = (words[0] >> 16 & 0x0000FFF0) | (words[0] << 12 & 0xFFF00000);
  halves[1] = (words[0] << 8 & 0x0000FF00) | (words[1] >> 24 & 0x000000F0) | (words[1] << 4 & 0xFFF00000);
  halves[2] = (words[1] & 0x0000FFF0) | words[1] << 28 | (words[2] >> 4 & 0x0FF00000);
  halves[3] = (words[2] >> 8 & 0x0000FFF0) | words[2] << 20;
}

// Halves of two BF16 magnitudes that are values of codes under the scale 2^(byte - 127), by e5m6_factor(byte).
//
// An E5M6 of the value v is the BF16 v 2^-112 without its exponent's upper bits, three zeros, and its mantissa's last
// bit, a zero: exponents are biased by 15 and 127, so that subnormals of one are subnormals of the other. v 2^-112 is
// the magnitude times 2^(15 - byte), exactly; the -0 that is added changes nothing.
MXCHECK_EITHER std::uint32_t e5m6_halves(std::uint32_t magnitudes, std::uint32_t factor) {
  return fma2(magnitudes, factor, 0x80008000) << 3;
}
// 2^(15 - byte) twice, a normal BF16 up to that byte.
inline constexpr std::uint32_t kE5m6LargestByte = 141;
MXCHECK_EITHER std::uint32_t e5m6_factor(std::uint32_t byte) { return (142 - byte) << 7 | (142 - byte) << 23; }

}  // namespace mxcheck_kernels::sm90
