#include "kernels/sm90/layer/steps/steps.h"

#include <algorithm>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 4;  // slots whose rows are on their way together

template <bool kVector>
struct Part {
  static constexpr int kCount = kVector ? kEach : 1;
  float sum[kCount];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] = 0;
  }
};

template <bool kWeighted>
__device__ __forceinline__ float added(float weight, float y, float sum) {
  return kWeighted ? __fmaf_rn(weight, y, sum) : __fadd_rn(sum, y);
}

// A block of threads has a token, a thread 8 columns (or one). The sum's order is that of the slots, the loads of four
// slots overlap.
template <bool kVector, bool kWeighted>
__global__ void __launch_bounds__(kThreads) aggregate(const __grid_constant__ AggregateJob job) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  using Sum = Part<kVector>;
  for (std::int64_t t = blockIdx.x; t < job.tokens; t += gridDim.x) {
    const std::int64_t begin = __ldg(job.token_offsets + t);
    const std::int64_t end = __ldg(job.token_offsets + t + 1);
    for (std::int64_t j = std::int64_t{threadIdx.x} * Sum::kCount; j < job.cols; j += kThreads * Sum::kCount) {
      Sum acc;
      acc.clear();
      for (std::int64_t slot = begin; slot < end; slot += kAhead) {
        std::int32_t rows[kAhead];
        float weights[kAhead];
        uint4 words[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          rows[k] = slot + k < end ? __ldg(job.token_rows + slot + k) : -1;
          if (rows[k] < 0) continue;
          if constexpr (kWeighted) weights[k] = __ldg(job.weights + rows[k]);
          const std::uint16_t* const from = job.y + std::int64_t{rows[k]} * job.cols + j;
          if constexpr (kVector) {
            words[k] = __ldcs(reinterpret_cast<const uint4*>(from));
          } else {
            words[k].x = *from;
          }
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          if (rows[k] < 0) continue;
          const float weight = kWeighted ? weights[k] : 1.0F;
          const std::uint32_t w[4] = {words[k].x, words[k].y, words[k].z, words[k].w};
#pragma unroll
          for (int i = 0; i < Sum::kCount; ++i) {
            const float y = i % 2 == 0 ? low_half(w[i / 2]) : high_half(w[i / 2]);
            acc.sum[i] = added<kWeighted>(weight, y, acc.sum[i]);
          }
        }
      }
      std::uint16_t* const to = job.o + t * job.cols + j;
      if constexpr (kVector) {
        *reinterpret_cast<uint4*>(to) =
            make_uint4(ptx::cvt_rn_bf16x2_f32(acc.sum[0], acc.sum[1]), ptx::cvt_rn_bf16x2_f32(acc.sum[2], acc.sum[3]),
                       ptx::cvt_rn_bf16x2_f32(acc.sum[4], acc.sum[5]), ptx::cvt_rn_bf16x2_f32(acc.sum[6], acc.sum[7]));
      } else {
        *to = static_cast<std::uint16_t>(ptx::cvt_rn_bf16x2_f32(acc.sum[0], 0.0F));
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
