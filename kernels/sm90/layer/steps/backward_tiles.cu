// SwiGLU's gradient by tiles: dS, codes of rows and codes along tokens in one read of H and P.
//
// A block of threads has 128 rows of one expert and 64 columns of n. What it computes goes to shared memory in BF16,
// and from there, column by column, to transposed codes; codes of rows are made in registers on the way. dS of a row is
// a tree of neighbours: that of 64 columns is made here, the sums of a row's tiles are added afterwards, as a tree too.

#include "kernels/sm90/common/processors.h"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLanesOfRow = kTileCols / kEach;  // 8
constexpr int kRowsAtOnce = 32 / kLanesOfRow;   // of a warp
constexpr int kLoads = kTileRows / kTileWarps / kRowsAtOnce;

// A' and dH of the tile; dH in halves or, interleaved, its first and last 64 columns.
struct Shared {
  alignas(16) float sigmoids[kSigmoidEntries];
  alignas(16) TileWords a;
  alignas(16) TileWords dh[2];
  ColumnShared columns[2];  // the one is stored while the other is written
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

template <Access kAccess>
struct Loaded {
  Raw<kAccess> h;
  float p[kEach];
  float weight;
};

template <Access kAccess>
__device__ __forceinline__ void load(const RowsJob& job, const Place& at, Loaded<kAccess>& v) {
  const bool real = at.count > 0;
  const std::int64_t column = real ? at.j : job.n;  // zeros past n
  v.h = load_h<kAccess>(job.h, at.row, column, job.n);
  load_p<kIsVector<kAccess>>(job, at.row, column, v.p);
  v.weight = real ? __ldg(job.weights + at.row) : 0.0F;
}

// A lane's place in H, and the next one's: rows follow one another at a fixed distance.
template <Access kAccess>
struct Walk {
  const std::uint16_t* h;

  __device__ __forceinline__ Walk(const RowsJob& job, const Place& at)
      : h(static_cast<const std::uint16_t*>(job.h.data) + at.row * job.h.stride +
          (kHasPairs<kAccess> ? 2 * at.j : at.j)) {}
  __device__ __forceinline__ void take(const RowsJob& job, Raw<kAccess>& raw) {
    raw.first = __ldg(reinterpret_cast<const uint4*>(h));
    raw.second = __ldg(reinterpret_cast<const uint4*>(h + (kHasPairs<kAccess> ? kEach : job.n)));
  }
  __device__ __forceinline__ void next(const RowsJob& job) { h += kRowsAtOnce * job.h.stride; }
};
template <bool kPairs>
struct PackedWalk {
  PackedPlace at;

  __device__ __forceinline__ PackedWalk(const RowsJob& job, const Place& place)
      : at(packed_place<kPairs>(job.h, place.row, place.j)) {}
  __device__ __forceinline__ void take(const RowsJob& job, PackedH& raw) { raw = load_packed<kPairs>(at, job.n); }
  __device__ __forceinline__ void next(const RowsJob& job) {
    at.words += kRowsAtOnce * job.h.stride / kEach * 3;
    at.scale += kRowsAtOnce * job.h.stride / 128;
  }
};

// The loads of a whole tile: every place is there.
template <Access kAccess>
__device__ __forceinline__ void load_whole(const RowsJob& job, const Place& at, Loaded<kAccess> (&v)[kLoads]) {
  std::conditional_t<kIsPacked<kAccess>, PackedWalk<kHasPairs<kAccess>>, Walk<kAccess>> h(job, at);
  const float* p = job.p + at.row * job.n + at.j;
  const float* weight = job.weights + at.row;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    h.take(job, v[i].h);
    const float4 low = __ldg(reinterpret_cast<const float4*>(p));
    const float4 high = __ldg(reinterpret_cast<const float4*>(p) + 1);
    v[i].p[0] = low.x, v[i].p[1] = low.y, v[i].p[2] = low.z, v[i].p[3] = low.w;
    v[i].p[4] = high.x, v[i].p[5] = high.y, v[i].p[6] = high.z, v[i].p[7] = high.w;
    v[i].weight = __ldg(weight + i * kRowsAtOnce);
    h.next(job);
    p += kRowsAtOnce * job.n;
  }
}

