// Squares of BF16 to codes in both directions: a block of threads has one.

#include "kernels/sm90/moe/quantize/square.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

struct Shared {
  TransposedTile<kSide> codes;
  std::uint32_t amax[kSquareWarps];
};

__device__ __forceinline__ void store_rows(const SquareJob& job, const Square& square, const SquarePlace& at,
                                           const uint2 (&codes)[kLaneRows]) {
  if (square.col + at.column >= job.cols) return;
  std::uint8_t* to = job.codes + (square.first + at.row) * job.cols + square.col + at.column;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r, to += job.cols) {
    if (at.row + r >= square.rows) break;
    ptx::st_global_no_allocate(to, codes[r]);
  }
}

__device__ __forceinline__ TransposedPlace transposed_place(const SquareJob& job, const Square& square) {
  const std::int64_t columns = job.cols - square.col;
  if (job.expert_rows == 0) {
    return {job.transposed + square.col * job.stride + square.before * kSide, job.stride, columns, square.rows, true};
  }
  const std::int64_t first = (square.expert * job.cols + square.col) * job.expert_rows + square.before_own * kSide;
  return {job.transposed + first, job.expert_rows, columns, square.rows, false};
}

// A scale for each of its rows and columns, a thread each, or one for all.
template <class Coder>
__device__ __forceinline__ void store_scales(const SquareJob& job, const Coder& coder, const Square& square,
                                             const BlockScale& s, int thread) {
  const std::int64_t across = (job.cols + kSide - 1) / kSide;
  const std::int64_t place = square.col / kSide;
  const std::int64_t down = (job.expert_rows + kSide - 1) / kSide;
  const bool shared = job.kind == SquareScales::shared;
  if (job.codes != nullptr) {
    if (!shared && thread < square.rows) {
      coder.store_scale(job.scales, (square.first + thread) * across + place, s);
    } else if (shared && thread == 0) {
      coder.store_scale(job.scales, square.before * across + place, s);
    }
  }
  if (job.transposed == nullptr) return;
  const std::int64_t column = square.col + thread;
  if (shared) {
    if (thread == 0) {
      coder.store_scale(job.transposed_scales, (square.expert * across + place) * down + square.before_own, s);
    }
  } else if (thread < kSide && column < job.cols) {
    const std::int64_t at = job.expert_rows == 0 ? column * job.bands + square.before
                                                 : (square.expert * job.cols + column) * down + square.before_own;
    coder.store_scale(job.transposed_scales, at, s);
  }
}

// 4: 64 registers a thread, half of them the square; 128 KB of loads on their way on each processor.
template <class Coder>
__global__ void __launch_bounds__(kSquareThreads, 4)
    encode_squares(const __grid_constant__ SquareJob job, const __grid_constant__ Coder coder, unsigned columns) {
  __shared__ Shared shared;
  Square square;
  if (!find_square(job, blockIdx.x / columns, square)) return;
  square.col = std::int64_t{blockIdx.x % columns} * kSide;
  const int thread = static_cast<int>(threadIdx.x);
  const SquarePlace at = square_place(thread);
  uint4 v[kLaneRows];
  load_square(job, square, at, v);
  const std::uint32_t amax =
      job.amax == nullptr ? largest_of_square(v, thread, shared.amax) : __float_as_uint(__ldg(job.amax)) & 0x7FFFFFFF;
  const BlockScale s = coder.scale_of(amax);
  uint2 codes[kLaneRows];
  if (Coder::divides(s)) {
    encode_square<true>(coder, s, v, codes);
  } else {
    encode_square<false>(coder, s, v, codes);
  }
  if (job.codes != nullptr) store_rows(job, square, at, codes);
  store_scales(job, coder, square, s, thread);
  if (job.transposed == nullptr) return;
  put_square(shared.codes, at, codes);
  __syncthreads();
  store_transposed<kSquareThreads, kSide>(shared.codes, transposed_place(job, square), thread);
}

bool is_possible(const SquareJob& job) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(job.x) | reinterpret_cast<std::uintptr_t>(job.codes) |
                         reinterpret_cast<std::uintptr_t>(job.transposed);
  if (addresses % 16 != 0 || job.cols % kEach != 0 || job.expert_rows % 16 != 0 || job.expert_rows < 0) return false;
  if (job.expert_rows != 0) return job.rows.rows % job.expert_rows == 0;
  return job.transposed == nullptr || job.kind == SquareScales::each;
}

}  // namespace

cudaError_t launch_square(const SquareJob& job, cudaStream_t stream) {
  if (!is_possible(job)) return cudaErrorInvalidValue;
  const std::int64_t columns = (job.cols + kSide - 1) / kSide;
  const std::int64_t rows =
      job.expert_rows == 0 ? job.rows.tiles : job.rows.rows / job.expert_rows * ((job.expert_rows + kSide - 1) / kSide);
  const std::int64_t blocks = rows * columns;
  if (blocks == 0 || (job.codes == nullptr && job.transposed == nullptr)) return cudaSuccess;
  const auto across = static_cast<unsigned>(columns);
  return with_coder(job.coding, [&](auto coder) {
    encode_squares<<<static_cast<unsigned>(blocks), kSquareThreads, 0, stream>>>(job, coder, across);
    return cudaGetLastError();
  });
}

}  // namespace mxcheck_kernels::sm90
