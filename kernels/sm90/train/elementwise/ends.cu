#include "kernels/sm90/train/elementwise/ends.h"

#include <cmath>

#include "kernels/sm90/train/elementwise/logarithm.cuh"
#include "kernels/sm90/train/elementwise/numbers.cuh"
#include "kernels/sm90/train/elementwise/rows.h"

namespace mxcheck_kernels::sm90 {
namespace {

__global__ void embed(const TokenBytes tokens, const std::uint16_t* embedding, int width, float* x) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= tokens.tokens() * width) return;
  x[i] = widen(embedding[std::int64_t{tokens.token(i / width)} * width + i % width]);
}

// A block lists its row's tokens, as many at a time as it has threads, in their order: a thread's place is the number
// of hits in the warps and the lanes before it. Then each thread adds its columns of them.
constexpr int kListed = 256;
constexpr int kListWarps = kListed / 32;

__device__ __forceinline__ int list_tokens(const TokenBytes& tokens, std::int64_t from, int row,
                                           std::int64_t (&list)[kListed], int (&hits)[kListWarps]) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t t = from + threadIdx.x;
  const bool hit = t < tokens.tokens() && tokens.token(t) == row;
  const unsigned of_warp = __ballot_sync(kAllLanes, hit);
  if (lane == 0) hits[warp] = __popc(of_warp);
  __syncthreads();
  int place = __popc(of_warp & ((1U << lane) - 1));
  int count = 0;
  for (int w = 0; w < kListWarps; ++w) {
    if (w == warp) place += count;
    count += hits[w];
  }
  if (hit) list[place] = t;
  __syncthreads();
  return count;
}

__global__ void __launch_bounds__(kListed)
    embed_backward(const TokenBytes tokens, const float* dx, int width, float* d_embedding) {
  __shared__ std::int64_t list[kListed];
  __shared__ int hits[kListWarps];
  const auto row = static_cast<int>(blockIdx.x);
  float* const out = d_embedding + std::int64_t{row} * width;
  const int column = static_cast<int>(blockIdx.y) * kListed + static_cast<int>(threadIdx.x);
  float sum = 0;
  for (std::int64_t from = 0; from < tokens.tokens(); from += kListed) {
    const int count = list_tokens(tokens, from, row, list, hits);
    if (column < width) {
      for (int i = 0; i < count; ++i) sum = add(sum, dx[list[i] * width + column]);
    }
    __syncthreads();
  }
  if (column < width) out[column] = sum;
}

constexpr int kLogitsOfLane = kVocabulary / 32;

// A warp a token, lane l having logits l, l + 32, ... A NaN or a +Inf among them makes all of it NaN.
__global__ void token_loss(const TokenBytes tokens, const float* logits, float share, float* losses,
                           std::uint16_t* d_logits) {
  extern __shared__ float shared[];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t t = std::int64_t{blockIdx.x} * (blockDim.x / 32) + warp;
  if (t >= tokens.tokens()) return;
  float* const v = shared + warp * kVocabulary;
  const float* const z = logits + t * kVocabulary;
  float e[kLogitsOfLane];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kLogitsOfLane; ++i) {
    e[i] = z[i * 32 + lane];
    largest = fmaxf(largest, e[i]);
  }
  largest = largest_of_lanes(largest);
#pragma unroll
  for (int i = 0; i < kLogitsOfLane; ++i) {
    e[i] = exp_or_nan(sub(e[i], largest));
    v[i * 32 + lane] = e[i];
  }
  const float total = pairwise_sum_of(v, kVocabulary, lane);
  const int target = tokens.target(t);
  if (lane == 0) losses[t] = sub(add(log_rn(total), largest), z[target]);
  if (d_logits == nullptr) return;
#pragma unroll
  for (int i = 0; i < kLogitsOfLane; ++i) {
    const int column = i * 32 + lane;
    const float p = sub(div(e[i], total), column == target ? 1.0F : 0.0F);
    d_logits[t * kVocabulary + column] = to_bf16(mul(p, share));
  }
}

}  // namespace

cudaError_t launch_embed(const TokenBytes& tokens, const std::uint16_t* embedding, int width, float* x,
                         cudaStream_t stream) {
  embed<<<element_blocks(tokens.tokens() * width), kElementThreads, 0, stream>>>(tokens, embedding, width, x);
  return cudaGetLastError();
}

cudaError_t launch_embed_backward(const TokenBytes& tokens, const float* dx, int width, float* d_embedding,
                                  cudaStream_t stream) {
  const dim3 grid(kVocabulary, static_cast<unsigned>((width + kListed - 1) / kListed));
  embed_backward<<<grid, kListed, 0, stream>>>(tokens, dx, width, d_embedding);
  return cudaGetLastError();
}

cudaError_t launch_token_loss(const TokenBytes& tokens, const float* logits, float share, float* losses,
                              std::uint16_t* d_logits, cudaStream_t stream) {
  const RowLaunch at = row_launch(tokens.tokens(), kVocabulary);
  token_loss<<<at.blocks, at.threads, at.shared, stream>>>(tokens, logits, share, losses, d_logits);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