// To shared memory, codes of rows and the tile's part of dS.
template <Access kAccess, class Coder>
__device__ __forceinline__ void work(const BackwardTilesJob& job, const Coder& coder, const Loaded<kAccess>& v,
                                     const Place& at, float* sums_of_tile, Shared& shared, int lane) {
  const RowsJob& r = job.rows;
  constexpr bool kVector = kIsVector<kAccess>;
  const GateUps h = gate_ups<kAccess>(v.h, shared.sigmoids);
  const RowGradient d = differentiate<kVector>(h, v.p, v.weight, at.count);
  const float sum = row_sum(d.products, r.n);
  if (at.count > 0 && lane % kLanesOfRow == 0) sums_of_tile[at.row] = sum;
  const int column = lane % kLanesOfRow * kEach;
  put(shared.a, at.local, column, d.a);
  const std::int64_t width = 2 * r.n;
  if (!is_interleaved<kAccess>(r.h)) {
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

// The tile's columns: a matrix is stored while the next one is encoded.
template <Access kAccess, class Coder, class CoderA>
__device__ __forceinline__ void write_tile(const BackwardTilesJob& job, const Coder& coder, const CoderA& coder_a,
                                           const RowTile& tile, std::int64_t col, Shared& shared, int lane) {
  const RowsJob& r = job.rows;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const std::int64_t width = 2 * r.n;
  const ColumnPlace of_a{col, r.n};
  // In halves: gates, then up values. Interleaved: 64 columns of dH, then the next 64.
  const bool pairs = is_interleaved<kAccess>(r.h);
  const ColumnPlace low{pairs ? 2 * col : col, pairs ? width : r.n};
  const ColumnPlace high{pairs ? 2 * col + kTileCols : r.n + col, width};
  encode_columns(job.a, coder_a, tile, of_a, thread, shared.columns[0], shared.a);
  __syncthreads();
  store_columns(job.a, tile, of_a, warp, lane, shared.columns[0]);
  encode_columns(job.dh, coder, tile, low, thread, shared.columns[1], shared.dh[0]);
  __syncthreads();
  store_columns(job.dh, tile, low, warp, lane, shared.columns[1]);
  encode_columns(job.dh, coder, tile, high, thread, shared.columns[0], shared.dh[1]);
  __syncthreads();
  store_columns(job.dh, tile, high, warp, lane, shared.columns[0]);
}

// A block's tiles, one after the other; the next one's loads are on their way while columns are written.
struct TileWalk {
  unsigned columns;
  unsigned blocks;
  unsigned block;
  RowTile tile;
  bool any;

  __device__ __forceinline__ void find(const TiledRows& rows, int block_rows) {
    any = block < blocks && find_tile(rows, block / columns, block_rows, tile);
  }
};

__device__ __forceinline__ Place place_of(const RowsJob& r, const TileWalk& at, int i) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int local = (static_cast<int>(threadIdx.x) / 32 * kLoads + i) * kRowsAtOnce + lane / kLanesOfRow;
  const std::int64_t j = std::int64_t{at.block % at.columns} * kTileCols + lane % kLanesOfRow * kEach;
  return {at.tile.first + local, local, j, local < at.tile.rows ? r.n - j : 0};
}

// CoderA: of A', which may have another element than dH.
template <Access kAccess, class Coder, class CoderA>
__global__ void __launch_bounds__(kTileThreads, 2)
    backward_tiles(const __grid_constant__ BackwardTilesJob job, const __grid_constant__ Coder coder,
                   const __grid_constant__ CoderA coder_a, unsigned columns, unsigned blocks) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const RowsJob& r = job.rows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (job.tiles.header != nullptr && job.tiles.header->status != MXCHECK_OK) return;
  TileWalk at{columns, blocks, blockIdx.x, {}, false};
  at.find(job.tiles, coder.block());
  Loaded<kAccess> v[kLoads];
  const auto load_all = [&] {
    if constexpr (kIsVector<kAccess>) {
      const bool whole = at.tile.rows == kTileRows && (at.block % columns + 1) * kTileCols <= r.n;
      if (whole) return load_whole<kAccess>(r, place_of(r, at, 0), v);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) load<kAccess>(r, place_of(r, at, i), v[i]);
  };
  if (at.any) load_all();
  load_sigmoids(shared.sigmoids);
  while (at.any) {
    const std::int64_t column_tile = at.block % columns;
    float* const sums = columns == 1 ? r.ds : r.sums + column_tile * r.rows;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) work<kAccess>(job, coder, v[i], place_of(r, at, i), sums, shared, lane);
    __syncthreads();
    const RowTile tile = at.tile;
    at.block += gridDim.x;
    at.find(job.tiles, coder.block());
    if (at.any) load_all();
    write_tile<kAccess>(job, coder, coder_a, tile, column_tile * kTileCols, shared, lane);
  }
}

