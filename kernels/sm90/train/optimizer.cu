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
    digest_block(const TensorTable table, const float* values, std::int64_t before, unsigned long long* digests) {
  const TensorBlock at = tensor_block(table, blockIdx.x);
  unsigned long long sum = 0;
  each_of_block(at, [&](std::int64_t i) {
    const float x = values[at.offset + i];
    sum += digest_term(static_cast<std::uint64_t>(before + i), x == x ? __float_as_uint(x) : 0x7FFFFFFFU);
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

__device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7FC00000); }

__device__ MicrobatchResult result_of_pass(const StepEndJob& job) {
  MicrobatchResult r;
  r.overflow = job.overflow->found != 0 ? 1 : 0;
  r.layers = r.overflow != 0 ? job.overflow->layer : job.layers;
  r.loss = r.overflow != 0 ? not_a_number() : div(*job.loss_sum, job.tokens);
  for (int l = 0; l < job.layers; ++l) r.balance_loss = add(r.balance_loss, job.balance[l]);
  if (r.overflow != 0) r.balance_loss = not_a_number();
  return r;
}

// The mean over the tree; a NaN of several may have any bits, and becomes one.
__device__ MicrobatchResult mean_of_parts(MicrobatchResult* parts, int count) {
  for (int left = count; left > 1; left /= 2) {
    for (int i = 0; i < left / 2; ++i) {
      const MicrobatchResult a = parts[2 * i];
      const MicrobatchResult b = parts[2 * i + 1];
      parts[i] = {add(a.loss, b.loss), add(a.balance_loss, b.balance_loss), a.overflow | b.overflow,
                  min(a.layers, b.layers)};
    }
  }
  MicrobatchResult r = parts[0];
  const float share = div(1.0F, static_cast<float>(count));
  r.loss = r.loss == r.loss ? mul(r.loss, share) : not_a_number();
  r.balance_loss = r.balance_loss == r.balance_loss ? mul(r.balance_loss, share) : not_a_number();
  return r;
}

__global__ void microbatch_end(const __grid_constant__ StepEndJob job, MicrobatchResult* result) {
  *result = result_of_pass(job);
}

__global__ void step_end(const __grid_constant__ StepEndJob job) {
  const MicrobatchResult losses = job.parts == nullptr ? result_of_pass(job) : mean_of_parts(job.parts, job.count);
  const bool overflow = losses.overflow != 0;
  StepResult r;
  r.layers = losses.layers, r.loss = losses.loss, r.balance_loss = losses.balance_loss;
  if (job.squares != nullptr) {
    float total = 0;
    for (int i = 0; i < job.sums.count; ++i) total = add(total, job.squares[job.sums.entries[i].offset]);
    r.norm = overflow ? not_a_number() : __fsqrt_rn(total);
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

// ---- Microbatches ----

__device__ __forceinline__ FourFloats sum_of(const FourFloats& a, const FourFloats& b) {
  return {{add(a.v[0], b.v[0]), add(a.v[1], b.v[1]), add(a.v[2], b.v[2]), add(a.v[3], b.v[3])}};
}
__device__ __forceinline__ FourFloats scaled(const FourFloats& a, float b) {
  return {{mul(a.v[0], b), mul(a.v[1], b), mul(a.v[2], b), mul(a.v[3], b)}};
}

__global__ void __launch_bounds__(kBlockThreads) tree_path(const __grid_constant__ TreePathJob job) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (i >= job.elements / 4) return;
  FourFloats sum = four_floats(job.leaf + 4 * i);
  for (int level = 0; level < job.count; ++level) sum = sum_of(sum, four_floats(job.pending[level] + 4 * i));
  store(job.out + 4 * i, job.scale == 1 ? sum : scaled(sum, job.scale));
}

template <int kRanks>
__global__ void __launch_bounds__(kBlockThreads) tree_of_slices(const __grid_constant__ TreeOfSlicesJob job) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (i >= job.elements / 4) return;
  FourFloats v[kRanks];
#pragma unroll
  for (int r = 0; r < kRanks; ++r) v[r] = four_floats(job.slices + r * job.elements + 4 * i);
#pragma unroll
  for (int left = kRanks / 2; left > 0; left /= 2) {
#pragma unroll
    for (int r = 0; r < left; ++r) v[r] = sum_of(v[2 * r], v[2 * r + 1]);
  }
  store(job.out + 4 * i, scaled(v[0], job.scale));
}

unsigned blocks_of_fours(std::int64_t elements) {
  return static_cast<unsigned>((elements / 4 + kBlockThreads - 1) / kBlockThreads);
}

}  // namespace

cudaError_t launch_microbatch_end(const StepEndJob& job, MicrobatchResult* result, cudaStream_t stream) {
  microbatch_end<<<1, 1, 0, stream>>>(job, result);
  return cudaGetLastError();
}

cudaError_t launch_tree_path(const TreePathJob& job, cudaStream_t stream) {
  tree_path<<<blocks_of_fours(job.elements), kBlockThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_tree_of_slices(const TreeOfSlicesJob& job, cudaStream_t stream) {
  const unsigned blocks = blocks_of_fours(job.elements);
  switch (job.ranks) {
    case 2: tree_of_slices<2><<<blocks, kBlockThreads, 0, stream>>>(job); break;
    case 4: tree_of_slices<4><<<blocks, kBlockThreads, 0, stream>>>(job); break;
    case 8: tree_of_slices<8><<<blocks, kBlockThreads, 0, stream>>>(job); break;
    case 16: tree_of_slices<16><<<blocks, kBlockThreads, 0, stream>>>(job); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t launch_round(const TensorTable& table, const float* from, std::uint16_t* to, cudaStream_t stream) {
  round_block<<<static_cast<unsigned>(table.blocks), kBlockThreads, 0, stream>>>(table, from, to);
  return cudaGetLastError();
}

cudaError_t launch_digests(const TensorTable& table, const float* values, unsigned long long* digests,
                           cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(table.count) * sizeof(unsigned long long);
  if (const auto e = cudaMemsetAsync(digests, 0, bytes, stream); e != cudaSuccess) return e;
  return launch_digest_parts(table, values, 0, digests, stream);
}

cudaError_t launch_digest_parts(const TensorTable& table, const float* values, std::int64_t first,
                                unsigned long long* digests, cudaStream_t stream) {
  digest_block<<<static_cast<unsigned>(table.blocks), kBlockThreads, 0, stream>>>(table, values, first, digests);
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
