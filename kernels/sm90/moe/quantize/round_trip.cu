// A warp has 32 rows of one expert and 64 columns, a lane eight columns of every fourth row: 16-byte loads and stores
// of whole lines, blocks along columns in four lanes' registers, blocks along rows in four neighbouring lanes'.

#include "kernels/sm90/moe/quantize/round_trip.h"

#include <limits>

#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/quantize/rounding.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kBlockRows = 32;
constexpr int kLanesOfRow = 8;
constexpr int kRowsAtOnce = 32 / kLanesOfRow;
constexpr int kLoads = kBlockRows / kRowsAtOnce;
constexpr int kWarpCols = kLanesOfRow * kEach;
#ifndef TUNE_ACROSS
  #define TUNE_ACROSS 2
#endif
#ifndef TUNE_BLOCKS
  #define TUNE_BLOCKS 3
#endif
constexpr int kAcross = TUNE_ACROSS;  // warps beside each other; the others are of the tile's next 32 rows
constexpr int kCols = kAcross * kWarpCols;
constexpr int kDown = kThreads / 32 / kAcross * kBlockRows;  // rows of a block of threads
constexpr unsigned kParts = kTileRows / kDown;               // blocks of threads down a tile
static_assert(kDown * kParts == kTileRows);

struct Launch {
  RoundTripJob job;
  Rounding along_rows;
  Rounding along_columns;
  std::uint32_t pitch;    // bytes of a row
  unsigned groups;        // of kCols columns
  unsigned expert_tiles;  // of each expert; 0 without expert_rows
};

__device__ __forceinline__ bool find_rows(const Launch& launch, unsigned t, RowTile& tile) {
  const RoundTripJob& job = launch.job;
  if (job.expert_rows == 0) return find_tile(job.rows, t, kBlockRows, tile);
  if (job.rows.header != nullptr && job.rows.header->status != MXCHECK_OK) return false;
  const std::int64_t begin = std::int64_t{t % launch.expert_tiles} * kTileRows;
  tile.first = static_cast<std::int32_t>(t / launch.expert_tiles * job.expert_rows + begin);
  tile.rows = static_cast<std::int32_t>(min(std::int64_t{kTileRows}, job.expert_rows - begin));
  return true;
}

// What a lane has: its first row, how many there are from it on to the warp's end, and where in a row it begins.
struct LanePlace {
  std::int32_t first;
  int rows;  // none if its columns are past the end
  std::uint32_t byte;
};
__device__ __forceinline__ bool has_row(const LanePlace& at, int i) { return i * kRowsAtOnce < at.rows; }

// Of a matrix whose pointer is the lane's first column's. The product is of 32 bits each and 64 wide.
__device__ __forceinline__ uint4 load_row(const char* x, std::int32_t row, std::uint32_t pitch) {
  return __ldg(reinterpret_cast<const uint4*>(x + static_cast<std::uint64_t>(static_cast<std::uint32_t>(row)) * pitch));
}

__device__ __forceinline__ uint4 all_of(std::uint32_t word) { return make_uint4(word, word, word, word); }
__device__ __forceinline__ uint4 larger_words(const uint4& a, const uint4& b) {
  return make_uint4(larger2(a.x, b.x), larger2(a.y, b.y), larger2(a.z, b.z), larger2(a.w, b.w));
}
__device__ __forceinline__ uint4 magnitudes(const uint4& v) {
  return make_uint4(v.x & 0x7FFF7FFF, v.y & 0x7FFF7FFF, v.z & 0x7FFF7FFF, v.w & 0x7FFF7FFF);
}
// The lanes that have the rows between.
__device__ __forceinline__ uint4 larger_of_rows(uint4 a) {
#pragma unroll
  for (int mask = kLanesOfRow; mask < 32; mask *= 2) {
    a = larger_words(a, make_uint4(__shfl_xor_sync(kAllLanes, a.x, mask), __shfl_xor_sync(kAllLanes, a.y, mask),
                                   __shfl_xor_sync(kAllLanes, a.z, mask), __shfl_xor_sync(kAllLanes, a.w, mask)));
  }
  return a;
}
// The four lanes of a block of a row.
__device__ __forceinline__ std::uint32_t larger_of_block(std::uint32_t a) {
  a = larger2(a, __shfl_xor_sync(kAllLanes, a, 1));
  return larger2(a, __shfl_xor_sync(kAllLanes, a, 2));
}

__device__ __forceinline__ uint4 load_again(const Launch& launch, const LanePlace& at, int i) {
  if (!has_row(at, i)) return uint4{};
  std::int32_t row = at.first + i * kRowsAtOnce;
  if (launch.job.index != nullptr) row = __ldg(launch.job.index + row);
  return load_row(reinterpret_cast<const char*>(launch.job.x) + at.byte, row, launch.pitch);
}

