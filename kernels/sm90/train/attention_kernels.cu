#include "kernels/sm90/train/train_kernels.h"

#include <cmath>

#include "kernels/sm90/train/train_rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// Columns at a time: head widths are multiples of 8, so that all of these are aligned to their size.
constexpr int kPairs = 4;
constexpr int kPermuted = 8;

// Four pairs of columns (j, j + head_width / 2) of a head of a token.
struct Pairs {
  int position, j, half;
  std::int64_t in_tokens;  // column j of q in tokens x 3 width; k and v are `width` further on each
  std::int64_t in_heads;
  std::int64_t width;
};
__device__ __forceinline__ Pairs pairs_at(const AttentionShape& s, std::int64_t index) {
  Pairs p;
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

__device__ __forceinline__ void rotate(const Pairs& p, const FourFloats& c, const FourFloats& s,
                                       const std::uint16_t* from, std::uint16_t* to) {
  const FourBf16 a = four_bf16(from);
  const FourBf16 b = four_bf16(from + p.half);
  FourBf16 first, second;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    first.v[i] = to_bf16(sub(mul(widen(a.v[i]), c.v[i]), mul(widen(b.v[i]), s.v[i])));
    second.v[i] = to_bf16(add(mul(widen(b.v[i]), c.v[i]), mul(widen(a.v[i]), s.v[i])));
  }
  store(to + p.in_heads, first);
  store(to + p.in_heads + p.half, second);
}

__device__ __forceinline__ void rotate_back(const Pairs& p, const FourFloats& c, const FourFloats& s, const float* from,
                                            std::uint16_t* to) {
  const FourFloats a = four_floats(from + p.in_heads);
  const FourFloats b = four_floats(from + p.in_heads + p.half);
  FourBf16 first, second;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    first.v[i] = to_bf16(add(mul(a.v[i], c.v[i]), mul(b.v[i], s.v[i])));
    second.v[i] = to_bf16(sub(mul(b.v[i], c.v[i]), mul(a.v[i], s.v[i])));
  }
  store(to, first);
  store(to + p.half, second);
}

__global__ void split_qkv(const AttentionShape s, const Rotation r, const std::uint16_t* qkv, const QkvHeads out) {
  const std::int64_t index = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPairs;
  if (index * 2 >= s.elements()) return;
  const Pairs p = pairs_at(s, index);
  const FourFloats cosine = four_floats(r.cosine + p.position * p.half + p.j);
  const FourFloats sine = four_floats(r.sine + p.position * p.half + p.j);
  const std::uint16_t* const from = qkv + p.in_tokens;
  rotate(p, cosine, sine, from, out.q);
  rotate(p, cosine, sine, from + p.width, out.k);
  store(out.v + p.in_heads, four_bf16(from + 2 * p.width));
  store(out.v + p.in_heads + p.half, four_bf16(from + 2 * p.width + p.half));
}

__global__ void merge_qkv(const AttentionShape s, const Rotation r, const float* dq, const float* dk,
                          const std::uint16_t* dv, std::uint16_t* dqkv) {
  const std::int64_t index = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPairs;
  if (index * 2 >= s.elements()) return;
  const Pairs p = pairs_at(s, index);
  const FourFloats cosine = four_floats(r.cosine + p.position * p.half + p.j);
  const FourFloats sine = four_floats(r.sine + p.position * p.half + p.j);
  std::uint16_t* const to = dqkv + p.in_tokens;
  rotate_back(p, cosine, sine, dq, to);
  rotate_back(p, cosine, sine, dk, to + p.width);
  store(to + 2 * p.width, four_bf16(dv + p.in_heads));
  store(to + 2 * p.width + p.half, four_bf16(dv + p.in_heads + p.half));
}

// Both directions of the same permutation.
template <bool kMerge>
__global__ void permute_heads(const AttentionShape s, const std::uint16_t* from, std::uint16_t* to) {
  const std::int64_t index = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPermuted;
  if (index >= s.elements()) return;
  const std::int64_t row = index / s.head_width;
  const std::int64_t group = row / s.length;
  const std::int64_t token = group / s.heads * s.length + row % s.length;
  const std::int64_t in_tokens = (token * s.heads + group % s.heads) * s.head_width + index % s.head_width;
  *reinterpret_cast<uint4*>(to + (kMerge ? in_tokens : index)) =
      *reinterpret_cast<const uint4*>(from + (kMerge ? index : in_tokens));
}

// A warp's row of scores, of which the columns up to its own position count.
struct ScoreRow {
  std::int64_t first;  // of its elements
  int columns;         // that count
  int lane;
};
__device__ __forceinline__ bool score_row(const AttentionShape& s, ScoreRow& row) {
  const std::int64_t index = std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  if (index >= s.groups() * s.length) return false;
  row = {index * s.length, static_cast<int>(index % s.length) + 1, static_cast<int>(threadIdx.x % 32)};
  return true;
}

