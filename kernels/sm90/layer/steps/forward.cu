// SwiGLU along rows, and BF16 to codes along rows.

#include <type_traits>

#include "kernels/sm90/layer/steps/rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kTogether = 2;  // rows of a warp whose loads overlap

// A warp has rows of one part of 256 columns.
template <Access kAccess, class Coder>
__global__ void __launch_bounds__(kRowThreads, 5)
    forward_rows(const __grid_constant__ RowsJob job, const __grid_constant__ Coder coder) {
  constexpr bool kVector = kIsVector<kAccess>;
  __shared__ alignas(16) float sigmoids[kSigmoidEntries];
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  load_sigmoids(sigmoids);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t j = std::int64_t{blockIdx.y} * kChunk + lane * kEach;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; first < job.rows;
       first += step * kTogether) {
    Raw<kAccess> raw[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const std::int64_t row = first + k * step;
      raw[k] = load_h<kAccess>(job.h, row, row < job.rows ? j : job.n, job.n);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= job.rows) continue;
      const GateUps v = gate_ups<kAccess>(raw[k], sigmoids);
      float a[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) a[i] = swiglu(v.g[i], v.u[i], v.q[i]);
      const uint4 words = packed(a);
      if (job.a != nullptr && j < job.n) store_eight<kVector>(job.a + row * job.n + j, words, job.n - j);
      if constexpr (!std::is_same_v<Coder, NoCoder>)
        encode_eight<kVector>(job.row, coder, words, row, j, job.n, job.n - j, lane);
    }
  }
}

// Eight columns of a row, zeros past its end.
template <bool kVector>
__device__ __forceinline__ uint4 load_eight(const EncodeRowsJob& job, std::int64_t row, std::int64_t col) {
  if (row >= job.rows || col >= job.cols) return {};
  const std::uint16_t* const from = job.x + row * job.cols + col;
  if constexpr (kVector) return __ldg(reinterpret_cast<const uint4*>(from));
  float v[kEach];
  for (int i = 0; i < kEach; ++i) {
    const std::uint32_t word = col + i < job.cols ? from[i] : 0;
    v[i] = __uint_as_float(word << 16);
  }
  return packed(v);
}

template <bool kVector, class Coder>
__global__ void __launch_bounds__(kRowThreads)
    encode_rows(const __grid_constant__ EncodeRowsJob job, const __grid_constant__ Coder coder) {
  constexpr int kLoads = 4;  // rows of a warp whose loads overlap
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t col = std::int64_t{blockIdx.y} * kChunk + lane * kEach;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; first < job.rows;
       first += step * kLoads) {
    uint4 words[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) words[k] = load_eight<kVector>(job, first + k * step, col);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const std::int64_t row = first + k * step;
      if (row < job.rows) encode_eight<kVector>(job.out, coder, words[k], row, col, job.cols, job.cols - col, lane);
    }
  }
}

}  // namespace

cudaError_t launch_forward_rows(const RowsJob& job, bool vector, cudaStream_t stream) {
  if (job.rows == 0 || job.n == 0) return cudaSuccess;
  const std::int64_t parts = (job.n + kChunk - 1) / kChunk;
  const auto launch = [&](auto coder) {
    using Coder = decltype(coder);
    return with_access(job.h, vector, [&](auto access) {
      return start_rows(forward_rows<access(), Coder>, job.rows, parts, job, coder, stream);
    });
  };
  return job.row.codes == nullptr ? launch(NoCoder()) : with_coder(job.row.coding, launch);
}

cudaError_t launch_encode_rows(const EncodeRowsJob& job, cudaStream_t stream) {
  if (job.rows == 0 || job.cols == 0) return cudaSuccess;
  const std::int64_t parts = (job.cols + kChunk - 1) / kChunk;
  const bool vector = job.cols % kEach == 0 && reinterpret_cast<std::uintptr_t>(job.x) % 16 == 0 &&
                      reinterpret_cast<std::uintptr_t>(job.out.codes) % kEach == 0;
  return with_coder(job.out.coding, [&](auto coder) {
    using Coder = decltype(coder);
    return vector ? start_rows(encode_rows<true, Coder>, job.rows, parts, job, coder, stream)
                  : start_rows(encode_rows<false, Coder>, job.rows, parts, job, coder, stream);
  });
}

}  // namespace mxcheck_kernels::sm90
