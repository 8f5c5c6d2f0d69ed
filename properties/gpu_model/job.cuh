#pragma once
// The job of a block: its tile of D, the rows of A that meet it, and what it shares.

#include <cstdint>

#include "properties/gpu_model/gpu_model.h"

namespace mxcheck::gpu_model {

inline constexpr int kTile = 64;
inline constexpr int kThreads = 256;
inline constexpr int kDepth = 32;         // of k in shared memory
inline constexpr int kLines = 2 * kTile;  // rows of A, then rows of B
inline constexpr int kHalf = kDepth / 2;  // of k that one thread loads of one line

// A call whose strides are filled in and whose arguments are checked.
struct KernelCall {
  MxcheckGpuModelCall call;
  std::int64_t tiles_n;
  bool extract;  // one block, for the two words at report->first
};

struct Job {
  bool valid;
  int count;            // rows of the tile
  std::int64_t first;   // row, or place in the list
  std::int64_t column;  // the tile's first
  std::int64_t expert;  // 0 when dense
  std::int64_t low;     // rows of this group
  std::int64_t high;
  std::int64_t k_begin;
  std::int64_t k_end;
};

struct Shared {
  float value[kDepth][kLines];
  std::uint32_t exponents[kDepth / 2][kLines];  // two of k a word
  Job job;
  std::int64_t row[kTile];    // of D; -1: none
  std::int64_t a_row[kTile];  // of A
  std::int64_t tiles[kThreads];
  unsigned long long first;
  unsigned int differing;
  unsigned int compared;
};

__device__ inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The first place in the ascending list that is not below `row`.
__device__ inline std::int64_t place_of(const MxcheckGpuModelCall& c, std::int64_t row) {
  std::int64_t low = 0;
  std::int64_t high = c.row_count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (c.rows[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Rows of the call, as rows or as places in the list.
__device__ inline void rows_within(const MxcheckGpuModelCall& c, std::int64_t low, std::int64_t high,
                                   std::int64_t* begin, std::int64_t* end) {
  if (c.rows != nullptr) {
    *begin = place_of(c, low);
    *end = place_of(c, high);
    return;
  }
  *begin = low > c.row_begin ? low : c.row_begin;
  *end = high < c.row_end ? high : c.row_end;
  if (*end < *begin) *end = *begin;
}

// True if expert e's offsets are usable; its range.
__device__ inline bool group_of(const MxcheckGpuModelCall& c, std::int64_t e, std::int64_t* low, std::int64_t* high) {
  *low = e == 0 ? 0 : c.offsets[e - 1];
  *high = c.offsets[e];
  const std::int64_t limit = c.groups == MXCHECK_GPU_MODEL_ALONG_M ? c.m : c.k;
  if (*low < 0 || *high < *low || *high > limit) return false;
  const bool splits = c.groups == MXCHECK_GPU_MODEL_ALONG_K && c.promotion != 0 && *high > *low;
  return !splits || *low % c.promotion == 0;
}

__device__ inline void set_tile(Job& job, std::int64_t begin, std::int64_t end, std::int64_t tile) {
  job.first = begin + tile * kTile;
  const std::int64_t left = end - job.first;
  job.count = left < kTile ? static_cast<int>(left) : kTile;
  job.valid = job.count > 0;
}

// Finds the job of this block. All threads call it.
__device__ inline void find_job(const KernelCall& p, Shared& s) {
  const MxcheckGpuModelCall& c = p.call;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t block = blockIdx.x;
  std::int64_t tile = block / p.tiles_n;
  if (thread == 0) {
    s.job.valid = false;
    s.job.column = block % p.tiles_n * kTile;
    s.job.expert = 0;
    s.job.low = 0;
    s.job.high = c.m;
    s.job.k_begin = 0;
    s.job.k_end = c.k;
    s.first = ~0ULL;
    s.differing = 0;
    s.compared = 0;
  }
  __syncthreads();
  if (p.extract) {
    if (thread != 0 || c.report->first == ~0ULL) return;
    const auto at = static_cast<std::int64_t>(c.report->first);
    s.job.column = at % c.n / kTile * kTile;
    s.job.first = at / c.n % c.m;
    s.job.count = 1;
    s.job.valid = true;
    if (c.groups == MXCHECK_GPU_MODEL_ALONG_K) {
      s.job.expert = at / c.n / c.m;
      group_of(c, s.job.expert, &s.job.k_begin, &s.job.k_end);
    } else if (c.groups == MXCHECK_GPU_MODEL_ALONG_M) {
      while (!group_of(c, s.job.expert, &s.job.low, &s.job.high) || s.job.first >= s.job.high) ++s.job.expert;
    }
    return;
  }
  if (c.groups != MXCHECK_GPU_MODEL_ALONG_M) {
    if (thread != 0) return;
    const std::int64_t begin = c.rows != nullptr ? 0 : c.row_begin;
    const std::int64_t end = c.rows != nullptr ? c.row_count : c.row_end;
    const std::int64_t tiles = divide_up(end - begin, kTile);
    set_tile(s.job, begin, end, tile % tiles);
    if (c.groups == MXCHECK_GPU_MODEL_ALONG_K) {
      s.job.expert = tile / tiles;
      if (!group_of(c, s.job.expert, &s.job.k_begin, &s.job.k_end)) {
        s.job.valid = false;
        c.report->bad_offsets = 1;
      }
    }
    return;
  }
  // Along M: the experts' tiles follow one another, none crosses an end.
  for (std::int64_t base = 0; base < c.experts; base += kThreads) {
    const std::int64_t e = base + thread;
    std::int64_t low = 0;
    std::int64_t high = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    if (e < c.experts) {
      if (group_of(c, e, &low, &high)) {
        rows_within(c, low, high, &begin, &end);
      } else if (block == 0) {
        c.report->bad_offsets = 1;
      }
    }
    s.tiles[thread] = divide_up(end - begin, kTile);
    __syncthreads();
    std::int64_t before = 0;  // tiles of the experts before this one
    std::int64_t all = 0;
    for (int i = 0; i < kThreads; ++i) {
      if (i < thread) before += s.tiles[i];
      all += s.tiles[i];
    }
    if (tile >= before && tile < before + s.tiles[thread]) {
      s.job.expert = e;
      s.job.low = low;
      s.job.high = high;
      set_tile(s.job, begin, end, tile - before);
    }
    __syncthreads();
    if (tile < all) return;
    tile -= all;
  }
}

// Rows of D and of A for this tile.
__device__ inline void find_rows(const KernelCall& p, Shared& s) {
  const MxcheckGpuModelCall& c = p.call;
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kTile) return;
  std::int64_t row = -1;
  std::int64_t a_row = -1;
  if (i < s.job.count) {
    const std::int64_t at = s.job.first + i;
    row = c.rows != nullptr && !p.extract ? c.rows[at] : at;
    bool good = row >= s.job.low && row < s.job.high;
    if (good) {
      a_row = c.row_index != nullptr ? c.row_index[row] : row;
      good = a_row >= 0 && (c.row_index == nullptr || a_row < c.a_rows);
    }
    if (!good) {
      row = a_row = -1;
      c.report->bad_rows = 1;
    }
  }
  s.row[i] = row;
  s.a_row[i] = a_row;
}

}  // namespace mxcheck::gpu_model
