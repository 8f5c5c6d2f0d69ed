// SwiGLU's gradient along rows, with dS of the same read.

#include <type_traits>

#include "kernels/sm90/layer/rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLevels = 32;  // of sums of chunks: n is below 2^31

// The pairwise sum of a row, chunk after chunk: sums of whole subtrees wait at their level, as the digits of a binary
// counter. Every lane has the same.
struct PairwiseSum {
  float waiting[kLevels];
  std::int64_t count = 0;

  __device__ __forceinline__ void add(float sum) {
    int level = 0;
    for (; (count >> level & 1) != 0; ++level) sum = __fadd_rn(waiting[level], sum);
    waiting[level] = sum;
    ++count;
  }
  // As if +0 followed up to a power of two of chunks.
  __device__ __forceinline__ float total() const {
    float sum = 0;
    bool any = false;
    for (int level = 0; std::int64_t{1} << level < 2 * count; ++level) {
      const bool left = (count >> level & 1) != 0;
      const bool last = count == std::int64_t{1} << level;
      if (last) return any ? __fadd_rn(waiting[level], sum) : waiting[level];
      if (left) {
        sum = __fadd_rn(waiting[level], sum);  // to its right there is `sum`, or zeros
        any = true;
      } else if (any) {
        sum = __fadd_rn(sum, 0.0F);
      }
      if (any && (count >> (level + 1)) == 0) return sum;
    }
    return sum;
  }
};

// Of a warp's 256 neighbouring columns, of `n` in all: a tree of neighbours, no higher than that of n columns.
__device__ __forceinline__ float chunk_sum(const float (&x)[kEach], std::int64_t n) {
  float level[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) level[i] = x[i];
#pragma unroll
  for (int width = 1; width < kEach; width *= 2) {
    if (width >= n) continue;
#pragma unroll
    for (int i = 0; i < kEach; i += 2 * width) level[i] = __fadd_rn(level[i], level[i + width]);
  }
  float sum = level[0];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    if (step * kEach < n) sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, step));
  }
  return __shfl_sync(kAllLanes, sum, 0);
}

// dg and du of a lane's columns to wherever they go.
template <bool kVector, class Coder>
__device__ __forceinline__ void store_dh(const RowsJob& job, const Coder& coder, std::int64_t row, std::int64_t j,
                                         const RowGradient& d, int lane) {
  constexpr bool kCodes = !std::is_same_v<Coder, NoCoder>;
  const std::int64_t count = job.n - j;
  const std::int64_t width = 2 * job.n;
  if (!job.h.interleaved) {
    if (job.dh != nullptr && count > 0) {
      store_eight<kVector>(job.dh + row * width + j, d.dg, count);
      store_eight<kVector>(job.dh + row * width + job.n + j, d.du, count);
    }
    if constexpr (kCodes) {
      encode_eight<kVector>(job.row, coder, d.dg, row, j, width, count, lane);
      encode_eight<kVector>(job.row, coder, d.du, row, job.n + j, width, count, lane);
    }
    return;
  }
  uint4 first;
  uint4 second;
  interleave(d.dg, d.du, first, second);
  if (job.dh != nullptr && count > 0) {
    store_eight<kVector>(job.dh + row * width + 2 * j, first, 2 * count);
    if (2 * count > kEach) store_eight<kVector>(job.dh + row * width + 2 * j + kEach, second, 2 * count - kEach);
  }
  if constexpr (kCodes) encode_sixteen<kVector>(job.row, coder, first, second, row, 2 * j, width, 2 * count, lane);
}

// A warp has a row: dS is its sum.
template <bool kVector, class Coder>
__global__ void __launch_bounds__(kRowThreads)
    backward_rows(const __grid_constant__ RowsJob job, const __grid_constant__ Coder coder) {
  __shared__ alignas(16) float sigmoids[kSigmoidEntries];
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  load_sigmoids(sigmoids);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t chunks = (job.n + kChunk - 1) / kChunk;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; row < job.rows; row += step) {
    const float weight = __ldg(job.weights + row);
    PairwiseSum ds;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t j = chunk * kChunk + lane * kEach;
      const RawH<kVector> raw = load_h<kVector>(job.h, row, j, job.n);
      float p[kEach];
      load_p<kVector>(job, row, j, p);
      const RowGradient d = differentiate(gate_ups(raw, job.h.interleaved, sigmoids), p, weight, job.n - j);
      ds.add(chunk_sum(d.products, job.n));
      if (job.a != nullptr && j < job.n) store_eight<kVector>(job.a + row * job.n + j, d.a, job.n - j);
      store_dh<kVector>(job, coder, row, j, d, lane);
    }
    if (lane == 0) job.ds[row] = chunks == 0 ? 0.0F : ds.total();
  }
}

}  // namespace

bool has_row_blocks(const HInput& h, std::int64_t n, int block) { return h.interleaved || n % block == 0; }

cudaError_t launch_backward_rows(const RowsJob& job, bool vector, cudaStream_t stream) {
  if (job.rows == 0) return cudaSuccess;
  const dim3 grid = row_grid(job.rows, 1);
  const auto launch = [&](auto coder) {
    if (vector) {
      backward_rows<true><<<grid, kRowThreads, 0, stream>>>(job, coder);
    } else {
      backward_rows<false><<<grid, kRowThreads, 0, stream>>>(job, coder);
    }
    return cudaGetLastError();
  };
  return job.row.codes == nullptr ? launch(NoCoder()) : with_coder(job.row.coding, launch);
}

}  // namespace mxcheck_kernels::sm90
