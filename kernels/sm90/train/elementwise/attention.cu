#include "kernels/sm90/train/elementwise/attention.h"

#include <cmath>

#include "kernels/sm90/train/elementwise/numbers.cuh"
#include "kernels/sm90/train/elementwise/rows.h"

namespace mxcheck_kernels::sm90 {
namespace {

static_assert(2 * kMostLength <= kMostRowFloats);

// One pair of columns (j, j + head_width / 2) of a head of a token.
struct Pair {
  int position, j, half;
  std::int64_t in_tokens;  // column j of q in tokens x 3 width; k and v are `width` further on each
  std::int64_t in_heads;
  std::int64_t width;
};
__device__ __forceinline__ Pair pair_at(const AttentionShape& s, std::int64_t index) {
  Pair p;
  p.half = s.head_width / 2;
  p.j = static_cast<int>(index % p.half);
  const std::int64_t row = index / p.half;  // of heads
  p.position = static_cast<int>(row % s.length);
  const std::int64_t group = row / s.length;
  const std::int64_t token = group / s.heads * s.length + p.position;
  p.width = std::int64_t{s.heads} * s.head_width;
  p.in_tokens = token * 3 * p.width + group % s.heads * s.head_width + p.j;
  p.in_heads = row * s.head_width + p.j;
  return p;
}

__device__ __forceinline__ void rotate(const Pair& p, float c, float s, const std::uint16_t* from, std::uint16_t* to) {
  const float a = widen(from[0]);
  const float b = widen(from[p.half]);
  to[p.in_heads] = to_bf16(sub(mul(a, c), mul(b, s)));
  to[p.in_heads + p.half] = to_bf16(add(mul(b, c), mul(a, s)));
}

__device__ __forceinline__ void rotate_back(const Pair& p, float c, float s, const float* from, std::uint16_t* to) {
  const float a = from[p.in_heads];
  const float b = from[p.in_heads + p.half];
  to[0] = to_bf16(add(mul(a, c), mul(b, s)));
  to[p.half] = to_bf16(sub(mul(b, c), mul(a, s)));
}

__global__ void split_qkv(const AttentionShape s, const Rotation r, const std::uint16_t* qkv, const QkvHeads out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index * 2 >= s.elements()) return;
  const Pair p = pair_at(s, index);
  const float cosine = r.cosine[p.position * p.half + p.j];
  const float sine = r.sine[p.position * p.half + p.j];
  const std::uint16_t* const from = qkv + p.in_tokens;
  rotate(p, cosine, sine, from, out.q);
  rotate(p, cosine, sine, from + p.width, out.k);
  out.v[p.in_heads] = from[2 * p.width];
  out.v[p.in_heads + p.half] = from[2 * p.width + p.half];
}

__global__ void merge_qkv(const AttentionShape s, const Rotation r, const float* dq, const float* dk,
                          const std::uint16_t* dv, std::uint16_t* dqkv) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index * 2 >= s.elements()) return;
  const Pair p = pair_at(s, index);
  const float cosine = r.cosine[p.position * p.half + p.j];
  const float sine = r.sine[p.position * p.half + p.j];
  std::uint16_t* const to = dqkv + p.in_tokens;
  rotate_back(p, cosine, sine, dq, to);
  rotate_back(p, cosine, sine, dk, to + p.width);
  to[2 * p.width] = dv[p.in_heads];
  to[2 * p.width + p.half] = dv[p.in_heads + p.half];
}

// Both directions of the same permutation.
template <bool kMerge>
__global__ void permute_heads(const AttentionShape s, const std::uint16_t* from, std::uint16_t* to) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= s.elements()) return;
  const std::int64_t row = index / s.head_width;
  const std::int64_t group = row / s.length;
  const std::int64_t token = group / s.heads * s.length + row % s.length;
  const std::int64_t in_tokens = (token * s.heads + group % s.heads) * s.head_width + index % s.head_width;
  to[kMerge ? in_tokens : index] = from[kMerge ? index : in_tokens];
}

