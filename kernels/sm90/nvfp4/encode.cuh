#pragma once
// Codes of 16 elements under one scale, two elements in a word where that is possible.
//
// E2M1 is piecewise linear: the code of a magnitude m is m / 0.5, m + 2 and m / 2 + 4 in the ranges that begin at 0, 2
// and 4, and each is the least of the three in its own range. Less 4, and in fixed point with f bits of fraction, the
// first two are the last bits of the sum of m and 2^(23 - f) - 2, whose last place doubles where m is 2; the third of
// that of m and 2^(24 - f). Of two elements at once the lesser is taken, in 16 bits with a sign. The rest follows from
// f:
//
//   to nearest            f = 0, additions to nearest even: as codes less 4 are even where codes are, so is a tie. One
//                         element at a time (raised.cuh), as codes then join by multiply-adds, which are another pipe's
//   by bytes              f = 8, additions toward zero; plus the byte, cut
//   exact, to nearest     f = 12, additions toward zero; plus half, cut. Within one unit of a midpoint nothing is
//                         certain, since a quotient is off by less than 2^-21 of itself: the slow way decides

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/common/philox.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/raised.cuh"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {

enum class Rounding { nearest, words, bytes };

// Codes of two magnitudes less 4, with their fractions, in 16 bits each. Magnitudes are below 7, for fractions of 8
// bits below 32.
template <int kFraction>
__device__ __forceinline__ std::uint32_t fixed_codes(float low, float high) {
  constexpr float kLast = 1.0F / static_cast<float>(1 << kFraction);  // a code's last place
  const auto both = [low, high](float c) {
    return __byte_perm(__float_as_uint(__fadd_rz(low, c)), __float_as_uint(__fadd_rz(high, c)), 0x5410);
  };
  const std::uint32_t lower = both(0x1p23F * kLast - 2);
  const std::uint32_t upper = both(0x1p24F * kLast);
  if constexpr (kFraction == 8) return __vimin3_s16x2(lower, upper, 0x03000300);  // a code of 7 at most
  return __vmins2(lower, upper);
}

// Bits 3, 7, 11 .. are the signs of elements 8 * half on; the others are anything.
__device__ __forceinline__ std::uint32_t signs_of(const Block<__nv_bfloat16>& b, int half) {
  const std::uint32_t low = __byte_perm(b.w[4 * half], b.w[4 * half + 1], 0x7351);
  const std::uint32_t high = __byte_perm(b.w[4 * half + 2], b.w[4 * half + 3], 0x7351);
  const std::uint32_t even = __byte_perm(low, high, 0x5410);
  const std::uint32_t odd = __byte_perm(low, high, 0x7632);
  return (even >> 4 & 0x0F0F0F0FU) | (odd & 0xF0F0F0F0U);
}
__device__ __forceinline__ std::uint32_t signs_of(const Block<float>& b, int half) {
  const std::uint32_t* w = b.w + 8 * half;
  const std::uint32_t even = __byte_perm(__byte_perm(w[0], w[2], 0x73), __byte_perm(w[4], w[6], 0x73), 0x5410);
  const std::uint32_t odd = __byte_perm(__byte_perm(w[1], w[3], 0x73), __byte_perm(w[5], w[7], 0x73), 0x5410);
  return (even >> 4 & 0x0F0F0F0FU) | (odd & 0xF0F0F0F0U);
}

// Eight codes from words of two, of elements 0 and 2, 4 and 6, 1 and 3, 5 and 7: codes less 4 in the lower three bits
// of a nibble from bit kBit on of each 16, and signs in bits 3, 7, 11 ..
template <int kBit>
__device__ __forceinline__ std::uint32_t joined(const std::uint32_t (&two)[4], std::uint32_t signs) {
  constexpr std::uint32_t kBytes = kBit < 8 ? 0x6420 : 0x7531;
  constexpr bool kUpper = kBit % 8 == 4;
  const std::uint32_t even = __byte_perm(two[0], two[1], kBytes);
  const std::uint32_t odd = __byte_perm(two[2], two[3], kBytes);
  const std::uint32_t codes = ((kUpper ? even >> 4 : even) & 0x0F0F0F0FU) | ((kUpper ? odd : odd << 4) & 0xF0F0F0F0U);
  return ((codes & 0x77777777U) | (signs & 0x88888888U)) ^ 0x44444444U;
}

