#pragma once
// H to E5M6, a lane's share of a row: two groups of eight neighbours, each to three words, and the scales of their
// blocks of 128.

#include <cstdint>

#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/layer/steps/words.cuh"
#include "kernels/sm90/moe/block_rounding.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

template <bool kPairs>
inline constexpr int kBlockLanes = 128 / (kPairs ? 2 * kEach : kEach);  // of a block of H
inline constexpr std::uint32_t kNanHalf = 0x7E00;                       // E5M6's NaN, 0x7E0

__device__ __forceinline__ std::uint32_t two_exact_codes(const Rounding& rule, std::uint32_t two, std::uint32_t byte) {
  if (byte == 255) return twice(kNanHalf);
  return ptx::cvt_rn_f16x2_f32(exact_value(rule, two & 0xFFFF, byte), exact_value(rule, two >> 16, byte));
}

__device__ __forceinline__ std::uint32_t two_codes(const Rounding& rule, std::uint32_t two, std::uint32_t lowest,
                                                   std::uint32_t factor) {
  return e5m6_halves(rounded2<false>(rule, two & 0x7FFF7FFF, lowest), factor) | (two & 0x80008000);
}

// The amax of a lane's two groups' blocks: in halves that of the gates' and, above it, that of the up values', which
// are reduced together; interleaved that of the one block, twice.
template <bool kPairs>
__device__ __forceinline__ std::uint32_t block_amax(const RawH<true>& h) {
  const std::uint32_t a = amax_of(h.first) & 0x7FFF7FFF;
  const std::uint32_t b = amax_of(h.second) & 0x7FFF7FFF;
  std::uint32_t amax = kPairs ? larger2(a, b) : larger2(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
#pragma unroll
  for (int step = 1; step < kBlockLanes<kPairs>; step *= 2) {
    amax = larger2(amax, __shfl_xor_sync(kAllLanes, amax, step));
  }
  return kPairs ? larger2(amax, __byte_perm(amax, amax, 0x1032)) : amax;
}

// Eight neighbours to three words.
struct Group {
  std::uint32_t words[3];
};
__device__ __forceinline__ Group encode_ordinary(const Rounding& rule, const uint4& v, std::uint32_t lowest,
                                                 std::uint32_t byte) {
  const std::uint32_t factor = e5m6_factor(byte);
  const std::uint32_t halves[4] = {two_codes(rule, v.x, lowest, factor), two_codes(rule, v.y, lowest, factor),
                                   two_codes(rule, v.z, lowest, factor), two_codes(rule, v.w, lowest, factor)};
  Group g;
  pack_e5m6(halves, g.words);
  return g;
}
static __device__ __noinline__ Group encode_exactly(const Rounding& rule, uint4 v, std::uint32_t byte) {
  const std::uint32_t in[4] = {v.x, v.y, v.z, v.w};
  std::uint32_t halves[4];
  for (int i = 0; i < 4; ++i) halves[i] = two_exact_codes(rule, in[i], byte);
  Group g;
  pack_e5m6(halves, g.words);
  return g;
}

// Both groups, and the bytes of their blocks' scales. All lanes call.
struct KeptGroups {
  Group first;
  Group second;
  std::uint32_t byte;
  std::uint32_t other;
};
template <bool kPairs>
__device__ __forceinline__ KeptGroups encode_groups(const Rounding& rule, const RawH<true>& h) {
  const std::uint32_t amax = block_amax<kPairs>(h);
  const std::uint32_t byte = exact_byte(rule, amax & 0xFFFF);
  const std::uint32_t other = kPairs ? byte : exact_byte(rule, amax >> 16);
  KeptGroups g{{}, {}, byte, other};
  // Exact codes are those of any block, so that it is one question for both.
  if (not_ordinary(rule, amax) == 0 && max(byte, other) <= kE5m6LargestByte) {
    const std::uint32_t lowest = lowest_steps(rule, amax);
    g.first = encode_ordinary(rule, h.first, kPairs ? lowest : __byte_perm(lowest, lowest, 0x1010), byte);
    g.second = encode_ordinary(rule, h.second, kPairs ? lowest : __byte_perm(lowest, lowest, 0x3232), other);
  } else {
    g.first = encode_exactly(rule, h.first, byte), g.second = encode_exactly(rule, h.second, other);
  }
  return g;
}

}  // namespace mxcheck_kernels::sm90
