// Squares of BF16 to codes in both directions, a block of threads each; and the largest magnitude of a tensor, whose
// scale all its squares may share.
//
// 256 threads have 128 rows and 128 columns: a warp 16 rows, half a warp eight of
// them, a lane eight neighbouring columns of those. A row is 256 bytes of one load of half a warp, and what a lane
// holds of a column is eight codes that follow one another in the transposed matrix.

#include "kernels/sm90/moe/square_codes.h"

#include <algorithm>
#include <cstdint>

#include "kernels/sm90/common/processors.h"
#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kSide = 128;
constexpr int kSquareThreads = 256;
constexpr int kSquareWarps = kSquareThreads / 32;
constexpr int kLaneRows = 8;
static_assert(kSide == kTileRows && kSquareWarps * 2 * kLaneRows == kSide);

struct Square {
  std::int64_t before;  // squares of rows before it, of all experts
  std::int64_t first;   // row
  int rows;
  std::int64_t expert;      // with expert_rows
  std::int64_t before_own;  // with expert_rows: of its expert
  std::int64_t col;
};

// Row t of squares; false where there is none.
__device__ __forceinline__ bool find_square(const SquareJob& job, unsigned t, Square& square) {
  if (job.expert_rows == 0) {
    RowTile tile;
    if (!find_tile(job.rows, t, kSide, tile)) return false;
    square = {t, tile.first, tile.rows, 0, 0, 0};
    return true;
  }
  if (job.rows.header != nullptr && job.rows.header->status != MXCHECK_OK) return false;
  const auto each = static_cast<unsigned>((job.expert_rows + kSide - 1) / kSide);
  const unsigned expert = t / each;
  const std::int64_t own = t % each;
  const auto rows = static_cast<int>(min(job.expert_rows - own * kSide, std::int64_t{kSide}));
  square = {t, expert * job.expert_rows + own * kSide, rows, expert, own, 0};
  return true;
}

// A lane's place in a square.
struct SquarePlace {
  int row;     // the first of eight
  int column;  // the first of eight
};
__device__ __forceinline__ SquarePlace square_place(int thread) {
  return {thread / 16 * kLaneRows, thread % 16 * kEach};
}

// Eight columns of eight rows, zeros outside.
__device__ __forceinline__ void load_square(const SquareJob& job, const Square& square, const SquarePlace& at,
                                            uint4 (&v)[kLaneRows]) {
  const bool inside = square.col + at.column < job.cols;
  const std::uint16_t* const x = job.x + square.col + at.column;
  std::int64_t rows[kLaneRows];
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    rows[r] = square.first + at.row + r;
    if (job.index != nullptr && at.row + r < square.rows) rows[r] = __ldg(job.index + rows[r]);
  }
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const bool real = inside && at.row + r < square.rows;
    v[r] = real ? __ldg(reinterpret_cast<const uint4*>(x + rows[r] * job.cols)) : uint4{};
  }
}

__device__ __forceinline__ std::uint32_t largest_of_square(const uint4 (&v)[kLaneRows], int thread,
                                                           std::uint32_t (&of_warps)[kSquareWarps]) {
  std::uint32_t two = 0;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) two = __vmaxu2(two, amax_of(v[r]));
  const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, larger_half(two));
  if (thread % 32 == 0) of_warps[thread / 32] = of_warp;
  __syncthreads();
  std::uint32_t amax = 0;
#pragma unroll
  for (int w = 0; w < kSquareWarps; ++w) amax = max(amax, of_warps[w]);
  return amax;
}

// Codes of a lane's eight rows, four columns in a word.
template <bool kDivides, class Coder>
__device__ __forceinline__ void encode_square(const Coder& coder, const BlockScale& s, const uint4 (&v)[kLaneRows],
                                              uint2 (&codes)[kLaneRows]) {
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const uint4& w = v[r];
    codes[r].x = coder.template codes_by<kDivides>(low_half(w.x), high_half(w.x), low_half(w.y), high_half(w.y), s);
    codes[r].y = coder.template codes_by<kDivides>(low_half(w.z), high_half(w.z), low_half(w.w), high_half(w.w), s);
  }
}