// Exchanged with this, 16 bits with a sign are without one, and no sum carries into the upper half.
inline constexpr std::uint32_t kNoCarry = 0x80008000U;

// The first element of word i in joined(), of the eight.
__device__ constexpr int first_of_pair(int i) { return i % 2 * 4 + i / 2; }

template <class T>
__device__ __forceinline__ float magnitude(const Block<T>& b, int i, float factor) {
  return __fmul_rn(fabsf(element(b, i)), factor);
}

// The signs of elements whose value is a NaN: its code has none.
template <class T>
__device__ __forceinline__ std::uint32_t signs_of_nans(const Block<T>& b, int half, float factor) {
  std::uint32_t signs = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (isnan(__fmul_rn(element(b, 8 * half + i), factor))) signs |= 8U << 4 * i;
  }
  return signs;
}

// kCut: magnitudes may be anything, and 6 is the most; of a NaN too. Else all are below 7. sixteen: that of the job.
template <bool kCut, class T>
__device__ __forceinline__ Codes encode_nearest(const Block<T>& b, float factor, std::uint32_t sixteen) {
  Codes codes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t sum = 0;
#pragma unroll
    for (int i = 7; i >= 0; --i) {
      const float m = magnitude(b, 8 * half + i, factor);
      sum = sum * sixteen + raised_code(kCut ? fminf(m, 6.0F) : m);
    }
    const std::uint32_t without = kCut ? signs_of_nans(b, half, factor) : 0;
    codes.w[half] = lowered(sum, signs_of(b, half) & ~without);
  }
  return codes;
}

// Elements from `count` on, of which 1 to 16 are there, become 0.
__device__ __forceinline__ Codes first_codes(const Codes& codes, int count) {
  if (count >= kElements) return codes;
  const std::uint32_t kept = ~(0xFFFFFFFFU << (4 * (count % 8)));
  return count >= 8 ? Codes{{codes.w[0], codes.w[1] & kept}} : Codes{{codes.w[0] & kept, 0}};
}

// All magnitudes are below 32. words: of the 16 elements.
template <class T>
__device__ __forceinline__ Codes encode_by_bytes(const Block<T>& b, float factor, const PhiloxWords& words) {
  Codes codes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int e = 8 * half + first_of_pair(i);
      const std::uint32_t fixed = fixed_codes<8>(magnitude(b, e, factor), magnitude(b, e + 2, factor));
      // Elements 0 and 2 of four have bytes 0 and 1 of their word, 1 and 3 bytes 2 and 3.
      const std::uint32_t random = __byte_perm(words.w[e / 4], 0, e % 2 == 0 ? 0x4140 : 0x4342);
      two[i] = (fixed ^ kNoCarry) + random;
    }
    codes.w[half] = joined<8>(two, signs_of(b, half));
  }
  return codes;
}

// A code with its fraction, half a code added: within one unit of a midpoint the last twelve bits are near 0.
__device__ __forceinline__ bool is_open(std::uint32_t fixed) { return ((fixed + 1) & 0xFFEU) == 0; }

// All magnitudes are below 7.
template <class T>
__device__ __forceinline__ Codes encode_exact(const Nvfp4Outer& outer, const Nvfp4Scale& scale, const Block<T>& b) {
  Codes codes;
  std::uint32_t two[2][4];
  std::uint32_t least = 0xFFFFFFFFU;  // 0 in a half: a code is open
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int e = 8 * half + first_of_pair(i);
      const std::uint32_t fixed = fixed_codes<12>(magnitude(b, e, scale.factor), magnitude(b, e + 2, scale.factor));
      two[half][i] = (fixed ^ kNoCarry) + 0x08000800U;
      least = __vminu2(least, (two[half][i] + 0x00010001U) & 0x0FFE0FFEU);
    }
    codes.w[half] = joined<12>(two[half], signs_of(b, half));
  }
  if ((least & 0xFFFFU) != 0 && least >> 16 != 0) return codes;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int e = i / 8 * 8 + first_of_pair(i % 8 / 2) + i % 2 * 2;
    if (!is_open(two[i / 8][i % 8 / 2] >> (16 * (i % 2)))) continue;
    const std::uint32_t code = slow_code(outer.decode, scale.byte, element(b, e));
    const int at = 4 * (e % 8);
    codes.w[e / 8] = (codes.w[e / 8] & ~(0xFU << at)) | code << at;
  }
  return codes;
}

