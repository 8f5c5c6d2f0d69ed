#pragma once
// Sorting by a block of threads, in shared or global memory.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/route/token_rounding/rank.cuh"

namespace mxcheck_kernels::sm90 {

// Larger first, in place, for any n: every comparison puts the larger at the lower index, so that what would lie after
// the end, as smaller than all, never moves. Index holds 4 n. A warp has 64 neighbours to itself, in steps as narrow as
// that.
template <class T, class Index>
__device__ inline void sort_descending(T* a, Index n) {
  const auto step = [&](Index width, bool mirrored, Index next) {
    const Index half = width / 2;
    for (Index p = threadIdx.x;; p += kRankThreads) {
      const Index in = p & (half - 1);
      const Index low = 2 * p - in;
      if (low >= n) break;
      const Index high = mirrored ? low - 2 * in + width - 1 : low + half;
      if (high >= n) continue;
      const T x = a[low];
      const T y = a[high];
      if (x < y) a[low] = y, a[high] = x;
    }
    if (width <= 64 && next <= 64) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
  for (Index width = 2; width / 2 < n; width *= 2) {
    step(width, true, width == 2 ? 4 : width / 2);
    for (Index narrow = width / 2; narrow > 1; narrow /= 2) {
      step(narrow, false, narrow > 2 ? narrow / 2 : 2 * width);
    }
  }
  __syncthreads();
}

}  // namespace mxcheck_kernels::sm90
