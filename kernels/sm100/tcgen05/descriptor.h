#pragma once
// Typed builders of the two descriptors that tcgen05.mma and tcgen05.cp take (PTX ISA, "Instruction descriptor",
// "Shared memory descriptor"). ptxas checks nothing in them, so what can be wrong is checked here, at compile time: a
// description is a template argument, and one that is outside of the PTX ISA does not compile.
//
// Does not check that a tile's address is on the swizzle's boundary, nor that tile, box and description agree:
// addresses are known when the kernel runs. The emulation checks those.
//
// Example: the pair's MXFP8 instruction of 256 x 256, and operands in rows of 128 bytes along k:
//   constexpr auto kInstruction = instruction_descriptor<ScaledInstruction{.m = 256, .n = 256, .cta_group = 2}>();
//   const SharedDescriptor a = shared_descriptor<k_major(Swizzle::b128)>(stage);
//   for (int k = 0; k < 4; ++k) mma_block_scaled<2>(d, advance(a, 32 * k), advance(b, 32 * k),
//   with_scale_ids(kInstruction, k, k), ...);

#include <cstdint>

#include "kernels/sm100/tcgen05/target.h"

namespace mxcheck::sm100 {

// --- the instruction: 32 bits
// --------------------------------------------------------------------------------------------------

struct InstructionDescriptor {
  std::uint32_t bits;
};

enum class HalfFormat : std::uint8_t { f16 = 0, bf16 = 1 };  // of kind::f16
enum class ByteFormat : std::uint8_t {
  e4m3 = 0,
  e5m2 = 1,
  e2m3 = 3,
  e3m2 = 4,
  e2m1 = 5
};  // of kind::f8f6f4, kind::mxf8f6f4
enum class Accumulator : std::uint8_t { f16 = 0, f32 = 1 };
enum class Major : std::uint8_t { k = 0, mn = 1 };  // what is contiguous in shared memory

// M is the pair's with cta_group 2, of both CTAs together.
template <class Format, Format kUsual>
struct UnscaledInstruction {
  int m;
  int n;
  int cta_group = 1;
  Format a = kUsual;
  Format b = kUsual;
  Accumulator d = Accumulator::f32;
  Major a_major = Major::k;
  Major b_major = Major::k;
};
using HalfInstruction = UnscaledInstruction<HalfFormat, HalfFormat::bf16>;
using ByteInstruction = UnscaledInstruction<ByteFormat, ByteFormat::e4m3>;
// kind::mxf8f6f4, UE8M0 scales of 32 elements. D is FP32, which the descriptor does not say.
struct ScaledInstruction {
  int m;
  int n;
  int cta_group = 1;
  ByteFormat a = ByteFormat::e4m3;
  ByteFormat b = ByteFormat::e4m3;
  Major a_major = Major::k;
  Major b_major = Major::k;
};

// kind::mxf4 and kind::mxf4nvf4: E2M1 by E2M1, packed two a byte and K-major, 64 of k. D is FP32. Blocks of 16 have
// UE4M3 scales (NVFP4), blocks of 32 UE8M0; which blocks is the instruction's qualifier, not the descriptor's.
enum class ScaleFormat : std::uint8_t { ue4m3 = 0, ue8m0 = 1 };
struct Fp4Instruction {
  int m;
  int n;
  int cta_group = 1;
  ScaleFormat scales = ScaleFormat::ue4m3;
};

namespace descriptor_detail {

// Steps of N: where the PTX ISA and CUTLASS differ, the larger (16 at M = 128, 32 of a pair in the unscaled kinds).
// Bytes that are MN-major in B need 16 and 32 too, whatever M is.
MXCHECK_SM100_ANYWHERE constexpr bool unscaled_shape(int m, int n, int cta_group, bool b_transposed_bytes) {
  if (n <= 0 || n > 256) return false;
  if (cta_group == 1) return (m == 64 && n % (b_transposed_bytes ? 16 : 8) == 0) || (m == 128 && n % 16 == 0);
  return cta_group == 2 && (m == 128 || m == 256) && n % 32 == 0;
}
MXCHECK_SM100_ANYWHERE constexpr bool scaled_shape(int m, int n, int cta_group, bool b_transposed) {
  if (n <= 0 || n > 256) return false;
  if (cta_group == 1) return m == 128 && n % (b_transposed ? 16 : 8) == 0;
  return cta_group == 2 && (m == 128 || m == 256) && n % (b_transposed ? 32 : 16) == 0;
}
// The fields that all kinds have in the same bits: formats 9:7 and 12:10, majors 15 and 16, N / 8 in 22:17, M / 16 in
// 28:24. The scaled kind has M / 128 in 28:27, which are the same bits for its M of 128 and 256.
MXCHECK_SM100_ANYWHERE constexpr std::uint32_t common_bits(unsigned a, unsigned b, Major a_major, Major b_major, int m,
                                                           int n) {
  return a << 7 | b << 10 | static_cast<std::uint32_t>(a_major) << 15 | static_cast<std::uint32_t>(b_major) << 16 |
         static_cast<std::uint32_t>(n / 8) << 17 | static_cast<std::uint32_t>(m / 16) << 24;
}

}  // namespace descriptor_detail

MXCHECK_SM100_ANYWHERE constexpr bool valid(const HalfInstruction& i) {
  const bool one_type = i.d == Accumulator::f32 || (i.a == HalfFormat::f16 && i.b == HalfFormat::f16);
  return i.a == i.b && one_type && descriptor_detail::unscaled_shape(i.m, i.n, i.cta_group, false);
}
MXCHECK_SM100_ANYWHERE constexpr bool valid(const ByteInstruction& i) {
  return descriptor_detail::unscaled_shape(i.m, i.n, i.cta_group, i.b_major == Major::mn);
}
MXCHECK_SM100_ANYWHERE constexpr bool valid(const ScaledInstruction& i) {
  return descriptor_detail::scaled_shape(i.m, i.n, i.cta_group, i.b_major == Major::mn);
}

MXCHECK_SM100_ANYWHERE constexpr bool valid(const Fp4Instruction& i) {
  return descriptor_detail::scaled_shape(i.m, i.n, i.cta_group, false);
}

template <HalfInstruction kInstruction>
MXCHECK_SM100_ANYWHERE constexpr InstructionDescriptor instruction_descriptor() {
  constexpr HalfInstruction i = kInstruction;
  static_assert(valid(i), "no such instruction of kind::f16");
  return {descriptor_detail::common_bits(static_cast<unsigned>(i.a), static_cast<unsigned>(i.b), i.a_major, i.b_major,
                                         i.m, i.n) |
          static_cast<std::uint32_t>(i.d) << 4};
}
template <ByteInstruction kInstruction>
MXCHECK_SM100_ANYWHERE constexpr InstructionDescriptor instruction_descriptor() {
  constexpr ByteInstruction i = kInstruction;
  static_assert(valid(i), "no such instruction of kind::f8f6f4");
  return {descriptor_detail::common_bits(static_cast<unsigned>(i.a), static_cast<unsigned>(i.b), i.a_major, i.b_major,
                                         i.m, i.n) |
          static_cast<std::uint32_t>(i.d) << 4};
}
// Scale ids are 0: with_scale_ids gives each step of k its own.
template <ScaledInstruction kInstruction>
MXCHECK_SM100_ANYWHERE constexpr InstructionDescriptor instruction_descriptor() {
  constexpr ScaledInstruction i = kInstruction;
  static_assert(valid(i), "no such instruction of kind::mxf8f6f4");
  constexpr std::uint32_t kUe8m0 = 1u << 23;
  return {descriptor_detail::common_bits(static_cast<unsigned>(i.a), static_cast<unsigned>(i.b), i.a_major, i.b_major,
                                         i.m, i.n) |
          kUe8m0};
}
template <Fp4Instruction kInstruction>
MXCHECK_SM100_ANYWHERE constexpr InstructionDescriptor instruction_descriptor() {
  constexpr Fp4Instruction i = kInstruction;
  static_assert(valid(i), "no such instruction of kind::mxf4 or kind::mxf4nvf4");
  constexpr unsigned kE2m1 = 1;  // 5 in the kinds whose elements are a byte each
  return {descriptor_detail::common_bits(kE2m1, kE2m1, Major::k, Major::k, i.m, i.n) |
          static_cast<std::uint32_t>(i.scales) << 23};
}
// Sets the scale ids: at which byte of its word in tensor memory a row's scales begin. kind::mxf8f6f4: which step of k,
// 0 to 3; blocks of 32 of FP4: 0 or 2; blocks of 16: 0, as the word has one step. A's id is in 30:29, B's in 5:4.
MXCHECK_SM100_ANYWHERE constexpr InstructionDescriptor with_scale_ids(InstructionDescriptor i, unsigned a, unsigned b) {
  return {(i.bits & ~(3u << 29 | 3u << 4)) | (a & 3u) << 29 | (b & 3u) << 4};
}

// --- an operand in shared memory: 64 bits
// --------------------------------------------------------------------------------------

// How a tile of shared memory is swizzled, the same for TMA that writes it, and for mma that reads it: an XOR of bits
// of the absolute address, [4, 4 + s) with [7, 7 + s). Tiles begin at a multiple of the pattern, else every address in
// them is wrong by an XOR.
// The values are those of a matrix descriptor's bits 63:61 (PTX ISA, "Shared memory descriptor"); 3, 5 and 7 are none.
enum class Swizzle : std::uint8_t { none = 0, b128_atom32 = 1, b128 = 2, b64 = 4, b32 = 6 };

// Bytes along a row after which the pattern repeats; 16 without swizzle, the width of a core matrix.
MXCHECK_SM100_ANYWHERE constexpr unsigned swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::b128:
    case Swizzle::b128_atom32: return 128;
    case Swizzle::b64: return 64;
    case Swizzle::b32: return 32;
    case Swizzle::none: return 16;
  }
  return 0;
}
// Eight rows of a span, and what a swizzled tile's address is a multiple of: 1024, 512, 256, and 128 of unswizzled core
// matrices.
MXCHECK_SM100_ANYWHERE constexpr unsigned swizzle_pattern(Swizzle swizzle) { return 8 * swizzle_span(swizzle); }