// Byte i of word k becomes byte k of word i.
__device__ __forceinline__ void transpose_4x4(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d,
                                              std::uint32_t (&out)[4]) {
  const std::uint32_t ab = __byte_perm(a, b, 0x5140);
  const std::uint32_t cd = __byte_perm(c, d, 0x5140);
  const std::uint32_t ab_high = __byte_perm(a, b, 0x7362);
  const std::uint32_t cd_high = __byte_perm(c, d, 0x7362);
  out[0] = __byte_perm(ab, cd, 0x5410);
  out[1] = __byte_perm(ab, cd, 0x7632);
  out[2] = __byte_perm(ab_high, cd_high, 0x5410);
  out[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

__device__ __forceinline__ void put_square(TransposedTile<kSide>& tile, const SquarePlace& at,
                                           const uint2 (&codes)[kLaneRows]) {
  const int eighth = at.row / kLaneRows;
  std::uint32_t low[4];
  std::uint32_t high[4];
  transpose_4x4(codes[0].x, codes[1].x, codes[2].x, codes[3].x, low);
  transpose_4x4(codes[4].x, codes[5].x, codes[6].x, codes[7].x, high);
#pragma unroll
  for (int k = 0; k < 4; ++k) put_eight(tile, at.column + k, eighth, make_uint2(low[k], high[k]));
  transpose_4x4(codes[0].y, codes[1].y, codes[2].y, codes[3].y, low);
  transpose_4x4(codes[4].y, codes[5].y, codes[6].y, codes[7].y, high);
#pragma unroll
  for (int k = 0; k < 4; ++k) put_eight(tile, at.column + 4 + k, eighth, make_uint2(low[k], high[k]));
}

struct SquareShared {
  TransposedTile<kSide> codes;
  std::uint32_t amax[kSquareWarps];
};

__device__ __forceinline__ void store_rows(const SquareJob& job, const Square& square, const SquarePlace& at,
                                           const uint2 (&codes)[kLaneRows]) {
  if (square.col + at.column >= job.cols) return;
  std::uint8_t* to = job.codes + (square.first + at.row) * job.cols + square.col + at.column;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r, to += job.cols) {
    if (at.row + r >= square.rows) break;
    ptx::st_global_no_allocate(to, codes[r]);
  }
}

__device__ __forceinline__ TransposedPlace transposed_place(const SquareJob& job, const Square& square) {
  const std::int64_t columns = job.cols - square.col;
  if (job.expert_rows == 0) {
    return {job.transposed + square.col * job.stride + square.before * kSide, job.stride, columns, square.rows, true};
  }
  const std::int64_t first = (square.expert * job.cols + square.col) * job.expert_rows + square.before_own * kSide;
  return {job.transposed + first, job.expert_rows, columns, square.rows, false};
}

// A scale for each of its rows and columns, a thread each, or one for all.
template <class Coder>
__device__ __forceinline__ void store_scales(const SquareJob& job, const Coder& coder, const Square& square,
                                             const BlockScale& s, int thread) {
  const std::int64_t across = (job.cols + kSide - 1) / kSide;
  const std::int64_t place = square.col / kSide;
  const std::int64_t down = (job.expert_rows + kSide - 1) / kSide;
  const bool shared = job.kind == SquareScales::shared;
  if (job.codes != nullptr) {
    if (!shared && thread < square.rows) {
      coder.store_scale(job.scales, (square.first + thread) * across + place, s);
    } else if (shared && thread == 0) {
      coder.store_scale(job.scales, square.before * across + place, s);
    }
  }
  if (job.transposed == nullptr) return;
  const std::int64_t column = square.col + thread;
  if (shared) {
    if (thread == 0) {
      coder.store_scale(job.transposed_scales, (square.expert * across + place) * down + square.before_own, s);
    }
  } else if (thread < kSide && column < job.cols) {
    const std::int64_t at = job.expert_rows == 0 ? column * job.bands + square.before
                                                 : (square.expert * job.cols + column) * down + square.before_own;
    coder.store_scale(job.transposed_scales, at, s);
  }
}

// 4: 64 registers a thread, half of them the square; 128 KB of loads on their way on each processor.
template <class Coder>
__global__ void __launch_bounds__(kSquareThreads, 4)
    encode_squares(const __grid_constant__ SquareJob job, const __grid_constant__ Coder coder, unsigned columns) {
  __shared__ SquareShared shared;
  Square square;
  if (!find_square(job, blockIdx.x / columns, square)) return;
  square.col = std::int64_t{blockIdx.x % columns} * kSide;
  const int thread = static_cast<int>(threadIdx.x);
  const SquarePlace at = square_place(thread);
  uint4 v[kLaneRows];
  load_square(job, square, at, v);
  const std::uint32_t amax =
      job.amax == nullptr ? largest_of_square(v, thread, shared.amax) : __float_as_uint(__ldg(job.amax)) & 0x7FFFFFFF;
  const BlockScale s = coder.scale_of(amax);
  uint2 codes[kLaneRows];
  if (Coder::divides(s)) {
    encode_square<true>(coder, s, v, codes);
  } else {
    encode_square<false>(coder, s, v, codes);
  }
  if (job.codes != nullptr) store_rows(job, square, at, codes);
  store_scales(job, coder, square, s, thread);
  if (job.transposed == nullptr) return;
  put_square(shared.codes, at, codes);
  __syncthreads();
  store_transposed<kSquareThreads, kSide>(shared.codes, transposed_place(job, square), thread);
}

bool is_possible(const SquareJob& job) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(job.x) | reinterpret_cast<std::uintptr_t>(job.codes) |
                         reinterpret_cast<std::uintptr_t>(job.transposed);
  if (addresses % 16 != 0 || job.cols % kEach != 0 || job.expert_rows % 16 != 0 || job.expert_rows < 0) return false;
  if (job.expert_rows != 0) return job.rows.rows % job.expert_rows == 0;
  return job.transposed == nullptr || job.kind == SquareScales::each;
}