// value(column) for the columns that count, 0 for the others, as BF16.
template <int kChunks, class Value>
__device__ __forceinline__ void store_row(const AttentionShape& s, const ScoreRow& row, std::uint16_t* out,
                                          const Value& value) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = kChunk * c + 4 * row.lane;
    if (column >= s.length) continue;
    FourBf16 four{};
    if (kChunk * c < row.columns) {
#pragma unroll
      for (int i = 0; i < 4; ++i) four.v[i] = column + i < row.columns ? to_bf16(value(c, i)) : std::uint16_t{0};
    }
    store(out + row.first + column, four);
  }
}

// A NaN among the numbers makes all of the row NaN: the sum is, whatever the largest.
template <int kChunks>
__global__ void causal_softmax(const AttentionShape s, const float* z, std::uint16_t* p) {
  ScoreRow row;
  if (!score_row(s, row)) return;
  float v[kChunks][4];
  float largest = -INFINITY;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = kChunk * c + 4 * row.lane;
    if (column >= row.columns) continue;
    const FourFloats four = four_floats(z + row.first + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[c][i] = mul(four.v[i], s.scale);
      if (column + i < row.columns) largest = fmaxf(largest, v[c][i]);
    }
  }
  largest = largest_of_lanes(largest);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (kChunk * c < row.columns) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[c][i] = kChunk * c + 4 * row.lane + i < row.columns ? exp_or_nan(sub(v[c][i], largest)) : 0.0F;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[c][i] = 0.0F;
    }
  }
  const float sum = row_sum<kChunks>(row.columns, [&](int c, int i) { return v[c][i]; });
  store_row<kChunks>(s, row, p, [&](int c, int i) { return div(v[c][i], sum); });
}

template <int kChunks>
__global__ void score_gradient(const AttentionShape s, const std::uint16_t* p, const float* dp, std::uint16_t* dz) {
  ScoreRow row;
  if (!score_row(s, row)) return;
  float probability[kChunks][4];
  float gradient[kChunks][4];
  float product[kChunks][4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = kChunk * c + 4 * row.lane;
    FourBf16 of_p{};
    FourFloats of_dp{};
    if (column < row.columns) of_p = four_bf16(p + row.first + column), of_dp = four_floats(dp + row.first + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      probability[c][i] = widen(of_p.v[i]), gradient[c][i] = of_dp.v[i];
      product[c][i] = column + i < row.columns ? mul(of_dp.v[i], probability[c][i]) : 0.0F;
    }
  }
  const float sum = row_sum<kChunks>(row.columns, [&](int c, int i) { return product[c][i]; });
  store_row<kChunks>(s, row, dz,
                     [&](int c, int i) { return mul(mul(probability[c][i], sub(gradient[c][i], sum)), s.scale); });
}

constexpr int kMostChunks = kMostLength / kChunk;
unsigned score_blocks(const AttentionShape& s) { return row_blocks(s.groups() * s.length); }

}  // namespace

cudaError_t launch_split_qkv(const AttentionShape& shape, const Rotation& rotation, const std::uint16_t* qkv,
                             const QkvHeads& out, cudaStream_t stream) {
  split_qkv<<<element_blocks(shape.elements() / 2 / kPairs), kElementThreads, 0, stream>>>(shape, rotation, qkv, out);
  return cudaGetLastError();
}

cudaError_t launch_causal_softmax(const AttentionShape& shape, const float* z, std::uint16_t* p, cudaStream_t stream) {
  return for_chunks_of<kMostChunks>(shape.length, [&](auto chunks) {
    causal_softmax<decltype(chunks)::value><<<score_blocks(shape), kRowThreads, 0, stream>>>(shape, z, p);
  });
}

cudaError_t launch_merge_heads(const AttentionShape& shape, const std::uint16_t* heads, std::uint16_t* tokens,
                               cudaStream_t stream) {
  permute_heads<true>
      <<<element_blocks(shape.elements() / kPermuted), kElementThreads, 0, stream>>>(shape, heads, tokens);
  return cudaGetLastError();
}

cudaError_t launch_split_heads(const AttentionShape& shape, const std::uint16_t* tokens, std::uint16_t* heads,
                               cudaStream_t stream) {
  permute_heads<false>
      <<<element_blocks(shape.elements() / kPermuted), kElementThreads, 0, stream>>>(shape, tokens, heads);
  return cudaGetLastError();
}

cudaError_t launch_score_gradient(const AttentionShape& shape, const std::uint16_t* p, const float* dp,
                                  std::uint16_t* dz, cudaStream_t stream) {
  return for_chunks_of<kMostChunks>(shape.length, [&](auto chunks) {
    score_gradient<decltype(chunks)::value><<<score_blocks(shape), kRowThreads, 0, stream>>>(shape, p, dp, dz);
  });
}

cudaError_t launch_merge_qkv(const AttentionShape& shape, const Rotation& rotation, const float* dq, const float* dk,
                             const std::uint16_t* dv, std::uint16_t* dqkv, cudaStream_t stream) {
  merge_qkv<<<element_blocks(shape.elements() / 2 / kPairs), kElementThreads, 0, stream>>>(shape, rotation, dq, dk, dv,
                                                                                           dqkv);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
