// Tiles of 128 rows of one expert and 128 columns, a block of threads each. A warp has 32 rows of one expert and 64
// columns, of which a lane has eight columns of every fourth row. Loads and stores are of 16 bytes, and of whole lines
// of 128; a block along columns is in the registers of four lanes, a block along rows in those of four neighbours.

#include "kernels/sm90/moe/round_trip.h"

#include <cstdint>
#include <limits>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/block_rounding.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- A warp's share ----

constexpr int kTripRows = 32;               // of a warp, and of a block along columns
constexpr int kTripLanes = 8;               // of a row
constexpr int kTripStep = 32 / kTripLanes;  // from a lane's row to its next
constexpr int kTripLoads = kTripRows / kTripStep;
constexpr int kTripCols = kTripLanes * kEach;  // of a warp

struct RoundTripLaunch {
  RoundTripJob job;
  Rounding along_rows;
  Rounding along_columns;
  std::uint32_t pitch;    // bytes of a row
  unsigned groups;        // of columns, of a block of threads each
  unsigned expert_tiles;  // of each expert; 0 without expert_rows
};

// The share of a lane: its first row, how many there are from it on to the warp's end, and where in a row it begins.
struct TripPlace {
  std::int32_t first;
  int rows;  // none if its columns are past the end
  std::uint32_t byte;
};
__device__ __forceinline__ bool has_row(const TripPlace& at, int i) { return i * kTripStep < at.rows; }

// Loads from a row of x, which points to the lane's first column. The product is of 32 bits each and 64 wide.
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
  for (int mask = kTripLanes; mask < 32; mask *= 2) {
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

__device__ __forceinline__ uint4 load_again(const RoundTripLaunch& launch, const TripPlace& at, int i) {
  if (!has_row(at, i)) return uint4{};
  std::int32_t row = at.first + i * kTripStep;
  if (launch.job.index != nullptr) row = __ldg(launch.job.index + row);
  return load_row(reinterpret_cast<const char*>(launch.job.x) + at.byte, row, launch.pitch);
}

// A warp's rows once more, by the definition, where a block is not ordinary. `to` is the lane's first row.
__device__ __noinline__ void round_exactly(const RoundTripLaunch& launch, const Rounding& rule, bool columns,
                                           TripPlace at, char* to) {
  uint4 amax = {};
#pragma unroll 1
  for (int i = 0; columns && i < kTripLoads; ++i) amax = larger_words(amax, magnitudes(load_again(launch, at, i)));
  amax = larger_of_rows(amax);
#pragma unroll 1
  for (int i = 0; i < kTripLoads; ++i) {
    const uint4 v = load_again(launch, at, i);
    if (!columns) {
      const std::uint32_t row = amax_of(v) & 0x7FFF7FFF;
      amax = all_of(larger_of_block(larger2(row, __byte_perm(row, row, 0x1032))));
    }
    if (!has_row(at, i)) continue;
    ptx::st_global_v4(to + std::uint64_t{launch.pitch} * static_cast<unsigned>(i * kTripStep),
                      make_uint4(exact2(rule, v.x, amax.x), exact2(rule, v.y, amax.y), exact2(rule, v.z, amax.z),
                                 exact2(rule, v.w, amax.w)));
  }
}

__device__ __forceinline__ void load_rows(const RoundTripLaunch& launch, const TripPlace& at, std::int32_t source,
                                          uint4 (&v)[kTripLoads]) {
  const char* const x = reinterpret_cast<const char*>(launch.job.x) + at.byte;
  const int sub = static_cast<int>(threadIdx.x % 32 / kTripLanes);
#pragma unroll
  for (int i = 0; i < kTripLoads; ++i) {
    const std::int32_t row = __shfl_sync(kAllLanes, source, i * kTripStep + sub);
    v[i] = has_row(at, i) ? load_row(x, row, launch.pitch) : uint4{};
  }
}

template <bool kSaturates>
__device__ __forceinline__ uint4 rounded_eight(const Rounding& rule, const uint4& v, const uint4& lowest) {
  return make_uint4(rounded2<kSaturates>(rule, v.x, lowest.x), rounded2<kSaturates>(rule, v.y, lowest.y),
                    rounded2<kSaturates>(rule, v.z, lowest.z), rounded2<kSaturates>(rule, v.w, lowest.w));
}

// Blocks along columns: the steps of a lane's eight, and whether all of them are ordinary.
struct TripColumns {
  uint4 lowest;
  bool ordinary;
};
__device__ __forceinline__ TripColumns column_steps(const Rounding& rule, const uint4 (&v)[kTripLoads]) {
  uint4 amax = magnitudes(v[0]);
#pragma unroll
  for (int i = 1; i < kTripLoads; ++i) amax = larger_words(amax, magnitudes(v[i]));
  amax = larger_of_rows(amax);
  const std::uint32_t odd =
      not_ordinary(rule, amax.x) | not_ordinary(rule, amax.y) | not_ordinary(rule, amax.z) | not_ordinary(rule, amax.w);
  return {make_uint4(lowest_steps(rule, amax.x), lowest_steps(rule, amax.y), lowest_steps(rule, amax.z),
                     lowest_steps(rule, amax.w)),
          odd == 0};
}

// Blocks along rows, of two of a lane's rows: the amax of the first one's in the low half, the second one's above it.
__device__ __forceinline__ std::uint32_t amax_of_rows(const uint4& first, const uint4& second) {
  const std::uint32_t a = amax_of(first) & 0x7FFF7FFF;
  const std::uint32_t b = amax_of(second) & 0x7FFF7FFF;
  return larger_of_block(larger2(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632)));
}

