// SwiGLU's gradient by tiles: dS, codes of rows and codes along tokens in one read of H and P.
//
// A block of threads has 128 rows of one expert and 64 columns of n. What it computes goes to shared memory in BF16,
// and from there, column by column, to transposed codes; codes of rows are made in registers on the way. dS of a row is
// a tree of neighbours: that of 64 columns is made here, the sums of a row's tiles are added afterwards, as a tree too.

#include "kernels/sm90/layer/columns.cuh"
#include "kernels/sm90/layer/rows.cuh"
#include "kernels/sm90/layer/sums.h"
#include "kernels/sm90/layer/tiles.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLanesOfRow = kTileCols / kEach;  // 8
constexpr int kRowsAtOnce = 32 / kLanesOfRow;   // of a warp
constexpr int kThreads = 2 * kTileThreads;      // two crews
constexpr int kWarps = kThreads / 32;
constexpr int kLoads = kTileRows / kWarps / kRowsAtOnce;

// A' and dH of the tile; dH in halves or, interleaved, its first and last 64 columns.
struct Shared {
  alignas(16) float sigmoids[kSigmoidEntries];
  alignas(16) TileWords a;
  alignas(16) TileWords dh[2];
  ColumnShared columns_a;
  ColumnShared columns_dh[2];
};

// Eight BF16 words of a row from `column` on.
__device__ __forceinline__ void put(TileWords& tile, int row, int column, const uint4& words) {
  *reinterpret_cast<uint4*>(tile + word_at(row, column / 2)) = words;
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
                                     const Place& at, float* sums_of_tile, Shared& shared, int lane) {
  const RowsJob& r = job.rows;
  const GateUps h = gate_ups(v.h, r.h.interleaved, shared.sigmoids);
  const RowGradient d = differentiate(h, v.p, v.weight, at.count);
  const float sum = row_sum(d.products, r.n);
  if (at.count > 0 && lane % kLanesOfRow == 0) sums_of_tile[at.row] = sum;
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

// The tile's columns. One crew encodes A', the other the first half of dH; then the first encodes the second half while
// the other stores what there is.
template <class Coder, class CoderA>
__device__ __forceinline__ void write_tile(const BackwardTilesJob& job, const Coder& coder, const CoderA& coder_a,
                                           const RowTile& tile, std::int64_t col, Shared& shared, int lane) {
  const RowsJob& r = job.rows;
  const int thread = static_cast<int>(threadIdx.x);
  const Crew crew{thread % kTileThreads, thread / kTileThreads};
  const std::int64_t width = 2 * r.n;
  const ColumnPlace of_a{r.rows, col, r.n};
  // In halves: gates, then up values. Interleaved: 64 columns of dH, then the next 64.
  const ColumnPlace low{r.rows, r.h.interleaved ? 2 * col : col, r.h.interleaved ? width : r.n};
  const ColumnPlace high{r.rows, r.h.interleaved ? 2 * col + kTileCols : r.n + col, width};
  if (crew.group == 0) {
    encode_columns(job.a, coder_a, tile, of_a, crew, shared.columns_a, shared.a);
  } else {
    encode_columns(job.dh, coder, tile, low, crew, shared.columns_dh[0], shared.dh[0]);
  }
  __syncthreads();
  if (crew.group == 0) {
    encode_columns(job.dh, coder, tile, high, crew, shared.columns_dh[1], shared.dh[1]);
  } else {
    store_columns(job.a, tile, of_a, crew.thread / 32, kTileWarps, lane, shared.columns_a);
    store_columns(job.dh, tile, low, crew.thread / 32, kTileWarps, lane, shared.columns_dh[0]);
  }
  __syncthreads();
  store_columns(job.dh, tile, high, thread / 32, kWarps, lane, shared.columns_dh[1]);
}

// CoderA: of A', which may have another element than dH.
template <bool kVector, class Coder, class CoderA>
__global__ void __launch_bounds__(kThreads, 2)
    backward_tiles(const __grid_constant__ BackwardTilesJob job, const __grid_constant__ Coder coder,
                   const __grid_constant__ CoderA coder_a, unsigned columns, unsigned blocks) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const RowsJob& r = job.rows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * (kLoads * kRowsAtOnce) + lane / kLanesOfRow;
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
    float* const sums = columns == 1 ? r.ds : r.sums + column_tile * r.rows;
    Loaded<kVector> v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) load<kVector>(r, place(i), v[i]);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) work<kVector>(job, coder, v[i], place(i), sums, shared, lane);
    __syncthreads();
    write_tile(job, coder, coder_a, tile, column_tile * kTileCols, shared, lane);
  }
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
  kernel<<<std::min(blocks, kResident), kThreads, kBytes, stream>>>(job, coder, coder_a, columns, blocks);
  return cudaGetLastError();
}

}  // namespace

bool takes_tiles(const HInput& h, std::int64_t n, int block) {
  const bool whole_blocks = h.interleaved || (block == 32 && n % 32 == 0);
  return whole_blocks && n > kTileCols / 2;
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
  if (e != cudaSuccess || columns == 1) return e;
  return add_sums({job.rows.sums, columns, job.rows.rows, job.rows.ds, job.tiles.header}, stream);
}

}  // namespace mxcheck_kernels::sm90