// A warp's rows once more, by the definition, where a block is not ordinary. `to` is the lane's first row.
__device__ __noinline__ void round_exactly(const Launch& launch, const Rounding& rule, bool columns, LanePlace at,
                                           char* to) {
  uint4 amax = {};
#pragma unroll 1
  for (int i = 0; columns && i < kLoads; ++i) amax = larger_words(amax, magnitudes(load_again(launch, at, i)));
  amax = larger_of_rows(amax);
#pragma unroll 1
  for (int i = 0; i < kLoads; ++i) {
    const uint4 v = load_again(launch, at, i);
    if (!columns) {
      const std::uint32_t row = amax_of(v) & 0x7FFF7FFF;
      amax = all_of(larger_of_block(larger2(row, __byte_perm(row, row, 0x1032))));
    }
    if (!has_row(at, i)) continue;
    store_16(to + std::uint64_t{launch.pitch} * static_cast<unsigned>(i * kRowsAtOnce),
             make_uint4(exact2(rule, v.x, amax.x), exact2(rule, v.y, amax.y), exact2(rule, v.z, amax.z),
                        exact2(rule, v.w, amax.w)));
  }
}

__device__ __forceinline__ void load_rows(const Launch& launch, const LanePlace& at, std::int32_t source,
                                          uint4 (&v)[kLoads]) {
  const char* const x = reinterpret_cast<const char*>(launch.job.x) + at.byte;
  const int sub = static_cast<int>(threadIdx.x % 32 / kLanesOfRow);
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const std::int32_t row = __shfl_sync(kAllLanes, source, i * kRowsAtOnce + sub);
    v[i] = has_row(at, i) ? load_row(x, row, launch.pitch) : uint4{};
  }
}

template <bool kSaturates>
__device__ __forceinline__ uint4 rounded_eight(const Rounding& rule, const uint4& v, const uint4& lowest) {
  return make_uint4(rounded2<kSaturates>(rule, v.x, lowest.x), rounded2<kSaturates>(rule, v.y, lowest.y),
                    rounded2<kSaturates>(rule, v.z, lowest.z), rounded2<kSaturates>(rule, v.w, lowest.w));
}

// These two return whether all of the lane's blocks are ordinary, and their values right.
template <bool kSaturates>
__device__ __forceinline__ bool round_columns(const Rounding& rule, const LanePlace& at, const uint4 (&v)[kLoads],
                                              char* to, std::uint64_t step) {
  uint4 amax = magnitudes(v[0]);
#pragma unroll
  for (int i = 1; i < kLoads; ++i) amax = larger_words(amax, magnitudes(v[i]));
  amax = larger_of_rows(amax);
  const uint4 lowest = make_uint4(lowest_steps(rule, amax.x), lowest_steps(rule, amax.y), lowest_steps(rule, amax.z),
                                  lowest_steps(rule, amax.w));
#pragma unroll
  for (int i = 0; i < kLoads; ++i, to += step) {
    const uint4 rounded = rounded_eight<kSaturates>(rule, v[i], lowest);
    if (has_row(at, i)) store_16(to, rounded);
  }
  return (not_ordinary(rule, amax.x) | not_ordinary(rule, amax.y) | not_ordinary(rule, amax.z) |
          not_ordinary(rule, amax.w)) == 0;
}

// Two rows at a time, the first one's amax in the low half of a word.
template <bool kSaturates>
__device__ __forceinline__ bool round_rows(const Rounding& rule, const LanePlace& at, const uint4 (&v)[kLoads],
                                           char* to, std::uint64_t step) {
  std::uint32_t odd = 0;
#pragma unroll
  for (int i = 0; i < kLoads; i += 2) {
    const std::uint32_t first = amax_of(v[i]) & 0x7FFF7FFF;
    const std::uint32_t second = amax_of(v[i + 1]) & 0x7FFF7FFF;
    const std::uint32_t amax =
        larger_of_block(larger2(__byte_perm(first, second, 0x5410), __byte_perm(first, second, 0x7632)));
    odd |= not_ordinary(rule, amax);
    const std::uint32_t lowest = lowest_steps(rule, amax);
#pragma unroll
    for (int k = 0; k < 2; ++k, to += step) {
      const uint4 of = all_of(__byte_perm(lowest, lowest, k == 0 ? 0x1010 : 0x3232));
      const uint4 rounded = rounded_eight<kSaturates>(rule, v[i + k], of);
      if (has_row(at, i + k)) store_16(to, rounded);
    }
  }
  return odd == 0;
}

