// SwiGLU's gradient along rows, with dS of the same read; and the last levels of the sums of dS.

#include <type_traits>

#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {
namespace {

// Adds up a warp's 256 neighbouring columns, of `n` in all: a tree of neighbours, no higher than that of n columns.
// Lane 0's is the sum.
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
  return sum;
}

// dg and du of a lane's columns to wherever they go.
template <Access kAccess, class Coder>
__device__ __forceinline__ void store_dh(const RowsJob& job, const Coder& coder, std::int64_t row, std::int64_t j,
                                         const RowGradient& d, int lane) {
  constexpr bool kVector = kIsVector<kAccess>;
  constexpr bool kCodes = !std::is_same_v<Coder, NoCoder>;
  const std::int64_t count = job.n - j;
  const std::int64_t width = 2 * job.n;
  if (!is_interleaved<kAccess>(job.h)) {
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
  std::uint16_t* const to = job.dh + row * width + 2 * j;
  if constexpr (kVector) {
    if (job.dh != nullptr) store_sixteen(to, first, second, 2 * count, lane);
  } else if (job.dh != nullptr && count > 0) {
    store_eight<false>(to, first, 2 * count);
    if (2 * count > kEach) store_eight<false>(to + kEach, second, 2 * count - kEach);
  }
  if constexpr (kCodes) encode_sixteen<kVector>(job.row, coder, first, second, row, 2 * j, width, 2 * count, lane);
}

// A warp has rows of one part of 256 columns, and that part of their dS.
template <Access kAccess, class Coder>
__global__ void __launch_bounds__(kRowThreads)
    backward_rows(const __grid_constant__ RowsJob job, const __grid_constant__ Coder coder) {
  constexpr bool kVector = kIsVector<kAccess>;
  __shared__ alignas(16) float sigmoids[kSigmoidEntries];
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  load_sigmoids(sigmoids);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t j = std::int64_t{blockIdx.y} * kChunk + lane * kEach;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  float* const sums = gridDim.y == 1 ? job.ds : job.sums + blockIdx.y * job.rows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; row < job.rows; row += step) {
    const Raw<kAccess> raw = load_h<kAccess>(job.h, row, j, job.n);
    float p[kEach];
    load_p<kVector>(job, row, j, p);
    const float weight = __ldg(job.weights + row);
    const RowGradient d = differentiate<kVector>(gate_ups<kAccess>(raw, sigmoids), p, weight, job.n - j);
    const float sum = chunk_sum(d.products, job.n);
    if (lane == 0) sums[row] = sum;
    if (job.a != nullptr && j < job.n) store_eight<kVector>(job.a + row * job.n + j, d.a, job.n - j);
    store_dh<kAccess>(job, coder, row, j, d, lane);
  }
}

constexpr int kSumThreads = 256;
constexpr int kLevels = 31;

// Parts after the last count as +0, up to a power of two of them. Sums of whole subtrees wait at their level, as the
// digits of a binary counter.
__global__ void __launch_bounds__(kSumThreads) add(const __grid_constant__ SumsJob job) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  if (row >= job.rows) return;
  float waiting[kLevels + 1];
  float sum = 0;
  std::int64_t padded = 1;
  while (padded < job.parts) padded *= 2;
  for (std::int64_t i = 0; i < padded; ++i) {
    sum = i < job.parts ? job.sums[i * job.rows + row] : 0.0F;
    int level = 0;
    for (; (i >> level & 1) != 0; ++level) sum = __fadd_rn(waiting[level], sum);
    waiting[level] = sum;
  }
  job.out[row] = sum;
}

}  // namespace

bool has_row_blocks(const HInput& h, std::int64_t n, int block) { return h.interleaved || n % block == 0; }

cudaError_t launch_backward_rows(const RowsJob& job, bool vector, cudaStream_t stream) {
  if (job.rows == 0) return cudaSuccess;
  const std::int64_t parts = std::max<std::int64_t>((job.n + kChunk - 1) / kChunk, 1);
  const auto start = [&](auto access, auto coder) {
    return start_rows(backward_rows<access(), decltype(coder)>, job.rows, parts, job, coder, stream);
  };
  const auto launch = [&](auto coder) {
    return with_access(job.h, vector, [&](auto access) { return start(access, coder); });
  };
  if (job.h.packed && job.row.codes == nullptr) return cudaErrorInvalidValue;
  const cudaError_t e = job.h.packed               ? with_packed(job, job.row.coding, vector, start)
                        : job.row.codes == nullptr ? launch(NoCoder())
                                                   : with_coder(job.row.coding, launch);
  if (e != cudaSuccess || parts == 1) return e;
  return add_sums({job.sums, parts, job.rows, job.ds, job.header}, stream);
}

cudaError_t add_sums(const SumsJob& job, cudaStream_t stream) {
  if (job.rows == 0) return cudaSuccess;
  add<<<static_cast<unsigned>((job.rows + kSumThreads - 1) / kSumThreads), kSumThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