// An element's code by 32 bits of a word, whatever the element is.
template <bool kExact>
__device__ __forceinline__ std::uint32_t stochastic_code(const Nvfp4Outer& outer, const Nvfp4Scale& scale, float x,
                                                         std::uint32_t word) {
  if (isnan(x) || scale.byte == kE4m3Nan) return kE2m1Nan;
  float value = 0;
  if constexpr (kExact) {
    const double step = static_cast<double>(e4m3_value(scale.byte)) * static_cast<double>(outer.decode);
    value = scale.byte == 0 ? __fmul_rn(x, 0.0F) : __double2float_rn(__ddiv_rn(static_cast<double>(x), step));
  } else {
    value = __fmul_rn(x, scale.factor);
  }
  if (isnan(value)) return kE2m1Nan;
  const std::uint32_t bits = __float_as_uint(value);
  return nvfp4_stochastic_code(bits & kMagnitude, word) | (bits >> 28 & 8U);
}

// Where words come from. Counters of the same upper half are a series, and a thread's blocks nearly always have one.
struct WordSource {
  const Nvfp4Words& words;
  const PhiloxKeys& keys;
  std::uint32_t upper;
  PhiloxSeries series;
  [[nodiscard]] __device__ __forceinline__ PhiloxSeries series_of(std::uint32_t own_upper) const {
    return own_upper == upper ? series : philox_series(keys, own_upper, words.counter[0], words.counter[1]);
  }
  // The four words of the counter of this number.
  [[nodiscard]] __device__ __forceinline__ PhiloxWords four(std::uint64_t number) const {
    return philox_words(keys, series_of(static_cast<std::uint32_t>(number >> 32)), static_cast<std::uint32_t>(number));
  }
};
// number: the first.
__device__ __forceinline__ WordSource source_of(const Nvfp4Words& words, const PhiloxKeys& keys, std::uint64_t number) {
  const auto upper = static_cast<std::uint32_t>(number >> 32);
  return {words, keys, upper, philox_series(keys, upper, words.counter[0], words.counter[1])};
}

// A block's: number is element 0's, to which the offset is added.
struct BlockWords {
  const WordSource& source;
  std::uint64_t number;
};

// Bytes 1 and 2 change places: the bytes of a word in the order of its elements, and back.
__device__ __forceinline__ std::uint32_t reordered(std::uint32_t word) { return __byte_perm(word, 0, 0x3120); }