template <bool kRows, bool kColumns, bool kSaturates>
__global__ void __launch_bounds__(kThreads, TUNE_BLOCKS) round_trip(const __grid_constant__ Launch launch) {
  const RoundTripJob& job = launch.job;
  RowTile tile;
  const unsigned t = blockIdx.x / launch.groups;
  if (!find_rows(launch, t / kParts, tile)) return;
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const auto first = static_cast<std::int32_t>(t % kParts * kDown + warp / kAcross * kBlockRows);
  const int rows = min(tile.rows - first, kBlockRows);
  if (rows <= 0) return;
  const std::int32_t row = tile.first + first + min(static_cast<int>(lane), rows - 1);
  const std::int32_t source = job.index == nullptr ? row : __ldg(job.index + row);
  const auto sub = static_cast<int>(lane / kLanesOfRow);
  const std::uint32_t byte =
      ((blockIdx.x - t * launch.groups) * kCols + warp % kAcross * kWarpCols + lane % kLanesOfRow * kEach) * 2;
  const LanePlace at{tile.first + first + sub, byte < launch.pitch ? rows - sub : 0, byte};
  uint4 v[kLoads];
  load_rows(launch, at, source, v);
  const std::uint64_t to = static_cast<std::uint64_t>(static_cast<std::uint32_t>(at.first)) * launch.pitch + byte;
  const std::uint64_t step = std::uint64_t{launch.pitch} * kRowsAtOnce;
  if constexpr (kColumns) {
    char* const out = reinterpret_cast<char*>(job.along_columns) + to;
    const bool ordinary = round_columns<kSaturates>(launch.along_columns, at, v, out, step);
    if (!__all_sync(kAllLanes, ordinary)) round_exactly(launch, launch.along_columns, true, at, out);
  }
  if constexpr (kRows) {
    char* const out = reinterpret_cast<char*>(job.along_rows) + to;
    const bool ordinary = round_rows<kSaturates>(launch.along_rows, at, v, out, step);
    if (!__all_sync(kAllLanes, ordinary)) round_exactly(launch, launch.along_rows, false, at, out);
  }
}

Rounding rounding(const RoundRule& rule) {
  const RoundTarget& to = rule.format == RoundFormat::e4m3   ? kRoundE4m3
                          : rule.format == RoundFormat::e5m2 ? kRoundE5m2
                                                             : kRoundE2m1;
  return rounding_of(to, rule.scale != RoundScale::floor, rule.scale == RoundScale::deepgemm_host);
}

template <bool kSaturates>
void start(const Launch& launch, unsigned blocks, cudaStream_t stream) {
  const RoundTripJob& job = launch.job;
  if (job.along_rows != nullptr && job.along_columns != nullptr) {
    round_trip<true, true, kSaturates><<<blocks, kThreads, 0, stream>>>(launch);
  } else if (job.along_rows != nullptr) {
    round_trip<true, false, kSaturates><<<blocks, kThreads, 0, stream>>>(launch);
  } else {
    round_trip<false, true, kSaturates><<<blocks, kThreads, 0, stream>>>(launch);
  }
}

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

}  // namespace

cudaError_t launch_round_trip(const RoundTripJob& job, cudaStream_t stream) {
  if (job.rows.rows == 0 || job.cols == 0 || (job.along_rows == nullptr && job.along_columns == nullptr)) {
    return cudaSuccess;
  }
  const std::int64_t groups = divide_up(job.cols, kCols);
  const std::int64_t expert_tiles = divide_up(job.expert_rows, kTileRows);
  std::int64_t tiles = job.rows.tiles;
  if (job.rows.table == nullptr) tiles = divide_up(job.rows.rows, kTileRows);
  if (job.expert_rows != 0) tiles = job.rows.rows / job.expert_rows * expert_tiles;
  if (tiles == 0) return cudaSuccess;
  const std::int64_t parts = groups * kParts;
  if (job.cols > kMost / 2 || tiles > kMost / parts) return cudaErrorInvalidValue;
  const Launch launch{job,
                      rounding(job.row_rule),
                      rounding(job.column_rule),
                      static_cast<std::uint32_t>(job.cols * 2),
                      static_cast<unsigned>(groups),
                      static_cast<unsigned>(expert_tiles)};
  const bool saturates = (job.along_rows != nullptr && job.row_rule.scale == RoundScale::floor) ||
                         (job.along_columns != nullptr && job.column_rule.scale == RoundScale::floor);
  const auto blocks = static_cast<unsigned>(tiles * parts);
  saturates ? start<true>(launch, blocks, stream) : start<false>(launch, blocks, stream);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