// ---- The largest magnitude: each thread's, each block's, then an atomic maximum of bits, whose order does not matter.
// Bits of a NaN are above those of infinity. ----

constexpr int kAmaxThreads = 512;
constexpr int kAmaxWarps = kAmaxThreads / 32;
constexpr int kAmaxLoads = 4;         // loads of a thread
constexpr int kAmaxPerProcessor = 4;  // blocks of threads

__device__ __forceinline__ bool is_refused(const PlanHeader* header) {
  return header != nullptr && header->status != MXCHECK_OK;
}

__global__ void begin_amax(std::uint32_t* amax, const PlanHeader* header) {
  if (!is_refused(header)) *amax = 0;
}

// `vectors`: eights that are loaded as one; what follows them one by one.
__global__ void __launch_bounds__(kAmaxThreads, kAmaxPerProcessor)
    find_amax(const __grid_constant__ AmaxJob job, std::int64_t vectors) {
  if (is_refused(job.header)) return;
  __shared__ std::uint32_t of_warps[kAmaxWarps];
  const auto* const x = reinterpret_cast<const uint4*>(job.x);
  const std::int64_t step = std::int64_t{gridDim.x} * kAmaxThreads;
  const std::int64_t me = std::int64_t{blockIdx.x} * kAmaxThreads + threadIdx.x;
  std::uint32_t two = 0;
  std::int64_t i = me;
  for (; i + (kAmaxLoads - 1) * step < vectors; i += kAmaxLoads * step) {
    uint4 v[kAmaxLoads];
#pragma unroll
    for (int k = 0; k < kAmaxLoads; ++k) v[k] = __ldg(x + i + k * step);
#pragma unroll
    for (int k = 0; k < kAmaxLoads; ++k) two = __vmaxu2(two, amax_of(v[k]));
  }
  for (; i < vectors; i += step) two = __vmaxu2(two, amax_of(__ldg(x + i)));
  for (i = vectors * kEach + me; i < job.elements; i += step) two = larger_halves(two, __ldg(job.x + i));
  const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, larger_half(two));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x >= kAmaxWarps) return;
  const std::uint32_t amax = __reduce_max_sync((1U << kAmaxWarps) - 1, of_warps[threadIdx.x]);
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<unsigned*>(job.amax), amax);
}

}  // namespace

cudaError_t launch_square(const SquareJob& job, cudaStream_t stream) {
  if (!is_possible(job)) return cudaErrorInvalidValue;
  const std::int64_t columns = (job.cols + kSide - 1) / kSide;
  const std::int64_t rows =
      job.expert_rows == 0 ? job.rows.tiles : job.rows.rows / job.expert_rows * ((job.expert_rows + kSide - 1) / kSide);
  const std::int64_t blocks = rows * columns;
  if (blocks == 0 || (job.codes == nullptr && job.transposed == nullptr)) return cudaSuccess;
  const auto across = static_cast<unsigned>(columns);
  return with_coder(job.coding, [&](auto coder) {
    encode_squares<<<static_cast<unsigned>(blocks), kSquareThreads, 0, stream>>>(job, coder, across);
    return cudaGetLastError();
  });
}

cudaError_t launch_begin_amax(std::uint32_t* amax, const PlanHeader* header, cudaStream_t stream) {
  begin_amax<<<1, 1, 0, stream>>>(amax, header);
  return cudaGetLastError();
}

cudaError_t launch_amax(const AmaxJob& job, cudaStream_t stream) {
  const cudaError_t begun = launch_begin_amax(reinterpret_cast<std::uint32_t*>(job.amax), job.header, stream);
  if (begun != cudaSuccess || job.elements == 0) return begun;
  const bool aligned = reinterpret_cast<std::uintptr_t>(job.x) % 16 == 0;
  const std::int64_t vectors = aligned ? job.elements / kEach : 0;
  int processors = 0;
  if (const cudaError_t e = count_processors(processors); e != cudaSuccess) return e;
  const std::int64_t needed = ((aligned ? vectors + kEach : job.elements) + kAmaxThreads - 1) / kAmaxThreads;
  const auto blocks = std::min<std::int64_t>(needed, processors * kAmaxPerProcessor);
  find_amax<<<static_cast<unsigned>(blocks), kAmaxThreads, 0, stream>>>(job, vectors);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
