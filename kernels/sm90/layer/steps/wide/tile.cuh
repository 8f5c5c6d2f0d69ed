#pragma once
// Tiles of 128 rows and 128 columns to codes along tokens, in blocks of 128 rows: a block of threads has one. A warp
// has 16 rows, half a warp eight of them, a lane eight neighbouring columns of those, so that what a lane holds of a
// column are eight codes that follow one another in the output.
//
// Tiles of the first 128 columns come first, all experts one after the other, then those of the next 128. Rows that are
// gathered are read once for each of their experts; of 128 columns all rows of 32768 tokens are 8 MB in BF16, which
// stay in L2 from expert to expert, while 4096 columns of them would be read from memory each time. A tile's output
// follows that of the tile before it, codes and scales, so that their lines are written whole.
//
// Rows past the tile's and columns past the matrix's are the last ones again: no amax changes by them, no load needs a
// predicate, and their codes are not kept.

#include <cstdint>

#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/layer/steps/transposed_tile.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kWideCols = 128;
inline constexpr int kWideThreads = 256;
inline constexpr int kLaneRows = 8;
inline constexpr int kWideParts = kTileRows / kLaneRows;  // half warps
static_assert(kWideThreads == kWideParts * kWideCols / kEach);

struct WideShared {
  TransposedTile<kWideCols> codes;  // before that the parts' amax: see there
  alignas(16) float factors[kWideCols];
  alignas(16) float lows[kWideCols];
  alignas(16) float rows[kTileRows];  // scales of what is coded anew
};

// A lane's place: its rows and columns in the tile.
struct WideLane {
  int part;
  int row;
  int column;
  std::int64_t source;      // column of x
  std::int32_t source_row;  // row of x of the lane's row lane % 8
};

__device__ __forceinline__ WideLane wide_lane(const TransposeJob& job, const RowTile& tile, std::int64_t col) {
  const int thread = static_cast<int>(threadIdx.x);
  WideLane at;
  at.part = thread / 16;
  at.row = at.part * kLaneRows;
  at.column = thread % 16 * kEach;
  at.source = min(col + at.column, job.cols - kEach);
  const std::int32_t row = tile.first + min(at.row + thread % kLaneRows, tile.rows - 1);
  at.source_row = job.index == nullptr ? row : __ldg(job.index + row);
  return at;
}

// The lane's number of row r, of those that half a warp has one of for each of its rows.
template <class T>
__device__ __forceinline__ T of_row(T mine, int r) {
  return __shfl_sync(kAllLanes, mine, r, 16);
}

// From a column's amax, of the threads that have one, its scale to memory and to shared memory. Passes a barrier; true
// for all threads where a column's codes are made by division.
template <class Coder>
__device__ __forceinline__ bool share_scales(const TransposeJob& job, const Coder& coder, const RowTile& tile,
                                             std::int64_t col, std::uint32_t amax, WideShared& shared) {
  const int column = static_cast<int>(threadIdx.x);
  bool divides = false;
  if (column < kWideCols) {
    const BlockScale s = coder.scale_of(amax);
    divides = Coder::divides(s);
    // A column of zeros alone becomes zeros of the same signs by any factor. 0 is one that FP16 has.
    shared.factors[column] = !Coder::kFp32 && amax == 0 ? 0.0F : s.factor;
    shared.lows[column] = s.low;
    if (col + column < job.cols) coder.store_scale(job.out.scales, (col + column) * job.out.bands + tile.band, s);
  }
  if constexpr (Coder::kFp32) return __syncthreads_or(static_cast<int>(divides)) != 0;
  __syncthreads();
  return false;
}

template <class Coder>
__device__ __forceinline__ BlockScale shared_scale(const WideShared& shared, int column) {
  return {0, shared.factors[column], Coder::kFp32 ? shared.lows[column] : 0.0F};
}

// Eight rows of a column to codes in shared memory.
template <bool kDivides, class Coder>
__device__ __forceinline__ void put_column(const Coder& coder, const float (&x)[kLaneRows], const BlockScale& s,
                                           int column, int part, WideShared& shared) {
  uint2 codes;
  if constexpr (kDivides) {
    codes = make_uint2(coder.codes(x[0], x[1], x[2], x[3], s), coder.codes(x[4], x[5], x[6], x[7], s));
  } else {
    codes = make_uint2(coder.template codes_by<false>(x[0], x[1], x[2], x[3], s),
                       coder.template codes_by<false>(x[4], x[5], x[6], x[7], s));
  }
  put_eight(shared.codes, column, part, codes);
}

// The codes, written and waited for.
__device__ __forceinline__ void store_wide(const TransposeJob& job, const RowTile& tile, std::int64_t col,
                                           const WideShared& shared) {
  const ColumnCodes& out = job.out;
  const std::int64_t first = out.padded ? std::int64_t{tile.band} * kTileRows : tile.first;
  store_transposed<kWideThreads, kWideCols>(
      shared.codes, {out.codes + col * out.stride + first, out.stride, job.cols - col, tile.rows, out.padded},
      static_cast<int>(threadIdx.x));
}

}  // namespace mxcheck_kernels::sm90
