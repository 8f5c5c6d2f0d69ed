#include "kernels/sm90/train/train_kernels.h"

#include <cmath>

#include "kernels/sm90/train/train_math.cuh"
#include "kernels/sm90/train/train_rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

__global__ void embed(const TokenBytes tokens, const std::uint16_t* embedding, int width, float* x) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= tokens.tokens() * width) return;
  x[i] = widen(embedding[std::int64_t{tokens.token(i / width)} * width + i % width]);
}

// A block lists the tokens of its row among kListed, in their order: four a thread, whose place is the number of hits
// in the warps and the lanes before it.
constexpr int kListThreads = 256;
constexpr int kListWarps = kListThreads / 32;
constexpr int kListedOfThread = 4;
constexpr int kListed = kListThreads * kListedOfThread;

__device__ __forceinline__ int list_tokens(const TokenBytes& tokens, std::int64_t from, int row, int (&list)[kListed],
                                           int (&hits)[kListWarps]) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first = static_cast<int>(threadIdx.x) * kListedOfThread;
  unsigned hit = 0;  // a bit a token
#pragma unroll
  for (int i = 0; i < kListedOfThread; ++i) {
    const std::int64_t t = from + first + i;
    if (t < tokens.tokens() && tokens.token(t) == row) hit |= 1U << i;
  }
  int up_to = __popc(hit);  // those of this lane and of the lanes before
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(kAllLanes, up_to, step);
    if (lane >= step) up_to += before;
  }
  if (lane == 31) hits[warp] = up_to;
  __syncthreads();
  int place = up_to - __popc(hit);
  int count = 0;
  for (int w = 0; w < kListWarps; ++w) {
    if (w == warp) place += count;
    count += hits[w];
  }
#pragma unroll
  for (int i = 0; i < kListedOfThread; ++i) {
    if ((hit >> i & 1U) != 0) list[place++] = first + i;
  }
  __syncthreads();
  return count;
}

// A thread's column of a row's tokens, one after the other. Loads are asked for kAhead at a time: a byte as frequent as
// a space has thousands. The sum is never -0, so that +0 in place of what is not listed leaves it as it is.
__global__ void __launch_bounds__(kListThreads)
    embed_backward(const TokenBytes tokens, const float* dx, int width, float* d_embedding) {
  constexpr int kAhead = 32;
  __shared__ int list[kListed];
  __shared__ int hits[kListWarps];
  const auto row = static_cast<int>(blockIdx.x);
  float* const out = d_embedding + std::int64_t{row} * width;
  const int column = static_cast<int>(blockIdx.y) * kListThreads + static_cast<int>(threadIdx.x);
  float sum = 0;
  for (std::int64_t from = 0; from < tokens.tokens(); from += kListed) {
    const int count = list_tokens(tokens, from, row, list, hits);
    if (column < width) {
      const float* const column_of = dx + from * width + column;
      for (int begin = 0; begin < count; begin += kAhead) {
        float v[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) v[i] = column_of[std::int64_t{list[min(begin + i, count - 1)]} * width];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) sum = add(sum, begin + i < count ? v[i] : 0.0F);
      }
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
  const dim3 grid(kVocabulary, static_cast<unsigned>((width + kListThreads - 1) / kListThreads));
  embed_backward<<<grid, kListThreads, 0, stream>>>(tokens, dx, width, d_embedding);
  return cudaGetLastError();
}

cudaError_t launch_token_loss(const TokenBytes& tokens, const float* logits, float share, float* losses,
                              std::uint16_t* d_logits, cudaStream_t stream) {
  const RowLaunch at = row_launch(tokens.tokens(), kVocabulary);
  token_loss<<<at.blocks, at.threads, at.shared, stream>>>(tokens, logits, share, losses, d_logits);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
