#include "kernels/sm90/train/elementwise/tensors.cuh"

#include "kernels/sm90/train/elementwise/digest.h"
#include "kernels/sm90/train/elementwise/numbers.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kWarpsOfBlock = kBlockThreads / 32;

__global__ void __launch_bounds__(kBlockThreads)
    round_block(const TensorTable table, const float* from, std::uint16_t* to) {
  const TensorBlock at = tensor_block(table, blockIdx.x);
  each_of_block(at, [&](std::int64_t i) { to[at.offset + i] = to_bf16(from[at.offset + i]); });
}

__global__ void __launch_bounds__(kBlockThreads)
    digest_block(const TensorTable table, const float* values, unsigned long long* digests) {
  const TensorBlock at = tensor_block(table, blockIdx.x);
  unsigned long long sum = 0;
  each_of_block(at, [&](std::int64_t i) {
    const float x = values[at.offset + i];
    sum += digest_term(static_cast<std::uint64_t>(i), x == x ? __float_as_uint(x) : 0x7FFFFFFFU);
  });
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  // One addition a block: those to one address wait for one another.
  __shared__ unsigned long long of_warps[kWarpsOfBlock];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (const unsigned long long of_warp : of_warps) sum += of_warp;
  atomicAdd(digests + at.tensor, sum);
}

// A thread's four, a warp's 128 and a block's 1024 are subtrees.
__device__ __forceinline__ float block_sum(const float (&v)[4]) {
  __shared__ float of_warps[kWarpsOfBlock];
  const float warp = pairwise_sum_of_lanes(add(add(v[0], v[1]), add(v[2], v[3])), 32);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = warp;
  __syncthreads();
  return pairwise_sum_of_lanes(of_warps[threadIdx.x % kWarpsOfBlock], kWarpsOfBlock);
}

__global__ void __launch_bounds__(kBlockThreads)
    sum_block(const TensorTable in_table, const float* in, bool squares, const TensorTable out_table, float* out) {
  const TensorBlock at = tensor_block(in_table, blockIdx.x);
  const std::int64_t first = at.block * kBlockElements + std::int64_t{threadIdx.x} * 4;
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float x = first + i < at.size ? in[at.offset + first + i] : 0.0F;
    v[i] = squares ? mul(x, x) : x;
  }
  const float sum = block_sum(v);
  if (threadIdx.x == 0) out[out_table.entries[at.tensor].offset + at.block] = sum;
}

__global__ void __launch_bounds__(kBlockThreads) sum_terms(const float* terms, std::int64_t count, float* out) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kBlockElements + std::int64_t{threadIdx.x} * 4;
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = first + i < count ? terms[first + i] : 0.0F;
  const float sum = block_sum(v);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

std::int64_t blocks_of(std::int64_t count) { return (count + kBlockElements - 1) / kBlockElements; }

}  // namespace

cudaError_t launch_round(const TensorTable& table, const float* from, std::uint16_t* to, cudaStream_t stream) {
  round_block<<<static_cast<unsigned>(table.blocks), kBlockThreads, 0, stream>>>(table, from, to);
  return cudaGetLastError();
}

cudaError_t launch_digests(const TensorTable& table, const float* values, unsigned long long* digests,
                           cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(table.count) * sizeof(unsigned long long);
  if (const auto e = cudaMemsetAsync(digests, 0, bytes, stream); e != cudaSuccess) return e;
  digest_block<<<static_cast<unsigned>(table.blocks), kBlockThreads, 0, stream>>>(table, values, digests);
  return cudaGetLastError();
}

cudaError_t launch_block_sums(const TensorTable& in_table, const float* in, bool squares, const TensorTable& out_table,
                              float* out, cudaStream_t stream) {
  sum_block<<<static_cast<unsigned>(in_table.blocks), kBlockThreads, 0, stream>>>(in_table, in, squares, out_table,
                                                                                  out);
  return cudaGetLastError();
}

// Scratch, in floats, for the first two rounds of partial sums, which take turns.
std::int64_t token_sum_partials(std::int64_t count) { return blocks_of(count) + blocks_of(blocks_of(count)); }

cudaError_t launch_token_sum(const float* terms, std::int64_t count, float* partials, float* sum, cudaStream_t stream) {
  float* to = partials;
  float* next = partials + blocks_of(count);
  for (;;) {
    const std::int64_t blocks = blocks_of(count);
    sum_terms<<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(terms, count, blocks == 1 ? sum : to);
    if (blocks == 1) return cudaGetLastError();
    terms = to;
    to = next;
    next = const_cast<float*>(terms);
    count = blocks;
  }
}

}  // namespace mxcheck_kernels::sm90
