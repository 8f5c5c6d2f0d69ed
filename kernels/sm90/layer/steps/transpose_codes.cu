// Codes with scales of blocks of 1 x 128 to codes along tokens: what dsv3 makes of the X that it keeps.
//
// A block of threads has 128 rows of one expert and 64 columns, so that a row has one scale here. Half a warp has eight
// of the rows, a lane four neighbouring columns of them.

#include <limits>

#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 8;
constexpr int kParts = kTileRows / kRows;  // half warps
constexpr int kCols = kTileCols;
constexpr int kSourceBlock = 128;  // columns that share a scale of x
static_assert(kThreads == 16 * kParts && kCols == 16 * 4 && kThreads == kQuarters * kCols);

struct Shared {
  alignas(16) float amax[kParts][kCols];
  alignas(16) float factors[kQuarters][kCols];
  alignas(16) float lows[kQuarters][kCols];
  TransposedTile<kCols> codes;
};

// A lane's codes, four columns of each of its rows, and the rows' scales; zeros past the end.
struct Codes {
  std::uint32_t four[kRows];
  float scale;  // of row lane % kRows
};

// col: the tile's first column.
template <bool kVector>
__device__ __forceinline__ Codes load_codes(const TransposeJob& job, const RowTile& tile, std::int64_t col, int part,
                                            int lane) {
  Codes v;
  const int local = part * kRows + (lane & (kRows - 1));
  const std::int32_t row = tile.first + min(local, tile.rows - 1);
  const std::int32_t source = job.index == nullptr ? row : __ldg(job.index + row);
  const std::int64_t at = source * job.scale_blocks + col / kSourceBlock;
  v.scale = job.e8m0 ? value_of(__ldg(static_cast<const std::uint8_t*>(job.scales) + at))
                     : __ldg(static_cast<const float*>(job.scales) + at);
  if (local >= tile.rows) v.scale = 0;
  col += 4 * (lane & 15);
  const auto* const x = static_cast<const std::uint8_t*>(job.x) + col;
  const auto stride = static_cast<std::int32_t>(job.stride);  // a product of 64 bits by one instruction
  const int rows = col < job.cols ? tile.rows - part * kRows : 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::uint8_t* const from = x + std::int64_t{__shfl_sync(kAllLanes, source, r, 16)} * stride;
    v.four[r] = 0;
    if (r >= rows) continue;
    if constexpr (kVector) {
      v.four[r] = __ldg(reinterpret_cast<const std::uint32_t*>(from));
    } else {
      for (int i = 0; i < 4 && col + i < job.cols; ++i) v.four[r] |= std::uint32_t{from[i]} << 8 * i;
    }
  }
  return v;
}

template <Element kSource>
__device__ __forceinline__ void decode_codes(const Codes& v, float (&x)[4][kRows], float (&amax)[4]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float scale = __shfl_sync(kAllLanes, v.scale, r, 16);
    const float2 low = decode2<kSource>(v.four[r] & 0xFFFF);
    const float2 high = decode2<kSource>(v.four[r] >> 16);
    x[0][r] = __fmul_rn(low.x, scale), x[1][r] = __fmul_rn(low.y, scale);
    x[2][r] = __fmul_rn(high.x, scale), x[3][r] = __fmul_rn(high.y, scale);
#pragma unroll
    for (int k = 0; k < 4; ++k) amax[k] = r == 0 ? fabsf(x[k][r]) : ptx::max_nan_f32(amax[k], fabsf(x[k][r]));
  }
}

// Scales of all columns from the parts' amax, to memory and to shared memory; a thread has a column of a quarter.
template <class Coder>
__device__ __forceinline__ void make_scales(const TransposeJob& job, const Coder& coder, const RowTile& tile,
                                            std::int64_t first, int thread, Shared& shared) {
  const int column = thread % kCols;
  const int quarter = thread / kCols;
  const bool whole = coder.block() == kTileRows;
  if (whole && quarter != 0) return;
  std::uint32_t amax = 0;
  const int parts = whole ? kParts : kParts / kQuarters;
#pragma unroll 4
  for (int i = 0; i < parts; ++i) amax = max(amax, __float_as_uint(shared.amax[quarter * parts + i][column]));
  const BlockScale s = coder.scale_of(amax);
  shared.factors[quarter][column] = s.factor;
  shared.lows[quarter][column] = s.low;
  const std::int64_t col = first + column;
  if (quarter * kQuarter < tile.rows && col < job.cols) {
    coder.store_scale(job.out.scales, col * job.out.bands + tile.band + quarter, s);
  }
}

// 4: 64 registers a thread, half of them the lane's numbers.
template <bool kVector, Element kSource, class Coder>
__global__ void __launch_bounds__(kThreads, 4)
    transpose_codes(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder, unsigned columns) {
  __shared__ Shared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x / columns, coder.block(), tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.x % columns} * kCols;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread & 31;
  const int part = thread >> 4;
  const int column = 4 * (lane & 15);
  float x[4][kRows];
  float amax[4];
  decode_codes<kSource>(load_codes<kVector>(job, tile, col, part, lane), x, amax);
  *reinterpret_cast<float4*>(&shared.amax[part][column]) = make_float4(amax[0], amax[1], amax[2], amax[3]);
  __syncthreads();
  make_scales(job, coder, tile, col, thread, shared);
  __syncthreads();
  const int quarter = coder.block() == kTileRows ? 0 : part * kRows / kQuarter;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const BlockScale s{0, shared.factors[quarter][column + k], shared.lows[quarter][column + k]};
    put_eight(shared.codes, column + k, part,
              make_uint2(coder.codes(x[k][0], x[k][1], x[k][2], x[k][3], s),
                         coder.codes(x[k][4], x[k][5], x[k][6], x[k][7], s)));
  }
  __syncthreads();
  const ColumnCodes& out = job.out;
  const std::int64_t first = out.padded ? std::int64_t{tile.band} * kTileRows : tile.first;
  store_transposed<kThreads, kCols>(
      shared.codes, {out.codes + col * out.stride + first, out.stride, job.cols - col, tile.rows, out.padded}, thread);
}

}  // namespace

cudaError_t launch_transpose_codes(const TransposeJob& job, bool vector, cudaStream_t stream) {
  const std::int64_t columns = (job.cols + kCols - 1) / kCols;
  const std::int64_t blocks = job.rows.tiles * columns;
  if (blocks == 0) return cudaSuccess;
  if (job.stride > std::numeric_limits<std::int32_t>::max()) return cudaErrorInvalidValue;
  const auto grid = static_cast<unsigned>(blocks);
  const auto across = static_cast<unsigned>(columns);
  return with_coder(job.out.coding, [&](auto coder) {
    using C = decltype(coder);
    const bool e4m3 = job.element == Element::e4m3;
    if (vector) {
      auto* const kernel = e4m3 ? transpose_codes<true, Element::e4m3, C> : transpose_codes<true, Element::e5m2, C>;
      kernel<<<grid, kThreads, 0, stream>>>(job, coder, across);
    } else {
      auto* const kernel = e4m3 ? transpose_codes<false, Element::e4m3, C> : transpose_codes<false, Element::e5m2, C>;
      kernel<<<grid, kThreads, 0, stream>>>(job, coder, across);
    }
    return cudaGetLastError();
  });
}

}  // namespace mxcheck_kernels::sm90
