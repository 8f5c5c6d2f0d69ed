// SwiGLU's gradient along rows, with dS of the same read.

#include "kernels/sm90/layer/rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLevels = 32;  // of sums of chunks: n is below 2^31

// The pairwise sum of a row, chunk after chunk: sums of whole subtrees wait at their level, as the digits of a binary
// counter. Every lane has the same.
struct PairwiseSum {
  float waiting[kLevels];
  std::int64_t count = 0;

  __device__ __forceinline__ void add(float sum) {
    int level = 0;
    for (; (count >> level & 1) != 0; ++level) sum = __fadd_rn(waiting[level], sum);
    waiting[level] = sum;
    ++count;
  }
  // As if +0 followed up to a power of two of chunks.
  __device__ __forceinline__ float total() const {
    float sum = 0;
    bool any = false;
    for (int level = 0; std::int64_t{1} << level < 2 * count; ++level) {
      const bool left = (count >> level & 1) != 0;
      const bool last = count == std::int64_t{1} << level;
      if (last) return any ? __fadd_rn(waiting[level], sum) : waiting[level];
      if (left) {
        sum = __fadd_rn(waiting[level], sum);  // to its right there is `sum`, or zeros
        any = true;
      } else if (any) {
        sum = __fadd_rn(sum, 0.0F);
      }
      if (any && (count >> (level + 1)) == 0) return sum;
    }
    return sum;
  }
};

// Of a warp's 256 neighbouring columns, of `n` in all: a tree of neighbours, no higher than that of n columns.
__device__ __forceinline__ float chunk_sum(const float (&x)[kEach], std::int64_t n) {
  float level[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) level[i] = x[i];
#pragma unroll
  for (int width = 1; width < kEach; width *= 2) {
    if (width >= n) continue;
#pragma unroll
    for (int i = 0; i < kEach; i += 2 * width) level[i] = __fadd_rn(level[i], level[i + width]);
  }
  float sum = level[0];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    if (step * kEach < n) sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, step));
  }
  return __shfl_sync(kAllLanes, sum, 0);
}

// dg and du of a lane's columns, in BF16, to wherever they go.
template <bool kVector>
__device__ __forceinline__ void store_dh(const RowsJob& job, std::int64_t row, std::int64_t j, float (&dg)[kEach],
                                         float (&du)[kEach], int lane) {
  const std::int64_t count = job.n - j;
  const std::int64_t width = 2 * job.n;
  if (!job.h.interleaved) {
    const uint4 g = round_to_bf16(dg);
    const uint4 u = round_to_bf16(du);
    if (job.dh != nullptr && count > 0) {
      store_eight<kVector>(job.dh + row * width + j, g, count);
      store_eight<kVector>(job.dh + row * width + job.n + j, u, count);
    }
    if (job.row.codes == nullptr) return;
    encode_eight<kVector>(job.row, dg, row, j, width, count, lane);
    encode_eight<kVector>(job.row, du, row, job.n + j, width, count, lane);
    return;
  }
  float first[kEach];
  float second[kEach];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[2 * i] = dg[i], first[2 * i + 1] = du[i];
    second[2 * i] = dg[i + 4], second[2 * i + 1] = du[i + 4];
  }
  const uint4 words[2] = {round_to_bf16(first), round_to_bf16(second)};
  if (job.dh != nullptr && count > 0) {
    store_eight<kVector>(job.dh + row * width + 2 * j, words[0], 2 * count);
    if (2 * count > kEach) store_eight<kVector>(job.dh + row * width + 2 * j + kEach, words[1], 2 * count - kEach);
  }
  if (job.row.codes == nullptr) return;
  // A lane has 16 neighbours here, so a block half as many lanes.
  const DeviceCoding& c = job.row.coding;
  const int lanes = c.block / (2 * kEach);
  const BlockScale scale = block_scale(c, largest_of(max(amax_of(first), amax_of(second)), lanes));
  if (count <= 0) return;
  if (lane % lanes == 0) {
    store_scale(c, job.row.scales, row * ((width + c.block - 1) / c.block) + 2 * j / c.block, scale.stored);
  }
  std::uint8_t* const to = job.row.codes + row * width + 2 * j;
  store_eight<kVector>(to,
                       {codes_of(c, first[0], first[1], first[2], first[3], scale.by),
                        codes_of(c, first[4], first[5], first[6], first[7], scale.by)},
                       2 * count);
  if (2 * count <= kEach) return;
  store_eight<kVector>(to + kEach,
                       {codes_of(c, second[0], second[1], second[2], second[3], scale.by),
                        codes_of(c, second[4], second[5], second[6], second[7], scale.by)},
                       2 * count - kEach);
}

// A warp has a row: dS is its sum.
template <bool kVector>
__global__ void __launch_bounds__(kRowThreads) backward_rows(const __grid_constant__ RowsJob job) {
  __shared__ alignas(16) float sigmoids[kSigmoidEntries];
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  load_sigmoids(sigmoids);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t chunks = (job.n + kChunk - 1) / kChunk;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; row < job.rows; row += step) {
    const float weight = __ldg(job.weights + row);
    PairwiseSum ds;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t j = chunk * kChunk + lane * kEach;
      GateUps v;
      load_gate_ups<kVector>(job.h, row, j, job.n, v);
      float p[kEach];
      load_p<kVector>(job, row, j, p);
      float a[kEach];
      float dg[kEach];
      float du[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float q = sigmoid_of(sigmoids, v.g[i]);
        a[i] = swiglu(v.g[i], v.u[i], q);
        const Gradient d = swiglu_gradient(v.g[i], v.u[i], q, __fmul_rn(weight, p[i]));
        dg[i] = d.dg, du[i] = d.du;
      }
      round_to_bf16(a);
      // Columns past n are +0, whatever the weight makes of them.
      float products[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const bool inside = j + i < job.n;
        products[i] = inside ? __fmul_rn(p[i], a[i]) : 0.0F;
        a[i] = __fmul_rn(weight, a[i]);
        dg[i] = inside ? dg[i] : 0.0F;
        du[i] = inside ? du[i] : 0.0F;
      }
      ds.add(chunk_sum(products, job.n));
      if (job.a != nullptr && j < job.n) store_eight<kVector>(job.a + row * job.n + j, round_to_bf16(a), job.n - j);
      store_dh<kVector>(job, row, j, dg, du, lane);
    }
    if (lane == 0) job.ds[row] = chunks == 0 ? 0.0F : ds.total();
  }
}

}  // namespace

bool has_row_blocks(const HInput& h, std::int64_t n, int block) { return h.interleaved || n % block == 0; }

cudaError_t launch_backward_rows(const RowsJob& job, bool vector, cudaStream_t stream) {
  if (job.rows == 0) return cudaSuccess;
  if (vector) {
    backward_rows<true><<<row_grid(job.rows), kRowThreads, 0, stream>>>(job);
  } else {
    backward_rows<false><<<row_grid(job.rows), kRowThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