template <Access kAccess, class Coder, class CoderA>
cudaError_t start(const BackwardTilesJob& job, const Coder& coder, const CoderA& coder_a, unsigned columns,
                  unsigned blocks, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  static_assert(2 * (kBytes + 1024) <= 228 * 1024);
  auto* const kernel = backward_tiles<kAccess, Coder, CoderA>;
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess) {
    return e;
  }
  int processors = 0;
  if (const cudaError_t e = count_processors(processors); e != cudaSuccess) return e;
  const unsigned resident = 2 * static_cast<unsigned>(processors);
  kernel<<<std::min(blocks, resident), kTileThreads, kBytes, stream>>>(job, coder, coder_a, columns, blocks);
  return cudaGetLastError();
}

}  // namespace

bool takes_tiles(const HInput& h, std::int64_t n, int block) {
  const bool whole_blocks = h.interleaved || (block == 32 && n % 32 == 0);
  return whole_blocks && n > kTileCols / 2;
}

cudaError_t launch_backward_tiles(const BackwardTilesJob& given, bool vector, cudaStream_t stream) {
  BackwardTilesJob job = given;
  job.a = with_stride(job.a, job.rows.rows), job.dh = with_stride(job.dh, job.rows.rows);
  const std::int64_t columns = (job.rows.n + kTileCols - 1) / kTileCols;
  const std::int64_t blocks = job.tiles.tiles * columns;
  if (blocks == 0) return cudaSuccess;
  if (!is_padding_possible(job.a) || !is_padding_possible(job.dh)) return cudaErrorInvalidValue;
  const auto across = static_cast<unsigned>(columns);
  const auto all = static_cast<unsigned>(blocks);
  const auto begin = [&](auto access, auto coder, auto coder_a) {
    // Its blocks of 128 are those that takes_tiles refuses.
    if constexpr (access() == Access::packed_halves)
      return cudaErrorInvalidValue;
    else
      return start<access()>(job, coder, coder_a, across, all, stream);
  };
  const auto with_both = [&](auto coder) {
    return with_element(job.a.coding, coder, [&](auto coder_a) {
      return with_access(job.rows.h, vector, [&](auto access) { return begin(access, coder, coder_a); });
    });
  };
  const bool same = job.a.coding.element == job.dh.coding.element;
  const cudaError_t e = !job.rows.h.packed ? with_coder(job.dh.coding, with_both)
                        : same             ? with_packed(job.rows, job.dh.coding, vector,
                                                         [&](auto access, auto coder) { return begin(access, coder, coder); })
                                           : cudaErrorInvalidValue;
  if (e != cudaSuccess || columns == 1) return e;
  return add_sums({job.rows.sums, columns, job.rows.rows, job.rows.ds, job.tiles.header}, stream);
}

}  // namespace mxcheck_kernels::sm90
