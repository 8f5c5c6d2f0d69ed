// Blocks of one column, and square blocks, of BF16 rows that start anywhere but their codes alike (window.cuh). A block
// of 16 warps takes 128 rows of 256 columns: warp w the rows that are w % 8 from a multiple of 8, of the first 64 rows
// or of the last.
//
// Warps see columns at different positions, so that an amax goes through shared memory by positions, and its factor
// back by columns. Between them each thread has one column of 64 rows: two bands of 32.

#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/window.cuh"
#include "kernels/sm90/quantize/window_rows.cuh"

namespace mxcheck_kernels::sm90 {

namespace {

constexpr int kApart = 8;                        // rows of a warp
constexpr int kHalf = kWideWarps / kApart;       // of a tile's rows
constexpr int kWindowThreads = kWideWarps * 32;  // kHalf for each column
static_assert(kWindowThreads == kHalf * kLineCols);

struct WindowShared {
  alignas(16) std::uint32_t amax[kWideWarps][kLineCols];    // of each position, of the upper band in the upper half
  alignas(16) std::uint16_t factor[kTile / 32][kLineCols];  // BF16, of each band's columns, or of the tile's in [0]
  WideBytes bytes;                                          // their scales
  std::uint32_t tile[kWindowThreads];                       // amax of each thread's column
  WindowEdge edges[kWideWarps];
};

// Where rows begin in vectors: in that of row k of 8, (first + k * step) % 8 elements are before the columns.
struct Phase {
  unsigned first = 0;
  unsigned step = 0;
  [[nodiscard]] __device__ __forceinline__ unsigned of(unsigned k) const { return (first + k * step) & 7; }
};

// The amax of the lane's positions over the rows of either band. Passes a barrier.
__device__ __forceinline__ void share_amax(const Bf16Lines& a, WindowShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto of_band = [&](int r) {
      return larger_of_both(larger_of_both(a[r].w[i], a[r + 1].w[i]), larger_of_both(a[r + 2].w[i], a[r + 3].w[i]));
    };
    const std::uint32_t lower = of_band(0);
    const std::uint32_t upper = of_band(4);
    pairs[2 * i] = __byte_perm(lower, upper, 0x5410), pairs[2 * i + 1] = __byte_perm(lower, upper, 0x7632);
  }
  auto* to = reinterpret_cast<uint4*>(&shared.amax[threadIdx.x / 32][lane * 8]);
  to[0] = {pairs[0], pairs[1], pairs[2], pairs[3]}, to[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
  __syncthreads();
}

// The amax of this thread's column: BF16 without signs, two bands.
__device__ __forceinline__ std::uint32_t column_amax(const Phase& phase, const WindowShared& shared) {
  const unsigned first = threadIdx.x / kLineCols * kApart;
  std::uint32_t m = 0;
#pragma unroll
  for (unsigned k = 0; k < kApart; ++k) {
    const std::uint32_t other = shared.amax[first + k][(threadIdx.x + phase.of(k)) % kLineCols];
    m = k == 0 ? other : larger_of_both(m, other);
  }
  return m & 0x7FFF7FFF;
}

// The larger of two bands, over a tile's rows, and its columns if they are a square.
template <bool kSquare>
__device__ __forceinline__ std::uint32_t tile_amax(std::uint32_t two, WindowShared& shared) {
  std::uint32_t m = max(two & 0xFFFF, two >> 16);
  if constexpr (kSquare) m = __reduce_max_sync(kAll, m);
  shared.tile[threadIdx.x] = m;
  __syncthreads();
  if constexpr (!kSquare) return max(m, shared.tile[threadIdx.x ^ kLineCols]);
  const unsigned first = threadIdx.x % kLineCols / kTile * kTile;
#pragma unroll
  for (unsigned i = 0; i < kTile; i += 32) {
    m = max(m, max(shared.tile[first + i], shared.tile[first + i + kLineCols]));
  }
  return m;
}

// Shares the factor of this thread's column in a band, and stores its scale or that of its square; to tiles later.
template <bool kSquare, int kBlock>
__device__ __forceinline__ void put_scale(const Place& p, const QuantizeJob& job, int band, std::uint32_t byte,
                                          WindowShared& shared) {
  const int column = static_cast<int>(threadIdx.x % kLineCols);
  const std::int64_t col = p.c * kTile + column;
  shared.factor[band][column] = static_cast<std::uint16_t>(upper_half(factor_of(byte)));
  if constexpr (!kSquare) shared.bytes[band][column] = static_cast<std::uint8_t>(byte);
  if (band * 32 >= p.tile.rows || col >= p.cols) return;
  if constexpr (kSquare) {
    if (column % kBlock != 0) return;
    const std::int64_t row = kBlock == 32 ? p.tile.bands + band : p.t;
    job.row.scales.bytes[row * divide_up(p.cols, kBlock) + col / kBlock] = static_cast<std::uint8_t>(byte);
  } else if (!job.column.scales.tiled) {
    job.column.scales.bytes[column_scale_offset<kBlock>(p, false, column, band)] = static_cast<std::uint8_t>(byte);
  }
}

// Scales of all columns or squares from the windows' amax. Passes barriers.
template <Element kElement, bool kSquare, int kBlock>
__device__ __forceinline__ void put_scales(const Place& p, const QuantizeJob& job, const Phase& phase, int cols,
                                           WindowShared& shared) {
  std::uint32_t two = column_amax(phase, shared);
  if (static_cast<int>(threadIdx.x % kLineCols) >= cols) two = 0;  // after the matrix's last column
  const int half = static_cast<int>(threadIdx.x / kLineCols);
  if constexpr (kBlock == 32) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      std::uint32_t m = i == 0 ? two & 0xFFFF : two >> 16;
      if constexpr (kSquare) m = __reduce_max_sync(kAll, m);
      put_scale<kSquare, 32>(p, job, 2 * half + i, scale_byte<kElement>(m << 16, job.addend), shared);
    }
  } else {
    const std::uint32_t m = tile_amax<kSquare>(two, shared);
    if (half == 0) put_scale<kSquare, 128>(p, job, 0, scale_byte<kElement>(m << 16, job.addend), shared);
  }
  __syncthreads();
}

