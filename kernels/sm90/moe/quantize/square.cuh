#pragma once
// A square's way from BF16 to codes. 256 threads have 128 rows and 128 columns: a warp 16 rows, half a warp eight of
// them, a lane eight neighbouring columns of those. A row is 256 bytes of one load of half a warp, and what a lane
// holds of a column is eight codes that follow one another in the transposed matrix.

#include <cstdint>

#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/quantize/square.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kSide = 128;
inline constexpr int kSquareThreads = 256;
inline constexpr int kSquareWarps = kSquareThreads / 32;
inline constexpr int kLaneRows = 8;
static_assert(kSide == kTileRows && kSquareWarps * 2 * kLaneRows == kSide);

struct Square {
  std::int64_t before;  // squares of rows before it, of all experts
  std::int64_t first;   // row
  int rows;
  std::int64_t expert;      // with expert_rows
  std::int64_t before_own;  // with expert_rows: of its expert
  std::int64_t col;
};

// Row t of squares; false where there is none.
__device__ __forceinline__ bool find_square(const SquareJob& job, unsigned t, Square& square) {
  if (job.expert_rows == 0) {
    RowTile tile;
    if (!find_tile(job.rows, t, kSide, tile)) return false;
    square = {t, tile.first, tile.rows, 0, 0, 0};
    return true;
  }
  if (job.rows.header != nullptr && job.rows.header->status != MXCHECK_OK) return false;
  const auto each = static_cast<unsigned>((job.expert_rows + kSide - 1) / kSide);
  const unsigned expert = t / each;
  const std::int64_t own = t % each;
  const auto rows = static_cast<int>(min(job.expert_rows - own * kSide, std::int64_t{kSide}));
  square = {t, expert * job.expert_rows + own * kSide, rows, expert, own, 0};
  return true;
}

// A lane's place in a square.
struct SquarePlace {
  int row;     // the first of eight
  int column;  // the first of eight
};
__device__ __forceinline__ SquarePlace square_place(int thread) {
  return {thread / 16 * kLaneRows, thread % 16 * kEach};
}

// Eight columns of eight rows, zeros outside.
__device__ __forceinline__ void load_square(const SquareJob& job, const Square& square, const SquarePlace& at,
                                            uint4 (&v)[kLaneRows]) {
  const bool inside = square.col + at.column < job.cols;
  const std::uint16_t* const x = job.x + square.col + at.column;
  std::int64_t rows[kLaneRows];
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    rows[r] = square.first + at.row + r;
    if (job.index != nullptr && at.row + r < square.rows) rows[r] = __ldg(job.index + rows[r]);
  }
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const bool real = inside && at.row + r < square.rows;
    v[r] = real ? __ldg(reinterpret_cast<const uint4*>(x + rows[r] * job.cols)) : uint4{};
  }
}

__device__ __forceinline__ std::uint32_t largest_of_square(const uint4 (&v)[kLaneRows], int thread,
                                                           std::uint32_t (&of_warps)[kSquareWarps]) {
  std::uint32_t two = 0;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) two = __vmaxu2(two, amax_of(v[r]));
  const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, larger_half(two));
  if (thread % 32 == 0) of_warps[thread / 32] = of_warp;
  __syncthreads();
  std::uint32_t amax = 0;
#pragma unroll
  for (int w = 0; w < kSquareWarps; ++w) amax = max(amax, of_warps[w]);
  return amax;
}

// Codes of a lane's eight rows, four columns in a word.
template <bool kDivides, class Coder>
__device__ __forceinline__ void encode_square(const Coder& coder, const BlockScale& s, const uint4 (&v)[kLaneRows],
                                              uint2 (&codes)[kLaneRows]) {
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const uint4& w = v[r];
    codes[r].x = coder.template codes_by<kDivides>(low_half(w.x), high_half(w.x), low_half(w.y), high_half(w.y), s);
    codes[r].y = coder.template codes_by<kDivides>(low_half(w.z), high_half(w.z), low_half(w.w), high_half(w.w), s);
  }
}

// Byte i of word k becomes byte k of word i.
__device__ __forceinline__ void turn_four(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d,
                                          std::uint32_t (&out)[4]) {
  const std::uint32_t ab = __byte_perm(a, b, 0x5140);
  const std::uint32_t cd = __byte_perm(c, d, 0x5140);
  const std::uint32_t ab_high = __byte_perm(a, b, 0x7362);
  const std::uint32_t cd_high = __byte_perm(c, d, 0x7362);
  out[0] = __byte_perm(ab, cd, 0x5410);
  out[1] = __byte_perm(ab, cd, 0x7632);
  out[2] = __byte_perm(ab_high, cd_high, 0x5410);
  out[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

__device__ __forceinline__ void put_square(TransposedTile<kSide>& tile, const SquarePlace& at,
                                           const uint2 (&codes)[kLaneRows]) {
  const int eighth = at.row / kLaneRows;
  std::uint32_t low[4];
  std::uint32_t high[4];
  turn_four(codes[0].x, codes[1].x, codes[2].x, codes[3].x, low);
  turn_four(codes[4].x, codes[5].x, codes[6].x, codes[7].x, high);
#pragma unroll
  for (int k = 0; k < 4; ++k) put_eight(tile, at.column + k, eighth, make_uint2(low[k], high[k]));
  turn_four(codes[0].y, codes[1].y, codes[2].y, codes[3].y, low);
  turn_four(codes[4].y, codes[5].y, codes[6].y, codes[7].y, high);
#pragma unroll
  for (int k = 0; k < 4; ++k) put_eight(tile, at.column + 4 + k, eighth, make_uint2(low[k], high[k]));
}

}  // namespace mxcheck_kernels::sm90