// Where a lane's first row goes, in each output.
struct TripOutputs {
  char* rows;
  char* columns;
};

// Every value, those of blocks along rows that are not ordinary wrong: whether there are none of them. The outputs'
// stores take turns: of all of one and then all of the other memory takes 1.5 % more time.
template <bool kRows, bool kColumns, bool kSaturates>
__device__ __forceinline__ bool round_all(const RoundTripLaunch& launch, const TripPlace& at,
                                          const uint4 (&v)[kTripLoads], const uint4& column_lowest, TripOutputs to) {
  const std::uint64_t step = std::uint64_t{launch.pitch} * kTripStep;
  std::uint32_t odd = 0;
#pragma unroll
  for (int i = 0; i < kTripLoads; i += 2) {
    std::uint32_t lowest = 0;
    if constexpr (kRows) {
      const std::uint32_t amax = amax_of_rows(v[i], v[i + 1]);
      odd |= not_ordinary(launch.along_rows, amax);
      lowest = lowest_steps(launch.along_rows, amax);
    }
#pragma unroll
    for (int k = 0; k < 2; ++k, to.rows += step, to.columns += step) {
      const uint4 of = all_of(__byte_perm(lowest, lowest, k == 0 ? 0x1010 : 0x3232));
      const uint4 row = rounded_eight<kSaturates>(launch.along_rows, v[i + k], of);
      const uint4 column = rounded_eight<kSaturates>(launch.along_columns, v[i + k], column_lowest);
      if (!has_row(at, i + k)) continue;
      if constexpr (kColumns) ptx::st_global_v4(to.columns, column);
      if constexpr (kRows) ptx::st_global_v4(to.rows, row);
    }
  }
  return odd == 0;
}

// ---- The kernel ----

constexpr int kThreads = 256;
constexpr int kAcross = 2;  // warps beside each other; the others are of the tile's next 32 rows
constexpr int kCols = kAcross * kTripCols;
static_assert(kThreads / 32 == kTileRows / kTripRows * kAcross);

__device__ __forceinline__ bool find_rows(const RoundTripLaunch& launch, unsigned t, RowTile& tile) {
  const RoundTripJob& job = launch.job;
  if (job.expert_rows == 0) return find_tile(job.rows, t, kTripRows, tile);
  if (job.rows.header != nullptr && job.rows.header->status != MXCHECK_OK) return false;
  const std::int64_t begin = std::int64_t{t % launch.expert_tiles} * kTileRows;
  tile.first = static_cast<std::int32_t>(t / launch.expert_tiles * job.expert_rows + begin);
  tile.rows = static_cast<std::int32_t>(min(std::int64_t{kTileRows}, job.expert_rows - begin));
  return true;
}