struct SharedDescriptor {
  std::uint64_t bits;
};

// LBO and SBO in bytes; what they step over depends on major and swizzle, so layouts come from the functions below.
struct SharedLayout {
  Swizzle swizzle;
  unsigned leading_bytes;
  unsigned stride_bytes;
};

// Rows along k, of one span. LBO is not used, and 16 by convention ("assumed 1"); SBO steps to the next 8 rows.
MXCHECK_SM100_ANYWHERE constexpr SharedLayout k_major(Swizzle swizzle) {
  return {swizzle, 16, swizzle_pattern(swizzle)};
}
// Core matrices of 8 rows x 16 bytes: LBO steps along k, SBO to the next 8 rows.
MXCHECK_SM100_ANYWHERE constexpr SharedLayout k_major_unswizzled(unsigned next_16_bytes_of_k, unsigned next_8_rows) {
  return {Swizzle::none, next_16_bytes_of_k, next_8_rows};
}
// Rows along M or N, one span of it in 8 rows of k: LBO steps to the next span of MN, SBO to the next 8 of k.
MXCHECK_SM100_ANYWHERE constexpr SharedLayout mn_major(Swizzle swizzle, unsigned next_span_of_mn,
                                                       unsigned next_8_of_k) {
  return {swizzle, next_span_of_mn, next_8_of_k};
}
// Without swizzle the two trade places: LBO steps to the next 8 of k, SBO to the next 16 bytes of MN.
MXCHECK_SM100_ANYWHERE constexpr SharedLayout mn_major_unswizzled(unsigned next_8_of_k, unsigned next_16_bytes_of_mn) {
  return {Swizzle::none, next_8_of_k, next_16_bytes_of_mn};
}
// 128 x 4 scales, 512 bytes: 32 rows of 16 bytes, as tcgen05.cp.32x128b.warpx4 reads them.
MXCHECK_SM100_ANYWHERE constexpr SharedLayout scale_chunk() { return {Swizzle::none, 0, 128}; }

