#pragma once
// Four Over Six of a thread's rows one after the other, in a loop: machine code of one row, which processors keep at
// hand, in place of a run of all rows'. Blocks stay in registers, and all go round once a row.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/choice.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {

// A thread's blocks; the first is the one whose turn it is.
template <class T>
struct RowRing {
  Block<T> x[kRowsOfThread];
  __device__ __forceinline__ explicit RowRing(const Block<T> (&rows)[kRowsOfThread]) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) x[r] = rows[r];
  }
  __device__ __forceinline__ void turn() {
    const Block<T> front = x[0];
#pragma unroll
    for (int r = 1; r < kRowsOfThread; ++r) x[r - 1] = x[r];
    x[kRowsOfThread - 1] = front;
  }
};

// Each row has a block of its own.
template <class T>
__device__ __forceinline__ void choose_rows_in_turn(const Nvfp4Job& job, const Place& at, const Nvfp4Outer& outer,
                                                    float stored, const Block<T> (&x)[kRowsOfThread]) {
  RowRing<T> ring(x);
  std::uint32_t bytes = 0;
#pragma unroll 1
  for (int r = 0; r < kRowsOfThread; ++r) {
    const Block<T>& row = ring.x[0];
    const std::uint32_t amax = largest(row);
    const SixAndFour s = six_and_four(outer, stored, amax);
    const Tried six = tried(job, row, s.six.factor);
    const Tried four = tried(job, row, s.four.factor);
    const Stretch choice = choice_of(s, outer, amax, four.sum, six.sum, kElements);
    bool is_four = choice == Stretch::four;
    if (choice == Stretch::by_definition) {
      is_four =
          sum_by_definition(row, s.four, stored, at.count, 0) < sum_by_definition(row, s.six, stored, at.count, 0);
    }
    bytes = bytes >> 8 | (is_four ? s.four.byte : s.six.byte) << 24;
    store_row(job, at, r, chosen_codes(job, outer, s, is_four, six, four, row, amax, at.count));
    ring.turn();
  }
  store_scales(job, at, bytes);
}

}  // namespace mxcheck_kernels::sm90
