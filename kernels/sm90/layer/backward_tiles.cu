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
constexpr int kLoads = kRowsOfWarp / kRowsAtOnce;

// A' and dH of the tile; dH in halves or, interleaved, its first and last 64 columns.
struct Shared {
  alignas(16) float sigmoids[kSigmoidEntries];
  alignas(16) TileWords a;
  alignas(16) TileWords dh[2];
  ColumnShared columns;
};

// Eight BF16 words of a row from `column` on.
__device__ __forceinline__ void put(TileWords& tile, int row, int column, const uint4& words) {
  *reinterpret_cast<uint4*>(tile + row * kWordPitch + column / 2) = words;
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

// A lane's place: a row, eight of its columns, and how many of those there are.
struct Place {
  std::int64_t row;
  int local;  // row of the tile
  std::int64_t j;
  std::int64_t count;
};

template <bool kVector>
struct Loaded {
  RawH<kVector> h;
  float p[kEach];
  float weight;
};

template <bool kVector>
__device__ __forceinline__ void load(const RowsJob& job, const Place& at, Loaded<kVector>& v) {
  const bool real = at.count > 0;
  const std::int64_t column = real ? at.j : job.n;  // zeros past n
  v.h = load_h<kVector>(job.h, at.row, column, job.n);
  load_p<kVector>(job, at.row, column, v.p);
  v.weight = real ? __ldg(job.weights + at.row) : 0.0F;
}

// To shared memory, codes of rows and the tile's part of dS.
template <bool kVector, class Coder>
__device__ __forceinline__ void work(const BackwardTilesJob& job, const Coder& coder, const Loaded<kVector>& v,
                                     const Place& at, std::int64_t column_tile, Shared& shared, int lane) {
  const RowsJob& r = job.rows;
  const GateUps h = gate_ups(v.h, r.h.interleaved, shared.sigmoids);
  const RowGradient d = differentiate(h, v.p, v.weight, at.count);
  const float sum = row_sum(d.products, r.n);
  if (at.count > 0 && lane % kLanesOfRow == 0) job.sums[column_tile * r.rows + at.row] = sum;
  const int column = lane % kLanesOfRow * kEach;
  put(shared.a, at.local, column, d.a);
  const std::int64_t width = 2 * r.n;
  if (!r.h.interleaved) {
    put(shared.dh[0], at.local, column, d.dg);
    put(shared.dh[1], at.local, column, d.du);
    if (r.row.codes == nullptr) return;
    encode_eight<kVector>(r.row, coder, d.dg, at.row, at.j, width, at.count, lane);
    encode_eight<kVector>(r.row, coder, d.du, at.row, r.n + at.j, width, at.count, lane);
    return;
  }
  uint4 first;
  uint4 second;
  interleave(d.dg, d.du, first, second);
  TileWords& half = shared.dh[column / (kTileCols / 2)];
  put(half, at.local, 2 * column % kTileCols, first);
  put(half, at.local, 2 * column % kTileCols + kEach, second);
  if (r.row.codes == nullptr) return;
  encode_sixteen<kVector>(r.row, coder, first, second, at.row, 2 * at.j, width, 2 * at.count, lane);
}

// CoderA: of A', which may have another element than dH.
template <bool kVector, class Coder, class CoderA>
__global__ void __launch_bounds__(kTileThreads, 2)
    backward_tiles(const __grid_constant__ BackwardTilesJob job, const __grid_constant__ Coder coder,
                   const __grid_constant__ CoderA coder_a, unsigned columns, unsigned blocks) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const RowsJob& r = job.rows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * kRowsOfWarp + lane / kLanesOfRow;
  if (job.tiles.header != nullptr && job.tiles.header->status != MXCHECK_OK) return;
  load_sigmoids(shared.sigmoids);
  for (unsigned block = blockIdx.x; block < blocks; block += gridDim.x) {
    RowTile tile;
    if (!find_tile(job.tiles, block / columns, coder.block, tile)) return;
    const std::int64_t column_tile = block % columns;
    const std::int64_t j = column_tile * kTileCols + lane % kLanesOfRow * kEach;
    const auto place = [&](int i) {
      const int local = first + i * kRowsAtOnce;
      return Place{tile.first + local, local, j, local < tile.rows ? r.n - j : 0};
    };
    Loaded<kVector> v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) load<kVector>(r, place(i), v[i]);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) work<kVector>(job, coder, v[i], place(i), column_tile, shared, lane);
    const std::int64_t col = column_tile * kTileCols;
    write_columns(job.a, coder_a, tile, r.rows, col, r.n, shared.columns, shared.a);
    // In halves: gates, then up values. Interleaved: 64 columns of dH, then the next 64.
    const std::int64_t width = 2 * r.n;
    const std::int64_t low = r.h.interleaved ? 2 * col : col;
    const std::int64_t high = r.h.interleaved ? 2 * col + kTileCols : r.n + col;
    write_columns(job.dh, coder, tile, r.rows, low, r.h.interleaved ? width : r.n, shared.columns, shared.dh[0]);
    write_columns(job.dh, coder, tile, r.rows, high, width, shared.columns, shared.dh[1]);
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

template <bool kVector, class Coder, class CoderA>
cudaError_t start(const BackwardTilesJob& job, const Coder& coder, const CoderA& coder_a, unsigned columns,
                  unsigned blocks, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  static_assert(2 * (kBytes + 1024) <= 228 * 1024);
  auto* const kernel = backward_tiles<kVector, Coder, CoderA>;
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess) {
    return e;
  }
  constexpr unsigned kResident = 132 * 2;
  kernel<<<std::min(blocks, kResident), kTileThreads, kBytes, stream>>>(job, coder, coder_a, columns, blocks);
  return cudaGetLastError();
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
  const auto across = static_cast<unsigned>(columns);
  const auto all = static_cast<unsigned>(blocks);
  const cudaError_t e = with_coder(job.dh.coding, [&](auto coder) {
    return with_element(job.a.coding, coder, [&](auto coder_a) {
      return vector ? start<true>(job, coder, coder_a, across, all, stream)
                    : start<false>(job, coder, coder_a, across, all, stream);
    });
  });
  if (e != cudaSuccess) return e;
  const auto groups = static_cast<unsigned>((job.rows.rows + kTileThreads - 1) / kTileThreads);
  add_sums<<<groups, kTileThreads, 0, stream>>>(job, across);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
