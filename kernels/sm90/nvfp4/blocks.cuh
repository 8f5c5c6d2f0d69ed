#pragma once
// A thread's four blocks to their scales and codes, in one direction of a matrix.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {

// Magnitudes of a thread's four blocks.
struct Magnitudes {
  std::uint32_t amax[kRowsOfThread];      // bits of the largest magnitude
  std::uint32_t counting[kRowsOfThread];  // of that which counts for the scale
  [[nodiscard]] __device__ __forceinline__ std::uint32_t largest_counting() const {
    return max(max(counting[0], counting[1]), max(counting[2], counting[3]));
  }
};

template <bool kExact, class T>
__device__ __forceinline__ Magnitudes magnitudes_of(const Block<T> (&x)[kRowsOfThread]) {
  Magnitudes m;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) m.counting[r] = m.amax[r] = largest(x[r]);
  if (!kExact && m.largest_counting() > kInfinityBits) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) m.counting[r] = largest_number(x[r]);
  }
  return m;
}

// Each row has a scale of its own.
template <bool kExact>
__device__ __forceinline__ void scale_rows(const Nvfp4Job& job, const Place& at, const Nvfp4Outer& outer,
                                           const Magnitudes& m, Nvfp4Scale (&scales)[kRowsOfThread]) {
  find_scales<kExact>(job.recipe, outer, m.counting, scales);
  std::uint32_t bytes = 0;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) bytes |= scales[r].byte << (8 * r);
  store_scales(job, at, bytes);
}

// All of 16 rows have one. stores: this thread is the first of its square.
template <bool kExact>
__device__ __forceinline__ void scale_square(const Nvfp4Job& job, const Place& at, const Nvfp4Outer& outer,
                                             std::uint32_t counting, bool stores, Nvfp4Scale (&scales)[1]) {
  const std::uint32_t of_square[] = {counting};
  find_scales<kExact>(job.recipe, outer, of_square, scales);
  if (stores && at.count > 0 && at.rows > 0)
    job.scales[at.row / kElements * job.blocks + at.block] = static_cast<std::uint8_t>(scales[0].byte);
}

// to: of the block's first element.
__device__ __forceinline__ void store_block(const Nvfp4Job& job, std::uint8_t* to, const Codes& codes, int count) {
  if (job.wide) {
    __stcs(reinterpret_cast<uint2*>(to), make_uint2(codes.w[0], codes.w[1]));
  } else {
    store_codes(to, codes, count, job.vector);
  }
}

// Codes of a thread's four blocks; 0 where nothing is.
struct RowCodes {
  Codes row[kRowsOfThread];
};

// Rounds and stores the codes of four blocks under four scales or one.
template <bool kExact, Rounding kRounding, int kScales, class T>
__device__ __forceinline__ RowCodes encode_blocks(const Nvfp4Job& job, const Place& at, const Nvfp4Words& words,
                                                  const PhiloxKeys& keys, const Nvfp4Outer& outer,
                                                  const Nvfp4Scale (&scales)[kScales],
                                                  const Block<T> (&x)[kRowsOfThread], const Magnitudes& m) {
  static_assert(kScales == 1 || kScales == kRowsOfThread);
  RowCodes codes{};
  if (at.count <= 0) return codes;
  const std::int64_t row_bytes = (job.cols + 1) / 2;
  const std::int64_t col = at.block * kElements;
  std::uint8_t* to = job.codes + at.row * row_bytes + col / 2;
  const auto number = static_cast<std::uint64_t>(at.row * job.cols + col) + words.offset;
  const WordSource source = source_of(words, keys, kRounding == Rounding::bytes ? number / kElements : number);
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    if (r >= at.rows) break;
    const BlockWords from{source, number + static_cast<std::uint64_t>(r * job.cols)};
    codes.row[r] = encode<kExact, kRounding>(outer, scales[r % kScales], x[r], m.amax[r], from, job.sixteen, at.count);
    store_block(job, to + r * row_bytes, codes.row[r], at.count);
  }
  return codes;
}

}  // namespace mxcheck_kernels::sm90