MXCHECK_SM100_ANYWHERE constexpr bool valid(const SharedLayout& layout) {
  constexpr unsigned kEnd = 1u << 18;  // both are 14 bits of 16 bytes
  const bool multiples = layout.leading_bytes % 16 == 0 && layout.stride_bytes % 16 == 0;
  const bool whole_patterns =
      layout.swizzle == Swizzle::none || layout.stride_bytes % swizzle_pattern(layout.swizzle) == 0;
  return multiples && whole_patterns && layout.leading_bytes < kEnd && layout.stride_bytes < kEnd;
}

// The descriptor of the tile at `address`, where a swizzled one begins on its pattern's boundary: base offset (51:49)
// is 0. Bits 48:46 are 0b001; 0 there is Hopper's descriptor.
template <SharedLayout kLayout>
MXCHECK_SM100_ANYWHERE constexpr SharedDescriptor shared_descriptor(std::uint32_t address) {
  static_assert(valid(kLayout), "LBO and SBO are multiples of 16 below 2^18, and SBO of a swizzle's pattern");
  return {std::uint64_t{(address & 0x3FFFFu) >> 4} | std::uint64_t{kLayout.leading_bytes >> 4} << 16 |
          std::uint64_t{kLayout.stride_bytes >> 4} << 32 | std::uint64_t{1} << 46 |
          std::uint64_t{static_cast<std::uint8_t>(kLayout.swizzle)} << 61};
}
// `bytes` further on: a step of k inside a swizzled row, a multiple of 16 (32 for K = 32 of bytes). The XOR is on
// absolute addresses, so the base offset stays 0. The lower half alone changes: the result is below 2^18.
MXCHECK_SM100_ANYWHERE constexpr SharedDescriptor advance(SharedDescriptor descriptor, unsigned bytes) {
  const std::uint32_t low = static_cast<std::uint32_t>(descriptor.bits) + (bytes >> 4);
  return {descriptor.bits >> 32 << 32 | low};
}

}  // namespace mxcheck::sm100
