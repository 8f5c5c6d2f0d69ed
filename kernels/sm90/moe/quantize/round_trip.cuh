#pragma once
// The share of a warp of round_trip.cu: 32 rows of one expert and 64 columns, of which a lane has eight columns of
// every fourth row. Loads and stores are of 16 bytes, and of whole lines of 128; a block along columns is in the
// registers of four lanes, a block along rows in those of four neighbours.

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/moe/quantize/round_trip.h"
#include "kernels/sm90/moe/quantize/rounding.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kTripRows = 32;               // of a warp, and of a block along columns
inline constexpr int kTripLanes = 8;               // of a row
inline constexpr int kTripStep = 32 / kTripLanes;  // from a lane's row to its next
inline constexpr int kTripLoads = kTripRows / kTripStep;
inline constexpr int kTripCols = kTripLanes * kEach;  // of a warp

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

}  // namespace mxcheck_kernels::sm90
