#pragma once
// Rows of codes as the GEMMs of few tokens read them (jobs.h): eight neighbours of k stored in their order, and scales
// in FP32.

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/moe/few/jobs.h"

namespace mxcheck_kernels::sm90 {

// Codes of columns col to col + 7, a multiple of 8, of the row that begins at `row`.
__device__ __forceinline__ void put_few_codes(const FewCodes& to, std::int64_t row, std::int64_t col, uint2 codes) {
  if (!to.permuted) {
    *reinterpret_cast<uint2*>(to.codes + row + col) = codes;
    return;
  }
  // The four pairs are those of q = 0 to 3 of one m.
  auto* const at = reinterpret_cast<std::uint16_t*>(to.codes + row + col / 32 * 32 + col % 32 / 8 * 2);
  at[0] = static_cast<std::uint16_t>(codes.x);
  at[4] = static_cast<std::uint16_t>(codes.x >> 16);
  at[8] = static_cast<std::uint16_t>(codes.y);
  at[12] = static_cast<std::uint16_t>(codes.y >> 16);
}

// A scale's value; the bits that the FP8 GEMMs take it for.
template <class Coder>
__device__ __forceinline__ float few_scale(const BlockScale& s) {
  return Coder::kFp32 ? __uint_as_float(s.stored) : value_of(s.stored);
}

}  // namespace mxcheck_kernels::sm90
