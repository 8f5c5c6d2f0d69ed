// SwiGLU's gradient by tiles: dS, codes of rows and codes along tokens in one read of H and P.
//
// A block of threads has 128 rows of one expert and 64 columns of n. What it computes goes to shared memory in BF16,
// and from there, column by column, to transposed codes; codes of rows are made in registers on the way. dS of a row is
// a tree of neighbours: that of 64 columns is made here, the sums of a row's tiles are added afterwards, as a tree too.

#include "kernels/sm90/layer/columns.cuh"
#include "kernels/sm90/layer/rows.cuh"
#include "kernels/sm90/layer/tiles.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLanesOfRow = kTileCols / kEach;       // 8
constexpr int kRowsAtOnce = 32 / kLanesOfRow;        // of a warp
constexpr int kRowsOfWarp = kTileRows / kTileWarps;  // 16
constexpr int kPitch = kTileCols + kEach;  // BF16 words of a row in shared memory; keeps 16-byte stores aligned

// A' and dH of the tile; dH in halves or, interleaved, its first and last 64 columns. Pitched so that eight lanes of a
// row fill a line of banks.
struct Shared {
  alignas(16) float sigmoids[kSigmoidEntries];
  alignas(16) std::uint16_t a[kTileRows * kPitch];
  alignas(16) std::uint16_t dh[2][kTileRows * kPitch];
  ColumnShared columns;
};

__device__ __forceinline__ void put(std::uint16_t* tile, int row, int column, const uint4& words) {
  *reinterpret_cast<uint4*>(tile + row * kPitch + column) = words;
}

__device__ __forceinline__ uint2 eight_codes(const DeviceCoding& c, const float (&v)[kEach], float by) {
  return {codes_of(c, v[0], v[1], v[2], v[3], by), codes_of(c, v[4], v[5], v[6], v[7], by)};
}

// Codes of a row of dH in halves, `count` of the eight: a block of 32 is four lanes.
template <bool kVector>
__device__ __forceinline__ void encode_half(const RowCodes& out, const float (&v)[kEach], std::int64_t row,
                                            std::int64_t col, std::int64_t width, std::int64_t count, int lane) {
  const DeviceCoding& c = out.coding;
  const BlockScale scale = block_scale(c, largest_of(amax_of(v), 32 / kEach));
  if (count <= 0) return;
  if (lane % (32 / kEach) == 0) store_scale(c, out.scales, row * (width / 32) + col / 32, scale.stored);
  store_eight<kVector>(out.codes + row * width + col, eight_codes(c, v, scale.by), count);
}

// The same interleaved: a lane has 16 neighbours, a block of 32 is two lanes, one of 128 eight.
template <bool kVector>
__device__ __forceinline__ void encode_pairs(const RowCodes& out, const float (&first)[kEach],
                                             const float (&second)[kEach], std::int64_t row, std::int64_t col,
                                             std::int64_t width, std::int64_t count, int lane) {
  const DeviceCoding& c = out.coding;
  const int lanes = c.block / (2 * kEach);
  const BlockScale scale = block_scale(c, largest_of(max(amax_of(first), amax_of(second)), lanes));
  if (count <= 0) return;
  if (lane % lanes == 0) {
    store_scale(c, out.scales, row * ((width + c.block - 1) / c.block) + col / c.block, scale.stored);
  }
  std::uint8_t* const to = out.codes + row * width + col;
  store_eight<kVector>(to, eight_codes(c, first, scale.by), count);
  if (count > kEach) store_eight<kVector>(to + kEach, eight_codes(c, second, scale.by), count - kEach);
}

