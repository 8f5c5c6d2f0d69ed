#include "kernels/sm90/layer/steps/steps.h"

#include <algorithm>

#include "kernels/sm90/layer/steps/slots.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;

// A block of threads has a token, a thread 8 columns (or one).
template <bool kVector, bool kWeighted>
__global__ void __launch_bounds__(kThreads) aggregate(const __grid_constant__ AggregateJob job) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  constexpr int kColumns = kSlotColumns<kVector>;
  for (std::int64_t t = blockIdx.x; t < job.tokens; t += gridDim.x) {
    const std::int64_t begin = __ldg(job.token_offsets + t);
    const std::int64_t end = __ldg(job.token_offsets + t + 1);
    for (std::int64_t j = std::int64_t{threadIdx.x} * kColumns; j < job.cols; j += kThreads * kColumns) {
      float sum[kColumns] = {};
      add_slots<kVector, kWeighted>(job, begin, end, j, sum, [](const uint4* from) { return __ldcs(from); });
      std::uint16_t* const to = job.o + t * job.cols + j;
      if constexpr (kVector) {
        *reinterpret_cast<uint4*>(to) =
            make_uint4(ptx::cvt_rn_bf16x2_f32(sum[0], sum[1]), ptx::cvt_rn_bf16x2_f32(sum[2], sum[3]),
                       ptx::cvt_rn_bf16x2_f32(sum[4], sum[5]), ptx::cvt_rn_bf16x2_f32(sum[6], sum[7]));
      } else {
        *to = static_cast<std::uint16_t>(ptx::cvt_rn_bf16x2_f32(sum[0], 0.0F));
      }
    }
  }
}

template <bool kVector>
void start(const AggregateJob& job, unsigned grid, cudaStream_t stream) {
  if (job.weights != nullptr) {
    aggregate<kVector, true><<<grid, kThreads, 0, stream>>>(job);
  } else {
    aggregate<kVector, false><<<grid, kThreads, 0, stream>>>(job);
  }
}

}  // namespace

cudaError_t launch_aggregate(const AggregateJob& job, bool vector, cudaStream_t stream) {
  if (job.tokens == 0 || job.cols == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(std::min<std::int64_t>(job.tokens, 1 << 20));
  vector ? start<true>(job, grid, stream) : start<false>(job, grid, stream);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
