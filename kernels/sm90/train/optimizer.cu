#include "kernels/sm90/train/train_kernels.h"

#include <cmath>

#include "kernels/sm90/train/train_math.cuh"
#include "kernels/sm90/train/train_rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- The block of a tensor that a block of threads has ----

constexpr int kBlockThreads = 256;

struct TensorBlock {
  int tensor = 0;
  std::int64_t offset = 0;  // of the tensor
  std::int64_t size = 0;    // of the tensor
  std::int64_t block = 0;   // of the tensor
  bool decays = false;
};

__device__ __forceinline__ TensorBlock tensor_block(const TensorTable& table, std::int64_t index) {
  int low = 0;
  int high = table.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.entries[middle].first_block <= index ? low : high) = middle;
  }
  const TensorEntry entry = table.entries[low];
  return {low, entry.offset, entry.size, index - entry.first_block, entry.decays};
}

// Four elements a thread, each with its number in the tensor: neighbouring threads have neighbours.
template <class Body>
__device__ __forceinline__ void each_of_block(const TensorBlock& at, const Body& body) {
  const std::int64_t first = at.block * kBlockElements + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kBlockElements / kBlockThreads; ++i) {
    const std::int64_t element = first + i * kBlockThreads;
    if (element < at.size) body(element);
  }
}

// ---- Roundings, digests, sums ----

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

// ---- The update ----

__global__ void step_end(const __grid_constant__ StepEndJob job) {
  const float nan = __uint_as_float(0x7FC00000);
  StepResult r;
  const bool overflow = job.overflow->found != 0;
  r.layers = overflow ? job.overflow->layer : job.layers;
  r.loss = overflow ? nan : div(*job.loss_sum, job.tokens);
  for (int l = 0; l < job.layers; ++l) r.balance_loss = add(r.balance_loss, job.balance[l]);
  if (overflow) r.balance_loss = nan;
  if (job.squares != nullptr) {
    float total = 0;
    for (int i = 0; i < job.sums.count; ++i) total = add(total, job.squares[job.sums.entries[i].offset]);
    r.norm = overflow ? nan : __fsqrt_rn(total);
    r.updated = fabsf(r.norm) < INFINITY ? 1 : 0;
    r.clips = r.norm > job.limit ? 1 : 0;
    r.clip = div(job.limit, r.norm);
  }
  *job.result = r;
}

__global__ void __launch_bounds__(kBlockThreads) adamw_block(const __grid_constant__ AdamWJob job) {
  if (job.result->updated == 0) return;
  const TensorBlock at = tensor_block(job.table, blockIdx.x);
  const StepInput in = *job.input;
  const bool clips = job.result->clips != 0;
  const float clip = job.result->clip;
  const auto stored = [&](float moment) { return job.bf16_moments ? widen(to_bf16(moment)) : moment; };
  each_of_block(at, [&](std::int64_t element) {
    const std::int64_t i = at.offset + element;
    const float g = clips ? mul(job.gradients[i], clip) : job.gradients[i];
    const float m = stored(__fmaf_rn(job.beta1, job.first[i], mul(sub(1.0F, job.beta1), g)));
    const float v = stored(__fmaf_rn(job.beta2, job.second[i], mul(sub(1.0F, job.beta2), mul(g, g))));
    const float w = job.weights[i];
    float step = div(div(m, in.correction1), add(__fsqrt_rn(div(v, in.correction2)), job.epsilon));
    if (at.decays) step = add(step, mul(job.decay, w));
    job.first[i] = m;
    job.second[i] = v;
    job.weights[i] = sub(w, mul(in.rate, step));
  });
}

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

cudaError_t launch_step_end(const StepEndJob& job, cudaStream_t stream) {
  step_end<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_adamw(const AdamWJob& job, cudaStream_t stream) {
  adamw_block<<<static_cast<unsigned>(job.table.blocks), kBlockThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