// The sum of a row's 64 columns, of `n` in all, by its eight lanes.
__device__ __forceinline__ float row_sum(const float (&x)[kEach], std::int64_t n) {
  float level[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) level[i] = x[i];
#pragma unroll
  for (int width = 1; width < kEach; width *= 2) {
#pragma unroll
    for (int i = 0; i < kEach; i += 2 * width) level[i] = __fadd_rn(level[i], level[i + width]);
  }
  float sum = level[0];
#pragma unroll
  for (int step = 1; step < kLanesOfRow; step *= 2) {
    const float beside = __shfl_xor_sync(kAllLanes, sum, step);
    if (step * kEach < n) sum = __fadd_rn(sum, beside);
  }
  return sum;
}

struct Loaded {
  GateUps h;
  float p[kEach];
  float weight;
};

template <bool kVector>
__device__ __forceinline__ void load(const RowsJob& job, std::int64_t row, std::int64_t j, bool real, Loaded& v) {
  const std::int64_t column = real ? j : job.n;  // zeros past n
  load_gate_ups<kVector>(job.h, row, column, job.n, v.h);
  load_p<kVector>(job, row, column, v.p);
  v.weight = real ? __ldg(job.weights + row) : 0.0F;
}

// One row's eight columns of a lane, from what was loaded to shared memory, codes of rows and dS.
template <bool kVector>
__device__ __forceinline__ void differentiate(const BackwardTilesJob& job, const Loaded& v, std::int64_t row, int local,
                                              std::int64_t j, std::int64_t column_tile, bool real, Shared& shared,
                                              int lane) {
  const RowsJob& r = job.rows;
  const std::int64_t count = real ? r.n - j : 0;
  float a[kEach];
  float dg[kEach];
  float du[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float q = sigmoid_of(shared.sigmoids, v.h.g[i]);
    a[i] = swiglu(v.h.g[i], v.h.u[i], q);
    const Gradient d = swiglu_gradient(v.h.g[i], v.h.u[i], q, __fmul_rn(v.weight, v.p[i]));
    dg[i] = i < count ? d.dg : 0.0F, du[i] = i < count ? d.du : 0.0F;
  }
  round_to_bf16(a);
  float products[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    products[i] = i < count ? __fmul_rn(v.p[i], a[i]) : 0.0F;
    a[i] = i < count ? __fmul_rn(v.weight, a[i]) : 0.0F;
  }
  const float sum = row_sum(products, r.n);
  if (real && lane % kLanesOfRow == 0) job.sums[column_tile * r.rows + row] = sum;
  const int column = lane % kLanesOfRow * kEach;
  put(shared.a, local, column, round_to_bf16(a));
  const std::int64_t width = 2 * r.n;
  if (!r.h.interleaved) {
    put(shared.dh[0], local, column, round_to_bf16(dg));
    put(shared.dh[1], local, column, round_to_bf16(du));
    if (r.row.codes == nullptr) return;
    encode_half<kVector>(r.row, dg, row, j, width, count, lane);
    encode_half<kVector>(r.row, du, row, r.n + j, width, count, lane);
    return;
  }
  float first[kEach];
  float second[kEach];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[2 * i] = dg[i], first[2 * i + 1] = du[i];
    second[2 * i] = dg[i + 4], second[2 * i + 1] = du[i + 4];
  }
  std::uint16_t* const half = shared.dh[column / (kTileCols / 2)];
  put(half, local, 2 * column % kTileCols, round_to_bf16(first));
  put(half, local, 2 * column % kTileCols + kEach, round_to_bf16(second));
  if (r.row.codes != nullptr) encode_pairs<kVector>(r.row, first, second, row, 2 * j, width, 2 * count, lane);
}

template <bool kVector>
__global__ void __launch_bounds__(kTileThreads, 2)
    backward_tiles(const __grid_constant__ BackwardTilesJob job, std::int64_t columns) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  RowTile tile;
  const RowsJob& r = job.rows;
  const std::int64_t blocks = job.tiles.tiles * columns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * kRowsOfWarp + lane / kLanesOfRow;
  if (job.tiles.header != nullptr && job.tiles.header->status != MXCHECK_OK) return;
  load_sigmoids(shared.sigmoids);
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    if (!find_tile(job.tiles, block / columns, job.a.coding.block, tile)) return;
    const std::int64_t column_tile = block % columns;
    const std::int64_t j = column_tile * kTileCols + lane % kLanesOfRow * kEach;
    Loaded v[kRowsOfWarp / kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsOfWarp / kRowsAtOnce; ++i) {
      const int local = first + i * kRowsAtOnce;
      load<kVector>(r, tile.first + local, j, local < tile.rows, v[i]);
    }