// Factors of the lane's positions, from a band's columns.
__device__ __forceinline__ void window_factors(const std::uint16_t (&columns)[kLineCols], int before,
                                               std::uint32_t (&factors)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint4 beside = *reinterpret_cast<const uint4*>(&columns[((lane + 31) & 31) * 8]);
  const uint4 own = *reinterpret_cast<const uint4*>(&columns[lane * 8]);
  std::uint32_t c[8] = {beside.x, beside.y, beside.z, beside.w, own.x, own.y, own.z, own.w};
#pragma unroll
  for (int i = 7; i >= 2; --i) c[i] = (before & 4) != 0 ? c[i - 2] : c[i];
#pragma unroll
  for (int i = 7; i >= 3; --i) c[i] = (before & 2) != 0 ? c[i - 1] : c[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) factors[i] = __funnelshift_l(c[i + 3], c[i + 4], (before & 1) * 16);
}

// kRows: blocks of one row too, beside columns.
template <Element kElement, bool kSquare, bool kRows, int kBlock>
__global__ void __launch_bounds__(kWindowThreads, 2)
    windows_kernel(const __grid_constant__ QuantizeJob job, unsigned chunks) {
  __shared__ WindowShared shared;
  Place p;
  if (!find_chunk(job, blockIdx.x / chunks, blockIdx.x % chunks, p)) return;
  const unsigned warp = threadIdx.x / 32;
  const unsigned row_of_8 = warp % kApart;
  const int first = static_cast<int>(warp / kApart * (kTile / kHalf) + row_of_8);  // of the tile's rows
  const std::int64_t row = p.tile.first_row + first;
  const std::uint64_t data = reinterpret_cast<std::uint64_t>(job.x.data);
  const std::uint64_t at = data + static_cast<std::uint64_t>(2 * (row * job.x.stride + p.c * kTile));
  const auto step = static_cast<unsigned>(job.x.stride);
  const Phase phase{static_cast<unsigned>(data / 2) + static_cast<unsigned>(p.tile.first_row) * step, step};
  const Window w{at & ~std::uint64_t{15}, 2 * kApart * job.x.stride, static_cast<int>(phase.of(row_of_8)),
                 min(max(p.tile.rows - first + kApart - 1, 0) / kApart, kLineRows),
                 static_cast<int>(min(p.cols - p.c * kTile, std::int64_t{kLineCols}))};

  Bf16Lines a;
  load_window(job.x, w, a, shared.edges[warp]);
  if constexpr (kRows) {
    if (w.cols < kLineCols) cut_window(w, a);
    put_window_rows<kElement, kBlock, kApart>(p, job, w, first, a, shared.edges[warp]);
  }
  share_amax(a, shared);
  put_scales<kElement, kSquare, kBlock>(p, job, phase, w.cols, shared);

  const unsigned band = kBlock == 32 ? warp / kApart * 2 : 0;
  std::uint32_t lower[4];
  std::uint32_t upper[4];
  window_factors(shared.factor[band], w.before, lower);
  window_factors(shared.factor[kBlock == 32 ? band + 1 : 0], w.before, upper);
  std::uint8_t* codes = kSquare ? job.row.codes : job.column.codes;
  store_window(codes + row * p.cols + p.c * kTile, kApart * p.cols, w, shared.edges[warp],
               [&](int r) { return encode_words<kElement>(a[r], r < 4 ? lower : upper); });
  if constexpr (!kSquare) {
    if (job.column.scales.tiled) store_wide_tiles<kBlock>(p, job.column.scales, shared.bytes);
  }
}

