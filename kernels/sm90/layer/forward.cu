// SwiGLU along rows, and BF16 to codes along rows.

#include "kernels/sm90/layer/rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

template <bool kVector>
__global__ void __launch_bounds__(kRowThreads, 6) forward_rows(const __grid_constant__ RowsJob job) {
  __shared__ alignas(16) float sigmoids[kSigmoidEntries];
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  load_sigmoids(sigmoids);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t chunks = (job.n + kChunk - 1) / kChunk;
  const std::int64_t units = job.rows * chunks;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t unit = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; unit < units; unit += step) {
    const std::int64_t row = unit / chunks;
    const std::int64_t j = unit % chunks * kChunk + lane * kEach;
    GateUps v;
    load_gate_ups<kVector>(job.h, row, j, job.n, v);
    float a[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) a[i] = swiglu(v.g[i], v.u[i], sigmoid_of(sigmoids, v.g[i]));
    const uint4 words = round_to_bf16(a);
    if (job.a != nullptr && j < job.n) store_eight<kVector>(job.a + row * job.n + j, words, job.n - j);
    if (job.row.codes != nullptr) encode_eight<kVector>(job.row, a, row, j, job.n, job.n - j, lane);
  }
}

__global__ void __launch_bounds__(kRowThreads) encode_rows(const __grid_constant__ EncodeRowsJob job) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t chunks = (job.cols + kChunk - 1) / kChunk;
  const std::int64_t units = job.rows * chunks;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t unit = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; unit < units; unit += step) {
    const std::int64_t row = unit / chunks;
    const std::int64_t col = unit % chunks * kChunk + lane * kEach;
    float v[kEach];
    for (int i = 0; i < kEach; ++i) {
      const std::uint32_t word = col + i < job.cols ? job.x[row * job.cols + col + i] : 0;
      v[i] = __uint_as_float(word << 16);
    }
    encode_eight<false>(job.out, v, row, col, job.cols, job.cols - col, lane);
  }
}

}  // namespace

cudaError_t launch_forward_rows(const RowsJob& job, bool vector, cudaStream_t stream) {
  const std::int64_t units = job.rows * ((job.n + kChunk - 1) / kChunk);
  if (units == 0) return cudaSuccess;
  if (vector) {
    forward_rows<true><<<row_grid(units), kRowThreads, 0, stream>>>(job);
  } else {
    forward_rows<false><<<row_grid(units), kRowThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

cudaError_t launch_encode_rows(const EncodeRowsJob& job, cudaStream_t stream) {
  const std::int64_t units = job.rows * ((job.cols + kChunk - 1) / kChunk);
  if (units == 0) return cudaSuccess;
  encode_rows<<<row_grid(units), kRowThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
