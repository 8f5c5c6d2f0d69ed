#pragma once
// Arithmetic that sm_100a has instructions for and other targets do not, with portable bodies of the same bits.
//
// NaN: results of arithmetic are the canonical 0x7FFFFFFF, as an NVIDIA GPU's are; portable bodies make it so.
// Subnormals are kept: nothing here has .ftz.
//
// UE8M0, the scale byte, is 2^(byte - 127), and 255 is NaN. Of cvt.rp.satfinite.ue8m0x2 (PTX ISA, "cvt") the portable
// body is:
//   NaN -> 255; infinities -> 254; the sign is ignored; |x| <= 2^-127, zero too -> 0; 2^-127 < |x| <= 2^-126 -> 1;
//   otherwise the least power of two that is not below |x|, at most 2^127 (byte 254).
// Signs and subnormals are as in the conversion that NVIDIA's cuda_fp8.hpp has for other targets; no sm_100a was there
// to ask.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/sm100/tcgen05/target.h"

namespace mxcheck::sm100 {

MXCHECK_SM100_ANYWHERE std::uint32_t float_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
MXCHECK_SM100_ANYWHERE float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// --- scale bytes
// ---------------------------------------------------------------------------------------------------------------

// The byte of 2^exponent, clamped to what a byte can say: -127 to 127. Integers alone.
MXCHECK_SM100_ANYWHERE constexpr std::uint8_t scale_byte(int exponent) {
  const int low = exponent < -127 ? -127 : exponent;
  return static_cast<std::uint8_t>((low > 127 ? 127 : low) + 127);
}
// 2^(byte - 127); byte 0 is the subnormal 2^-127, 255 NaN.
MXCHECK_SM100_ANYWHERE float scale_value(std::uint8_t byte) {
  return float_of(byte == 255 ? 0x7FFFFFFFu : byte == 0 ? 0x00400000u : std::uint32_t{byte} << 23);
}

namespace numbers_detail {
// The bits of the result of arithmetic.
MXCHECK_SM100_ANYWHERE float canonical(float x) { return x == x ? x : float_of(0x7FFFFFFFu); }

// Rounding up carries into the exponent field: any fraction bit adds 1. 0x00400000 is 2^-127, which byte 0 is.
MXCHECK_SM100_ANYWHERE std::uint8_t scale_byte_up(float x) {
  const std::uint32_t magnitude = float_bits(x) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 255;
  if (magnitude <= 0x00400000u) return 0;
  const std::uint32_t byte = (magnitude >> 23) + ((magnitude & 0x007FFFFFu) != 0 ? 1u : 0u);
  return static_cast<std::uint8_t>(byte < 254u ? byte : 254u);
}
// The maximum, as max.f32 has it: a NaN loses against a number, and -0 against +0.
MXCHECK_SM100_ANYWHERE float max_of(float a, float b) {
  if (a != a) return canonical(b);
  if (b != b) return a;
  if (a == b) return float_of(float_bits(a) & float_bits(b));
  return a > b ? a : b;
}
}  // namespace numbers_detail

// The scale bytes of two magnitudes, rounded up: `low` in bits 7:0, `high` in 15:8. cvt's first source is the high
// half.
MXCHECK_SM100_DEVICE std::uint16_t pack_ue8m0(float low, float high) {
#if MXCHECK_SM100_SOFTWARE
  return static_cast<std::uint16_t>(numbers_detail::scale_byte_up(low) | numbers_detail::scale_byte_up(high) << 8);
#else
  std::uint16_t packed;
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
#endif
}

// --- two numbers at once
// -------------------------------------------------------------------------------------------------------

struct Float2 {
  float x;
  float y;
};

MXCHECK_SM100_DEVICE Float2 add2(Float2 a, Float2 b) {
#if MXCHECK_SM100_SOFTWARE
  return {numbers_detail::canonical(a.x + b.x), numbers_detail::canonical(a.y + b.y)};
#else
  Float2 d;
  asm("{\n"
      ".reg .b64 a, b, d;\n"
      "mov.b64 a, {%2, %3};\n"
      "mov.b64 b, {%4, %5};\n"
      "add.rn.f32x2 d, a, b;\n"
      "mov.b64 {%0, %1}, d;\n"
      "}"
      : "=f"(d.x), "=f"(d.y)
      : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
  return d;
#endif
}
MXCHECK_SM100_DEVICE Float2 mul2(Float2 a, Float2 b) {
#if MXCHECK_SM100_SOFTWARE
  return {numbers_detail::canonical(a.x * b.x), numbers_detail::canonical(a.y * b.y)};
#else
  Float2 d;
  asm("{\n"
      ".reg .b64 a, b, d;\n"
      "mov.b64 a, {%2, %3};\n"
      "mov.b64 b, {%4, %5};\n"
      "mul.rn.f32x2 d, a, b;\n"
      "mov.b64 {%0, %1}, d;\n"
      "}"
      : "=f"(d.x), "=f"(d.y)
      : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
  return d;
#endif
}
// a * b + c, rounded once.
MXCHECK_SM100_DEVICE Float2 fma2(Float2 a, Float2 b, Float2 c) {
#if MXCHECK_SM100_SOFTWARE
  return {numbers_detail::canonical(std::fma(a.x, b.x, c.x)), numbers_detail::canonical(std::fma(a.y, b.y, c.y))};
#else
  Float2 d;
  asm("{\n"
      ".reg .b64 a, b, c, d;\n"
      "mov.b64 a, {%2, %3};\n"
      "mov.b64 b, {%4, %5};\n"
      "mov.b64 c, {%6, %7};\n"
      "fma.rn.f32x2 d, a, b, c;\n"
      "mov.b64 {%0, %1}, d;\n"
      "}"
      : "=f"(d.x), "=f"(d.y)
      : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y), "f"(c.x), "f"(c.y));
  return d;
#endif
}
// The largest; NaN where all three are.
MXCHECK_SM100_DEVICE float max3(float a, float b, float c) {
#if MXCHECK_SM100_SOFTWARE
  return numbers_detail::max_of(numbers_detail::max_of(a, b), c);
#else
  float d;
  asm("max.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
#endif
}

// --- 256 bits of global memory
// -------------------------------------------------------------------------------------------------

struct Words8 {
  std::uint32_t w[8];
};

// `from` and `to` are at multiples of 32 bytes.
MXCHECK_SM100_DEVICE Words8 ld_global(const void* from) {
  Words8 words;
#if MXCHECK_SM100_SOFTWARE
  std::memcpy(&words, from, sizeof(words));
#else
  asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(words.w[0]), "=r"(words.w[1]), "=r"(words.w[2]), "=r"(words.w[3]), "=r"(words.w[4]),
                 "=r"(words.w[5]), "=r"(words.w[6]), "=r"(words.w[7])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
#endif
  return words;
}
MXCHECK_SM100_DEVICE void st_global(void* to, const Words8& words) {
#if MXCHECK_SM100_SOFTWARE
  std::memcpy(to, &words, sizeof(words));
#else
  asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(__cvta_generic_to_global(to)),
               "r"(words.w[0]), "r"(words.w[1]), "r"(words.w[2]), "r"(words.w[3]), "r"(words.w[4]), "r"(words.w[5]),
               "r"(words.w[6]), "r"(words.w[7])
               : "memory");
#endif
}

}  // namespace mxcheck::sm100
