#include "kernels/sm90/train/train_kernels.h"

#include <utility>

#include "kernels/sm90/train/train_rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr float kEpsilon = 0x1p-16F;
constexpr int kChunkRows = 32;  // of a thread's subtree in sums over rows
constexpr unsigned kColumnThreads = 64;

static_assert(kMostWidth <= kMostRowFloats);

__device__ __forceinline__ float* floats_of_warp(int floats) {
  extern __shared__ float shared[];
  return shared + static_cast<std::ptrdiff_t>(threadIdx.x / 32) * floats;
}
__device__ __forceinline__ std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
}

template <int kChunks>
__global__ void norm_row(const __grid_constant__ NormJob job) {
  const std::int64_t row = row_of_warp();
  if (row >= job.rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = row * job.width;
  FourFloats x[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = kChunk * c + 4 * lane;
    if (column >= job.width) {
      x[c] = {};
      continue;
    }
    x[c] = four_floats(job.x + first + column);
    if (job.added == nullptr) continue;
    const FourBf16 added = four_bf16(job.added + first + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[c].v[i] = add(x[c].v[i], widen(added.v[i]));
    store(job.sum + first + column, x[c]);
  }
  const float squares = row_sum<kChunks>(job.width, [&](int c, int i) { return mul(x[c].v[i], x[c].v[i]); });
  const float mean = div(squares, static_cast<float>(job.width));
  const float r = div(1.0F, __fsqrt_rn(add(mean, kEpsilon)));
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = kChunk * c + 4 * lane;
    if (column >= job.width) continue;
    const FourFloats gain = four_floats(job.gain + column);
    FourBf16 y;
#pragma unroll
    for (int i = 0; i < 4; ++i) y.v[i] = to_bf16(mul(mul(x[c].v[i], r), gain.v[i]));
    store(job.y + first + column, y);
  }
  if (lane == 0) job.scale[row] = r;
}

__device__ __forceinline__ float dy_at(const NormBackwardJob& job, std::int64_t i) {
  const float dy = job.dy[i];
  return job.dy_added == nullptr ? dy : add(widen(job.dy_added[i]), dy);
}

__global__ void norm_backward_row(const __grid_constant__ NormBackwardJob job, int floats) {
  const std::int64_t row = row_of_warp();
  if (row >= job.rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  float* const products = floats_of_warp(floats);
  const std::int64_t first = row * job.width;
  const float r = job.scale[row];
  for (int i = lane; i < job.width; i += 32)
    products[i] = mul(mul(dy_at(job, first + i), job.gain[i]), mul(job.x[first + i], r));
  const float q = div(pairwise_sum_of(products, job.width, lane), static_cast<float>(job.width));
  for (int i = lane; i < job.width; i += 32) {
    const std::int64_t at = first + i;
    const float t = mul(dy_at(job, at), job.gain[i]);
    float dx = mul(r, sub(t, mul(mul(job.x[at], r), q)));
    if (job.adds) dx = add(job.dx[at], dx);
    job.dx[at] = dx;
    if (job.rounded != nullptr) job.rounded[at] = to_bf16(dx);
  }
}

// The top of a pairwise sum's tree over `count` numbers that are in v; v is +0 from there on.
__device__ __forceinline__ float chunk_sum(float (&v)[kChunkRows], int count) {
  const int width = padded_count(count);
#pragma unroll
  for (int step = 1; step < kChunkRows; step *= 2) {
    if (step < width) {
#pragma unroll
      for (int i = 0; i < kChunkRows; i += 2 * step) v[i] = add(v[i], v[i + step]);
    }
  }
  return v[0];
}

// Column by column, kChunkRows rows to one: value(row, column). A chunk that is not the only one is a whole subtree.
template <class Value>
__device__ __forceinline__ void column_chunk(std::int64_t rows, int width, float* out, const Value& value) {
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (column >= width) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * kChunkRows;
  float v[kChunkRows];
#pragma unroll
  for (int i = 0; i < kChunkRows; ++i) v[i] = first + i < rows ? value(first + i, column) : 0.0F;
  out[std::int64_t{blockIdx.x} * width + column] =
      chunk_sum(v, rows > kChunkRows ? kChunkRows : static_cast<int>(rows));
}

__global__ void dgain_chunk(const __grid_constant__ NormBackwardJob job, float* out) {
  column_chunk(job.rows, job.width, out, [&](std::int64_t row, int column) {
    const std::int64_t at = row * job.width + column;
    return mul(dy_at(job, at), mul(job.x[at], job.scale[row]));
  });
}
__global__ void column_sums_chunk(const float* in, std::int64_t rows, int width, float* out) {
  column_chunk(rows, width, out, [&](std::int64_t row, int column) { return in[row * width + column]; });
}

std::int64_t chunks_of(std::int64_t rows) { return (rows + kChunkRows - 1) / kChunkRows; }

// Chunks first: of the second there are at most 65535.
dim3 column_grid(std::int64_t chunks, int width) {
  return {static_cast<unsigned>(chunks), (static_cast<unsigned>(width) + kColumnThreads - 1) / kColumnThreads};
}

}  // namespace

cudaError_t launch_norm(const NormJob& job, cudaStream_t stream) {
  return for_chunks_of<kMostWidth / kChunk>(job.width, [&](auto chunks) {
    norm_row<decltype(chunks)::value><<<row_blocks(job.rows), kRowThreads, 0, stream>>>(job);
  });
}

// Scratch, in floats, for the first two rounds of partial sums, which take turns.
std::int64_t norm_partials(std::int64_t rows, int width) {
  return (chunks_of(rows) + chunks_of(chunks_of(rows))) * width;
}

cudaError_t launch_norm_backward(const NormBackwardJob& job, cudaStream_t stream) {
  const int floats = padded_count(job.width);
  const RowLaunch at = row_launch(job.rows, floats);
  norm_backward_row<<<at.blocks, at.threads, at.shared, stream>>>(job, floats);
  return cudaGetLastError();
}

cudaError_t launch_norm_gain(const NormBackwardJob& job, cudaStream_t stream) {
  std::int64_t rows = chunks_of(job.rows);
  float* from = job.partials;
  float* to = job.partials + rows * job.width;
  dgain_chunk<<<column_grid(rows, job.width), kColumnThreads, 0, stream>>>(job, rows == 1 ? job.dgain : from);
  while (rows > 1) {
    const std::int64_t chunks = chunks_of(rows);
    column_sums_chunk<<<column_grid(chunks, job.width), kColumnThreads, 0, stream>>>(from, rows, job.width,
                                                                                     chunks == 1 ? job.dgain : to);
    std::swap(from, to);
    rows = chunks;
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