// Blocks of threads on a processor. With both outputs two are at 0.95 of a copy's speed on an H200, three at 0.92, and
// at 0.86 where values saturate, whose registers then spill.
template <bool kRows, bool kColumns>
constexpr int kResident = kRows&& kColumns ? 2 : 3;

template <bool kRows, bool kColumns, bool kSaturates>
__global__ void __launch_bounds__(kThreads, (kResident<kRows, kColumns>))
    round_trip(const __grid_constant__ RoundTripLaunch launch) {
  const RoundTripJob& job = launch.job;
  RowTile tile;
  const unsigned t = blockIdx.x / launch.groups;
  if (!find_rows(launch, t, tile)) return;
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const auto first = static_cast<std::int32_t>(warp / kAcross * kTripRows);
  const int rows = min(tile.rows - first, kTripRows);
  if (rows <= 0) return;
  const std::int32_t row = tile.first + first + min(static_cast<int>(lane), rows - 1);
  const std::int32_t source = job.index == nullptr ? row : __ldg(job.index + row);
  const auto sub = static_cast<int>(lane / kTripLanes);
  const std::uint32_t byte =
      ((blockIdx.x - t * launch.groups) * kCols + warp % kAcross * kTripCols + lane % kTripLanes * kEach) * 2;
  const TripPlace at{tile.first + first + sub, byte < launch.pitch ? rows - sub : 0, byte};
  uint4 v[kTripLoads];
  load_rows(launch, at, source, v);
  const std::uint64_t to = static_cast<std::uint64_t>(static_cast<std::uint32_t>(at.first)) * launch.pitch + byte;
  const TripOutputs out{reinterpret_cast<char*>(job.along_rows) + to, reinterpret_cast<char*>(job.along_columns) + to};
  TripColumns columns{};
  if constexpr (kColumns) columns = column_steps(launch.along_columns, v);
  const bool rows_ordinary = round_all<kRows, kColumns, kSaturates>(launch, at, v, columns.lowest, out);
  if (kColumns && !__all_sync(kAllLanes, columns.ordinary)) {
    round_exactly(launch, launch.along_columns, true, at, out.columns);
  }
  if (kRows && !__all_sync(kAllLanes, rows_ordinary)) round_exactly(launch, launch.along_rows, false, at, out.rows);
}

Rounding rounding(const RoundRule& rule) {
  const RoundTarget& to = rule.format == RoundFormat::e4m3   ? kRoundE4m3
                          : rule.format == RoundFormat::e5m2 ? kRoundE5m2
                          : rule.format == RoundFormat::e2m3 ? kRoundE2m3
                          : rule.format == RoundFormat::e3m2 ? kRoundE3m2
                                                             : kRoundE2m1;
  return rounding_of(to, rule.scale != RoundScale::floor, rule.scale == RoundScale::deepgemm_host);
}

template <bool kSaturates>
void start(const RoundTripLaunch& launch, unsigned blocks, cudaStream_t stream) {
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
  if (job.cols > kMost / 2 || job.rows.rows > kMost || tiles > kMost / groups) return cudaErrorInvalidValue;
  const RoundTripLaunch launch{job,
                               rounding(job.row_rule),
                               rounding(job.column_rule),
                               static_cast<std::uint32_t>(job.cols * 2),
                               static_cast<unsigned>(groups),
                               static_cast<unsigned>(expert_tiles)};
  const bool saturates = (job.along_rows != nullptr && job.row_rule.scale == RoundScale::floor) ||
                         (job.along_columns != nullptr && job.column_rule.scale == RoundScale::floor);
  const auto blocks = static_cast<unsigned>(tiles * groups);
  saturates ? start<true>(launch, blocks, stream) : start<false>(launch, blocks, stream);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