struct ScoreRow {
  std::int64_t first;  // of its elements
  int columns;         // that count: those up to the row's own position
  int lane;
  float* shared;
};
__device__ __forceinline__ bool score_row(const AttentionShape& s, int floats, ScoreRow& row) {
  extern __shared__ float shared[];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t index = std::int64_t{blockIdx.x} * (blockDim.x / 32) + warp;
  if (index >= s.groups() * s.length) return false;
  row = {index * s.length, static_cast<int>(index % s.length) + 1, static_cast<int>(threadIdx.x % 32),
         shared + static_cast<std::ptrdiff_t>(warp) * floats};
  return true;
}

// A NaN among the numbers makes all of the row NaN: the sum is, whatever the largest.
__global__ void causal_softmax(const AttentionShape s, int floats, float* z, std::uint16_t* p) {
  ScoreRow row;
  if (!score_row(s, floats, row)) return;
  float* const v = z + row.first;
  float largest = -INFINITY;
  for (int j = row.lane; j < row.columns; j += 32) {
    const float x = mul(v[j], s.scale);
    v[j] = x;
    largest = fmaxf(largest, x);
  }
  largest = largest_of_lanes(largest);
  for (int j = row.lane; j < row.columns; j += 32) {
    const float e = exp_or_nan(sub(v[j], largest));
    v[j] = e;
    row.shared[j] = e;
  }
  const float sum = pairwise_sum_of(row.shared, row.columns, row.lane);
  for (int j = row.lane; j < s.length; j += 32) p[row.first + j] = j < row.columns ? to_bf16(div(v[j], sum)) : 0;
}

__global__ void score_gradient(const AttentionShape s, int floats, const std::uint16_t* p, const float* dp,
                               std::uint16_t* dz) {
  ScoreRow row;
  if (!score_row(s, floats, row)) return;
  for (int j = row.lane; j < row.columns; j += 32) row.shared[j] = mul(dp[row.first + j], widen(p[row.first + j]));
  const float sum = pairwise_sum_of(row.shared, row.columns, row.lane);
  for (int j = row.lane; j < s.length; j += 32) {
    const std::int64_t at = row.first + j;
    dz[at] = j < row.columns ? to_bf16(mul(mul(widen(p[at]), sub(dp[at], sum)), s.scale)) : 0;
  }
}

}  // namespace

cudaError_t launch_split_qkv(const AttentionShape& shape, const Rotation& rotation, const std::uint16_t* qkv,
                             const QkvHeads& out, cudaStream_t stream) {
  split_qkv<<<element_blocks(shape.elements() / 2), kElementThreads, 0, stream>>>(shape, rotation, qkv, out);
  return cudaGetLastError();
}

cudaError_t launch_causal_softmax(const AttentionShape& shape, float* z, std::uint16_t* p, cudaStream_t stream) {
  const int floats = padded_count(shape.length);
  const RowLaunch at = row_launch(shape.groups() * shape.length, floats);
  causal_softmax<<<at.blocks, at.threads, at.shared, stream>>>(shape, floats, z, p);
  return cudaGetLastError();
}

cudaError_t launch_merge_heads(const AttentionShape& shape, const std::uint16_t* heads, std::uint16_t* tokens,
                               cudaStream_t stream) {
  permute_heads<true><<<element_blocks(shape.elements()), kElementThreads, 0, stream>>>(shape, heads, tokens);
  return cudaGetLastError();
}

cudaError_t launch_split_heads(const AttentionShape& shape, const std::uint16_t* tokens, std::uint16_t* heads,
                               cudaStream_t stream) {
  permute_heads<false><<<element_blocks(shape.elements()), kElementThreads, 0, stream>>>(shape, tokens, heads);
  return cudaGetLastError();
}

cudaError_t launch_score_gradient(const AttentionShape& shape, const std::uint16_t* p, const float* dp,
                                  std::uint16_t* dz, cudaStream_t stream) {
  const int floats = padded_count(shape.length);
  const RowLaunch at = row_launch(shape.groups() * shape.length, floats);
  score_gradient<<<at.blocks, at.threads, at.shared, stream>>>(shape, floats, p, dp, dz);
  return cudaGetLastError();
}

cudaError_t launch_merge_qkv(const AttentionShape& shape, const Rotation& rotation, const float* dq, const float* dk,
                             const std::uint16_t* dv, std::uint16_t* dqkv, cudaStream_t stream) {
  merge_qkv<<<element_blocks(shape.elements() / 2), kElementThreads, 0, stream>>>(shape, rotation, dq, dk, dv, dqkv);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