// Four words with a block's 16 bytes, where they would lie if the block began at a multiple of 16.
__device__ __forceinline__ PhiloxWords words_of_block(const BlockWords& from) {
  const PhiloxWords first = from.source.four(from.number / kElements);
  const auto before = static_cast<std::uint32_t>(from.number % kElements);
  if (before == 0) return first;
  constexpr std::uint64_t kCalls = std::uint64_t{1} << 60;  // after the last one is the first
  const PhiloxWords next = from.source.four((from.number / kElements + 1) % kCalls);
  std::uint32_t w[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = reordered(first.w[i]), w[4 + i] = reordered(next.w[i]);
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = (before & 8U) != 0 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = (before & 4U) != 0 ? w[i + 1] : w[i];
  PhiloxWords words;
#pragma unroll
  for (int i = 0; i < 4; ++i) words.w[i] = reordered(__funnelshift_r(w[i], w[i + 1], 8 * (before & 3U)));
  return words;
}

// Four elements at a time, in a loop: all 16 would be more machine code than processors keep at hand.
template <bool kExact, bool kBytes, class T>
__device__ __forceinline__ Codes encode_by_elements(const Nvfp4Outer& outer, const Nvfp4Scale& scale, Block<T> b,
                                                    const BlockWords& from, int count) {
  constexpr int kFour = Block<T>::kWords / 4;  // words of four elements
  PhiloxWords of_block{};
  if constexpr (kBytes) of_block = words_of_block(from);
  const auto lower = static_cast<std::uint32_t>(from.number);
  const auto upper = static_cast<std::uint32_t>(from.number >> 32);
  const int parts = !kBytes && lower + (kElements - 1) < lower ? 2 : 1;  // of the block, with series of their own
  Codes codes{};
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    PhiloxSeries series{};
    if constexpr (!kBytes) series = from.source.series_of(upper + static_cast<std::uint32_t>(part));
#pragma unroll 1
    for (int first = 0; first < kElements; first += 4) {
      std::uint32_t four = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t counter = lower + static_cast<std::uint32_t>(first + i);
        if (first + i >= count || (!kBytes && (counter < lower) != (part == 1))) continue;
        const std::uint32_t word =
            kBytes ? nvfp4_byte_word(of_block.w[0], i) : philox_word(from.source.keys, series, counter);
        four |= stochastic_code<kExact>(outer, scale, element(b, i), word) << (4 * i);
      }
      // All go round: the next elements come to the front.
      const std::uint32_t back = (codes.w[0] & 0xFFFFU) | four;
      codes.w[0] = __funnelshift_r(codes.w[0], codes.w[1], 16), codes.w[1] = codes.w[1] >> 16 | back << 16;
      const Block<T> before = b;
#pragma unroll
      for (int i = 0; i < Block<T>::kWords; ++i) b.w[i] = before.w[(i + kFour) % Block<T>::kWords];
      if constexpr (kBytes) of_block = {{of_block.w[1], of_block.w[2], of_block.w[3], 0}};
    }
  }
  return codes;
}

// The codes of a block; elements from `count` on are not there. amax: bits of the largest magnitude.
template <bool kExact, class T>
__device__ __forceinline__ Codes encode_to_nearest(const Nvfp4Outer& outer, const Nvfp4Scale& scale, const Block<T>& b,
                                                   std::uint32_t amax, std::uint32_t sixteen, int count) {
  // A NaN is below nothing: it goes the other way, as do elements beyond the fast one's range.
  if (__fmul_rn(__uint_as_float(amax), scale.factor) < 7.0F && (!kExact || scale.factor != 0)) {
    if constexpr (kExact) return encode_exact(outer, scale, b);
    return encode_nearest<false>(b, scale.factor, sixteen);
  }
  if constexpr (!kExact) {
    if (scale.byte == kE4m3Nan) return first_codes({{0x77777777U, 0x77777777U}}, count);
    return first_codes(encode_nearest<true>(b, scale.factor, sixteen), count);
  }
  Codes codes{};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (i >= count) continue;
    codes.w[i / 8] |= slow_code(outer.decode, scale.byte, element(b, i)) << (4 * (i % 8));
  }
  return codes;
}

template <bool kExact, Rounding kRounding, class T>
__device__ __forceinline__ Codes encode(const Nvfp4Outer& outer, const Nvfp4Scale& scale, const Block<T>& b,
                                        std::uint32_t amax, const BlockWords& from, std::uint32_t sixteen, int count) {
  if constexpr (kRounding == Rounding::nearest) return encode_to_nearest<kExact>(outer, scale, b, amax, sixteen, count);
  constexpr bool kBytes = kRounding == Rounding::bytes;
  if constexpr (kBytes && !kExact) {
    if (__fmul_rn(__uint_as_float(amax), scale.factor) < 32.0F)
      return encode_by_bytes(b, scale.factor, words_of_block(from));
  }
  return encode_by_elements<kExact, kBytes>(outer, scale, b, from, count);
}

}  // namespace mxcheck_kernels::sm90
