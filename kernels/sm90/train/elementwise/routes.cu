#include "kernels/sm90/train/elementwise/routes.h"

#include "kernels/sm90/train/elementwise/numbers.cuh"
#include "kernels/sm90/train/elementwise/rows.h"

namespace mxcheck_kernels::sm90 {
namespace {

__device__ __forceinline__ std::int64_t thread_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__global__ void no_overflow(RouterOverflow* overflow) { *overflow = {0, INT32_MAX}; }

__global__ void check_finite(const float* logits, std::int64_t count, int layer, RouterOverflow* overflow) {
  const std::int64_t i = thread_index();
  if (i >= count || fabsf(logits[i]) < INFINITY) return;
  atomicMin(&overflow->layer, layer);
  overflow->found = 1;
}

__global__ void row_weights(const std::int32_t* row_slot, const float* weights, std::int64_t rows, float* row_weight) {
  const std::int64_t r = thread_index();
  if (r < rows) row_weight[r] = weights[row_slot[r]];
}

__global__ void slot_gradient(const std::int32_t* slot_row, const float* ds, std::int64_t slots, float* gradient) {
  const std::int64_t s = thread_index();
  if (s < slots) gradient[s] = ds[slot_row[s]];
}

// The last expert whose rows begin at or before this one.
__device__ __forceinline__ int expert_of(const std::int64_t* offsets, int experts, std::int64_t row) {
  int low = 0;
  int high = experts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

__global__ void padded_slots(const __grid_constant__ PaddedSlotsJob job) {
  const std::int64_t i = thread_index();
  if (i >= job.tokens * job.width) return;
  const std::int64_t token = i / job.width;
  const std::int64_t slot = job.token_offsets[token] + i % job.width;
  const bool taken = slot < job.token_offsets[token + 1];
  const std::int32_t row = taken ? job.token_rows[slot] : 0;
  job.slot_experts[i] = taken ? expert_of(job.offsets, job.experts, row) : -1;
  job.gradient[i] = taken ? job.ds[row] : 0.0F;
}

__global__ void rounded_sum(const float* a, const float* b, std::int64_t count, std::uint16_t* out) {
  const std::int64_t i = thread_index();
  if (i < count) out[i] = to_bf16(add(a[i], b[i]));
}

}  // namespace

cudaError_t launch_no_overflow(RouterOverflow* overflow, cudaStream_t stream) {
  no_overflow<<<1, 1, 0, stream>>>(overflow);
  return cudaGetLastError();
}

cudaError_t launch_check_finite(const float* logits, std::int64_t count, int layer, RouterOverflow* overflow,
                                cudaStream_t stream) {
  check_finite<<<element_blocks(count), kElementThreads, 0, stream>>>(logits, count, layer, overflow);
  return cudaGetLastError();
}

cudaError_t launch_row_weights(const std::int32_t* row_slot, const float* weights, std::int64_t rows, float* row_weight,
                               cudaStream_t stream) {
  row_weights<<<element_blocks(rows), kElementThreads, 0, stream>>>(row_slot, weights, rows, row_weight);
  return cudaGetLastError();
}

cudaError_t launch_slot_gradient(const std::int32_t* slot_row, const float* ds, std::int64_t slots, float* gradient,
                                 cudaStream_t stream) {
  slot_gradient<<<element_blocks(slots), kElementThreads, 0, stream>>>(slot_row, ds, slots, gradient);
  return cudaGetLastError();
}

cudaError_t launch_padded_slots(const PaddedSlotsJob& job, cudaStream_t stream) {
  padded_slots<<<element_blocks(job.tokens * job.width), kElementThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_rounded_sum(const float* a, const float* b, std::int64_t count, std::uint16_t* out,
                               cudaStream_t stream) {
  rounded_sum<<<element_blocks(count), kElementThreads, 0, stream>>>(a, b, count, out);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