#pragma unroll
    for (int i = 0; i < kRowsOfWarp / kRowsAtOnce; ++i) {
      const int local = first + i * kRowsAtOnce;
      differentiate<kVector>(job, v[i], tile.first + local, local, j, column_tile, local < tile.rows, shared, lane);
    }
    const std::int64_t col = column_tile * kTileCols;
    const auto of = [](const std::uint16_t* values) {
      return [values](int row, int column) {
        return __uint_as_float(static_cast<std::uint32_t>(values[row * kPitch + column]) << 16);
      };
    };
    write_columns(job.a, tile, r.rows, col, r.n, shared.columns, of(shared.a));
    // In halves: gates, then up values. Interleaved: 64 columns of dH, then the next 64.
    const std::int64_t width = 2 * r.n;
    const std::int64_t low = r.h.interleaved ? 2 * col : col;
    const std::int64_t high = r.h.interleaved ? 2 * col + kTileCols : r.n + col;
    write_columns(job.dh, tile, r.rows, low, r.h.interleaved ? width : r.n, shared.columns, of(shared.dh[0]));
    write_columns(job.dh, tile, r.rows, high, width, shared.columns, of(shared.dh[1]));
    __syncthreads();
  }
}

// dS from the sums of a row's tiles, a tree of neighbours too.
constexpr int kLevels = 9;
constexpr int kMostSums = 1 << kLevels;
__global__ void __launch_bounds__(kTileThreads) add_sums(const __grid_constant__ BackwardTilesJob job, int count) {
  if (job.tiles.header != nullptr && job.tiles.header->status != MXCHECK_OK) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * kTileThreads + threadIdx.x;
  if (row >= job.rows.rows) return;
  float waiting[kLevels + 1];
  float sum = 0;
  int padded = 1;
  while (padded < count) padded *= 2;
  for (int i = 0; i < padded; ++i) {
    sum = i < count ? job.sums[i * job.rows.rows + row] : 0.0F;
    int level = 0;
    for (; (i >> level & 1) != 0; ++level) sum = __fadd_rn(waiting[level], sum);
    waiting[level] = sum;
  }
  job.rows.ds[row] = sum;
}

}  // namespace

bool takes_tiles(const HInput& h, std::int64_t n, int block) {
  const bool whole_blocks = h.interleaved || (block == 32 && n % 32 == 0);
  return whole_blocks && n > kTileCols / 2 && n <= kMostSums * kTileCols;
}

std::uint64_t sums_bytes(std::int64_t rows, std::int64_t n) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>((n + kTileCols - 1) / kTileCols) * sizeof(float);
}

cudaError_t launch_backward_tiles(const BackwardTilesJob& job, bool vector, cudaStream_t stream) {
  const std::int64_t columns = (job.rows.n + kTileCols - 1) / kTileCols;
  const std::int64_t blocks = job.tiles.tiles * columns;
  if (blocks == 0) return cudaSuccess;
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  static_assert(2 * (kBytes + 1024) <= 228 * 1024);
  auto* const kernel = vector ? backward_tiles<true> : backward_tiles<false>;
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess) {
    return e;
  }
  constexpr std::int64_t kResident = 132 * 2;
  const auto grid = static_cast<unsigned>(std::min(blocks, kResident));
  kernel<<<grid, kTileThreads, kBytes, stream>>>(job, columns);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  const auto groups = static_cast<unsigned>((job.rows.rows + kTileThreads - 1) / kTileThreads);
  add_sums<<<groups, kTileThreads, 0, stream>>>(job, static_cast<int>(columns));
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
