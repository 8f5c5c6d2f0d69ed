#pragma once
// Four Over Six of a thread's rows one after the other, in a loop: machine code of one row, which processors keep at
// hand, in place of a run of all rows'. Blocks stay in registers, and all go round once a row.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/choice.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
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
    const Choice choice = choice_of(s, outer, amax, four.sum, six.sum, kElements);
    bool is_four = choice == Choice::four;
    if (choice == Choice::open) {
      is_four =
          sum_by_definition(row, s.four, stored, at.count, 0) < sum_by_definition(row, s.six, stored, at.count, 0);
    }
    bytes = bytes >> 8 | (is_four ? s.four.byte : s.six.byte) << 24;
    store_row(job, at, r, chosen_codes(job, outer, s, is_four, six, four, row, amax, at.count));
    ring.turn();
  }
  store_scales(job, at, bytes);
}

// Four rows of a square, whose codes are computed again once the choice is known: fewer registers than both scales'.
// amax: of the whole square. stores: this thread is its first.
template <class Square, class T>
__device__ __forceinline__ void choose_square_in_turn(const Nvfp4Job& job, const Place& at, const Nvfp4Outer& outer,
                                                      float stored, const Square& square, std::uint32_t amax,
                                                      bool stores, const Block<T> (&x)[kRowsOfThread]) {
  const SixAndFour s = six_and_four(outer, stored, amax);
  RowRing<T> ring(x);
  float sum_of_six = 0;
  float sum_of_four = 0;
#pragma unroll 1
  for (int r = 0; r < kRowsOfThread; ++r) {
    sum_of_six = __fadd_rn(sum_of_six, tried(job, ring.x[0], s.six.factor).sum);
    sum_of_four = __fadd_rn(sum_of_four, tried(job, ring.x[0], s.four.factor).sum);
    ring.turn();
  }
  const Choice choice =
      choice_of(s, outer, amax, square.sum(sum_of_four), square.sum(sum_of_six), kElements * kElements);
  bool is_four = choice == Choice::four;
  const bool open = choice == Choice::open;
  if (square.any(open)) {
    const float of_four = square_by_definition(square, at, s.four, stored, open, ring.x);
    const float of_six = square_by_definition(square, at, s.six, stored, open, ring.x);
    if (open) is_four = of_four < of_six;
  }
  if (stores && at.count > 0 && at.rows > 0) {
    job.scales[at.row / kElements * job.blocks + at.block] =
        static_cast<std::uint8_t>(is_four ? s.four.byte : s.six.byte);
  }
  const Nvfp4Scale chosen = is_four ? s.four : s.six;
#pragma unroll 1
  for (int r = 0; r < kRowsOfThread; ++r) {
    store_row(job, at, r, encode_to_nearest<false>(outer, chosen, ring.x[0], amax, job.sixteen, at.count));
    ring.turn();
  }
}

}  // namespace mxcheck_kernels::sm90