template <Element kElement, bool kSquare, bool kRows>
cudaError_t launch_windows(const QuantizeJob& job, int block, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>(divide_up(job.cols, kLineCols));
  const auto grid = static_cast<unsigned>(job.rows.tiles * chunks);
  const auto kernel =
      block == 32 ? windows_kernel<kElement, kSquare, kRows, 32> : windows_kernel<kElement, kSquare, kRows, 128>;
  return launch_after_plan(kernel, job.rows, grid, kWindowThreads, stream, job, chunks);
}

template <Element kElement>
cudaError_t launch_windows(const QuantizeJob& job, WindowBlocks blocks, int block, cudaStream_t stream) {
  switch (blocks) {
    case WindowBlocks::square: return launch_windows<kElement, true, false>(job, block, stream);
    case WindowBlocks::column: return launch_windows<kElement, false, false>(job, block, stream);
    case WindowBlocks::both: break;
  }
  return launch_windows<kElement, false, true>(job, block, stream);
}

}  // namespace

bool has_windows(const QuantizeJob& job, bool dual, bool square) {
  const auto elements = reinterpret_cast<std::uintptr_t>(job.x.data) / 2;
  const auto alike = [&](const std::uint8_t* codes) {
    return (reinterpret_cast<std::uintptr_t>(codes) - elements) % 8 == 0;
  };
  return job.x.index == nullptr && (job.x.stride - job.cols) % 8 == 0 && ((!dual && !square) || alike(job.row.codes)) &&
         (square || alike(job.column.codes));
}

cudaError_t quantize_windows(const QuantizeJob& job, WindowBlocks blocks, int block, Element element,
                             cudaStream_t stream) {
  if (element == Element::e4m3) return launch_windows<Element::e4m3>(job, blocks, block, stream);
  return launch_windows<Element::e5m2>(job, blocks, block, stream);
}

}  // namespace mxcheck_kernels::sm90
