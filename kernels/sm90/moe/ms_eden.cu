// MS-EDEN in two kernels: the rotation with the amax of what it gives, and the values. A thread has a block of 16
// numbers along k: of a row, or of two columns. Along rows eight lanes have a piece of 128; down columns the threads of
// a tile of 128 rows and 64 columns exchange numbers and sums through shared memory.

#include "kernels/sm90/moe/ms_eden.h"

#include <cstdint>
#include <limits>

#include "kernels/sm90/common/philox.cuh"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/ms_eden_values.cuh"
#include "kernels/sm90/moe/operand_words.cuh"
#include "kernels/sm90/moe/square_codes.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = kEdenPiece / kEdenBlock;
constexpr int kStages = 3;  // of exchanges
constexpr std::int64_t kMostTiles = std::numeric_limits<std::int32_t>::max();
static_assert(kEdenBlock == kSide && kTileRows == kEdenPiece && kThreads == kBlocks * kTileCols / 2);

struct EdenLaunch {
  MsEdenJob job;
  PhiloxKeys keys;
  std::uint32_t signs[4];
  std::int64_t tiles;
};

__device__ __forceinline__ bool find_tile_of_block(const EdenLaunch& launch, RowTile& tile) {
  const std::int64_t t = tile_of_block();
  return t < launch.tiles && find_tile(launch.job.rows, t, kTileRows, tile);
}

// ---- Numbers that are rotated ----

__device__ __noinline__ float made_of_far(const EdenMade& made, float x) { return made_of_any(made, x); }

// The numbers that words stand for.
template <int kCount>
__device__ __forceinline__ void find_numbers(const MsEdenJob& job, const std::uint32_t (&words)[kCount],
                                             float (&lower)[kCount], float (&upper)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) lower[i] = lower_of(words[i]), upper[i] = upper_of(words[i]);
  if (job.x_amax == nullptr) return;
  const std::uint32_t amax = *job.x_amax;
  const EdenMade made{float_of(amax << 16), job.x_unit, reciprocal(job.x_unit)};
  std::uint32_t far = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) far |= far_of(words[i]);
  if (far == 0 && !is_far_amax(amax)) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) lower[i] = made_of(made, lower[i]), upper[i] = made_of(made, upper[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) lower[i] = made_of_far(made, lower[i]), upper[i] = made_of_far(made, upper[i]);
  }
}

// The largest finite magnitude of rotated numbers.
template <int kCount>
__device__ __forceinline__ std::uint32_t finite_amax(const std::uint32_t (&words)[kCount]) {
  std::uint32_t amax = amax_of_both(amax_of_pairs(words));
  if (amax < kInfinityBf16) return amax;
  amax = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t lower = words[i] & 0x7FFF, upper = words[i] >> 16 & 0x7FFF;
    amax = max(amax, max(lower < kInfinityBf16 ? lower : 0, upper < kInfinityBf16 ? upper : 0));
  }
  return amax;
}

// ---- Values of two halves of words: one block, or, down, one each ----

struct EdenHalf {
  float q;
  EdenDivisor by;
};
__device__ __forceinline__ EdenHalf eden_half(std::uint32_t amax, float s) {
  const float q = is_near_one(s) ? eden_block_scale(amax, s, reciprocal(s)) : eden_block_scale(amax, s);
  return {q, eden_divisor(q, s)};
}

// Codes, and the sums of x x and x code in either half.
template <int kCount>
__device__ __forceinline__ void find_codes(const std::uint32_t (&words)[kCount], const EdenHalf& lower,
                                           const EdenHalf& upper, std::uint32_t (&codes)[kCount], EdenSums (&sums)[2]) {
  sums[0] = sums[1] = {0, 0};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float low = magnitude_of(lower_of(words[i])), high = magnitude_of(upper_of(words[i]));
    const float low_code = eden_code(low, lower.by), high_code = eden_code(high, upper.by);
    codes[i] = packed(low_code, high_code);
    const double x0 = wide(low), x1 = wide(high);
    sums[0] = {__fma_rn(x0, x0, sums[0].of_x), __fma_rn(x0, wide(low_code), sums[0].of_both)};
    sums[1] = {__fma_rn(x1, x1, sums[1].of_x), __fma_rn(x1, wide(high_code), sums[1].of_both)};
  }
}

__device__ __forceinline__ std::uint32_t word_of(const EdenLaunch& launch, std::int64_t element) {
  const auto i = static_cast<std::uint64_t>(element);
  const RandomStream& random = launch.job.random;
  return philox_word(launch.keys,
                     philox_series(launch.keys, static_cast<std::uint32_t>(i >> 32), random.stream, random.step),
                     static_cast<std::uint32_t>(i));
}

// Rotated numbers of a line in memory, from one on.
struct EdenLine {
  const std::uint16_t* from;
  std::int64_t step;

  __device__ __forceinline__ float operator()(int i) const { return float_of(std::uint32_t{from[i * step]} << 16); }
};
__device__ __noinline__ float correction_in_memory(const EdenLine& line, int size, float s) {
  return exact_correction(line, size, s);
}

// `count` numbers that are in no group, from `element` on, `step` from one to the next.
__device__ __noinline__ void write_rest(const EdenLaunch& launch, std::int64_t element, std::int64_t step, int count) {
  const MsEdenJob& job = launch.job;
  const EdenLine line{job.rotated + element, step};
  std::uint32_t amax = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) amax = max(amax, bits_of(magnitude_of(line(i))) >> 16);
  const float s = eden_scale_of(*job.amax);
  const float q = eden_rest_scale(amax, s);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const std::int64_t at = element + i * step;
    const float value = eden_rest_value(line(i), q, s, word_of(launch, at));
    job.values[at] = amax >= kInfinityBf16 ? 0x7FFF : static_cast<std::uint16_t>(to_bf16x2(value, 0));
  }
}

// ---- Along rows ----

// A thread's block: of `log` (log_of_block), of `count` numbers, fewer than 16 where it is in no group.
struct EdenSpot {
  std::int64_t row = 0;
  std::int64_t col = 0;
  int count = 0;
  int block = 0;  // in its piece
  int log = 0;
};
__device__ __forceinline__ EdenSpot find_spot(const EdenLaunch& launch) {
  EdenSpot spot;
  RowTile tile;
  if (!find_tile_of_block(launch, tile)) return spot;
  const std::int64_t cols = launch.job.cols;
  const unsigned item = blockIdx.x * kThreads + threadIdx.x;
  const auto pieces = static_cast<unsigned>((cols + kEdenPiece - 1) / kEdenPiece);
  const unsigned row = item / kBlocks / pieces;
  if (row >= static_cast<unsigned>(tile.rows)) return spot;
  const std::int64_t first = std::int64_t{item / kBlocks - row * pieces} * kEdenPiece;
  spot.row = tile.first + static_cast<std::int64_t>(row);
  spot.block = static_cast<int>(item % kBlocks);
  spot.col = first + spot.block * kEdenBlock;
  spot.count = max(line_count(cols - spot.col), 0);
  spot.log = log_of_block(static_cast<int>(min(cols - first, std::int64_t{kEdenPiece})), spot.block);
  return spot;
}

__global__ void __launch_bounds__(kThreads) rotate_rows(const __grid_constant__ EdenLaunch launch) {
  const MsEdenJob& job = launch.job;
  const EdenSpot spot = find_spot(launch);
  RowWords words;
  load_row(spot.count > 0 ? source_at(job, spot.row, spot.col) : nullptr, spot.count, words);
  float lower[kSide / 2], upper[kSide / 2], y[kSide];
  find_numbers(job, words, lower, upper);
#pragma unroll
  for (int i = 0; i < kSide; ++i) y[i] = i % 2 == 0 ? lower[i / 2] : upper[i / 2];
  if (spot.log > 0) rotate_block(y, signs_of_block(launch.signs, number_in_group(spot.block, spot.log)));
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    const bool exchanged = exchanges(spot.log, stage);
    const float sign = (spot.block >> stage & 1) != 0 ? -1.0F : 1.0F;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, y[i], 1 << stage);
      if (exchanged) y[i] = crossed(y[i], other, sign);
    }
  }
  const float factor = spot.log > 0 ? rotation_factor(spot.log) : 1.0F;
#pragma unroll
  for (int i = 0; i < kSide / 2; ++i) words[i] = to_bf16x2(product(y[2 * i], factor), product(y[2 * i + 1], factor));
  store_row(job.rotated + spot.row * job.cols + spot.col, spot.count, words);
  add_amax(job.amax, finite_amax(words));
}

__global__ void __launch_bounds__(kThreads) quantize_rows(const __grid_constant__ EdenLaunch launch) {
  const MsEdenJob& job = launch.job;
  const EdenSpot spot = find_spot(launch);
  const std::int64_t first = spot.row * job.cols + spot.col;
  RowWords words;
  load_row(job.rotated + first, spot.count, words);
  const float s = eden_scale_of(*job.amax);
  const std::uint32_t of_block = amax_of_both(amax_of_pairs(words));
  const bool is_group = spot.log > 0;
  const EdenHalf half = eden_half(of_block < kInfinityBf16 ? of_block : 0, s);
  RowWords codes;
  EdenSums parts[2];
  find_codes(words, half, half, codes, parts);
  const auto q = static_cast<double>(half.q);
  EdenSums sums{parts[0].of_x + parts[1].of_x, (parts[0].of_both + parts[1].of_both) * q};
  std::uint32_t amax = of_block;
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    const double of_x = __shfl_xor_sync(kAllLanes, sums.of_x, 1 << stage);
    const double of_both = __shfl_xor_sync(kAllLanes, sums.of_both, 1 << stage);
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, amax, 1 << stage);
    if (exchanges(spot.log, stage)) sums = {sums.of_x + of_x, sums.of_both + of_both}, amax = max(amax, other);
  }
  if (spot.count == 0) return;
  if (!is_group) return write_rest(launch, first, 1, spot.count);
  std::uint32_t scales = 0;
  if (amax < kInfinityBf16) {
    float c;
    if (!find_correction(sums, amax, s, c)) {
      const int number = number_in_group(spot.block, spot.log);
      c = correction_in_memory({job.rotated + first - number * kEdenBlock, 1}, 8 << spot.log, s);
    }
    const float scale = e4m3_by_word(product(half.q, c), word_of(launch, first));
    scales = packed(scale, scale);
  }
#pragma unroll
  for (int i = 0; i < kSide / 2; ++i)
    words[i] = amax < kInfinityBf16 ? value_of(codes[i], scales, words[i]) : 0x7FFF7FFF;
  store_row(job.values + first, spot.count, words);
}

// ---- Down columns ----

// A tile of up to 128 rows and 64 columns. A thread has block `threadIdx.x / 32` of two columns.
struct EdenTile {
  std::int64_t row = 0;
  std::int64_t col = 0;
  int rows = 0;
  int cols = 0;
};
__device__ __forceinline__ bool find_eden_tile(const EdenLaunch& launch, EdenTile& tile) {
  const MsEdenJob& job = launch.job;
  RowTile rows;
  if (!find_tile_of_block(launch, rows)) return false;
  tile.row = rows.first, tile.rows = rows.rows;
  tile.col = std::int64_t{blockIdx.x} * kTileCols;
  tile.cols = static_cast<int>(min(std::int64_t{kTileCols}, job.cols - tile.col));
  return true;
}

// A whole tile: its kernels have no conditions.
__device__ __forceinline__ bool is_whole(const EdenTile& tile) {
  return tile.rows == kTileRows && tile.cols == kTileCols;
}
template <bool kWhole>
__device__ __forceinline__ int log_in_tile(const EdenTile& tile, int block) {
  return kWhole ? 4 : log_of_block(tile.rows, block);
}

// `count` rows of two columns from `row` on, all 16 of a whole tile.
template <bool kWhole>
__device__ __forceinline__ void load_eden_pairs(const std::uint16_t* from, std::int64_t cols, int count,
                                                PairWords& words) {
#pragma unroll
  for (int i = 0; i < kSide; ++i, from += cols)
    words[i] = kWhole || i < count ? __ldg(reinterpret_cast<const std::uint32_t*>(from)) : 0;
}
template <bool kWhole>
__device__ __forceinline__ void load_source_pairs(const MsEdenJob& job, std::int64_t row, std::int64_t col, int count,
                                                  PairWords& words) {
  if (job.index == nullptr) return load_eden_pairs<kWhole>(job.x + row * job.cols + col, job.cols, count, words);
  std::int32_t from[kSide];  // all are asked for at once
#pragma unroll
  for (int i = 0; i < kSide; ++i) from[i] = kWhole || i < count ? __ldg(job.index + row + i) : 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    words[i] = 0;
    if (kWhole || i < count) words[i] = __ldg(reinterpret_cast<const std::uint32_t*>(job.x + from[i] * job.cols + col));
  }
}

// Numbers of a tile between the stages in blocks and those across: those of a row beside each other.
using EdenNumbers = float[kTileRows * kTileCols];

// Four columns of rows i, i + 16, ...: the exchanges, and what they give to memory. Returns the amax.
template <bool kWhole>
__device__ __forceinline__ std::uint32_t exchange_columns(const MsEdenJob& job, const EdenTile& tile,
                                                          const EdenNumbers& numbers) {
  const int i = static_cast<int>(threadIdx.x) / (kTileCols / 4);
  const int column = static_cast<int>(threadIdx.x) % (kTileCols / 4) * 4;
  float y[kBlocks][4];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const float4 v = *reinterpret_cast<const float4*>(numbers + (b * kEdenBlock + i) * kTileCols + column);
    y[b][0] = v.x, y[b][1] = v.y, y[b][2] = v.z, y[b][3] = v.w;
  }
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if ((b >> stage & 1) != 0 || !exchanges(log_in_tile<kWhole>(tile, b), stage)) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float own = y[b][k], other = y[b + (1 << stage)][k];
        y[b][k] = crossed(own, other, 1), y[b + (1 << stage)][k] = crossed(other, own, -1);
      }
    }
  }
  std::uint32_t words[2 * kBlocks];
  std::uint16_t* to = job.rotated + (tile.row + i) * job.cols + tile.col + column;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b, to += kEdenBlock * job.cols) {
    const int log = log_in_tile<kWhole>(tile, b);
    const float factor = log > 0 ? rotation_factor(log) : 1.0F;
    const bool is_there = kWhole || (b * kEdenBlock + i < tile.rows && column < tile.cols);
    words[2 * b] = is_there ? to_bf16x2(product(y[b][0], factor), product(y[b][1], factor)) : 0;
    words[2 * b + 1] = is_there ? to_bf16x2(product(y[b][2], factor), product(y[b][3], factor)) : 0;
    if (is_there) *reinterpret_cast<uint2*>(to) = make_uint2(words[2 * b], words[2 * b + 1]);
  }
  return finite_amax(words);
}

template <bool kWhole>
__device__ __forceinline__ void rotate_tile(const EdenLaunch& launch, const EdenTile& tile, EdenNumbers& numbers) {
  const MsEdenJob& job = launch.job;
  const int block = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(threadIdx.x) % 32 * 2;
  PairWords words;
  const int count = column < tile.cols ? tile.rows - block * kEdenBlock : 0;
  load_source_pairs<kWhole>(job, tile.row + block * kEdenBlock, tile.col + column, count, words);
  float lower[kSide], upper[kSide];
  find_numbers(job, words, lower, upper);
  const int log = log_in_tile<kWhole>(tile, block);
  if (log > 0) {
    const std::uint32_t signs = signs_of_block(launch.signs, number_in_group(block, log));
    rotate_block(lower, signs), rotate_block(upper, signs);
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    float* const to = numbers + (block * kEdenBlock + i) * kTileCols + column;
    *reinterpret_cast<float2*>(to) = make_float2(lower[i], upper[i]);
  }
  __syncthreads();
  add_amax(job.amax, exchange_columns<kWhole>(job, tile, numbers));
}

__global__ void __launch_bounds__(kThreads, 4) rotate_columns(const __grid_constant__ EdenLaunch launch) {
  __shared__ __align__(16) EdenNumbers numbers;
  EdenTile tile;
  if (!find_eden_tile(launch, tile)) return;
  if (is_whole(tile)) {
    rotate_tile<true>(launch, tile, numbers);
  } else {
    rotate_tile<false>(launch, tile, numbers);
  }
}

// Columns' sums in each block, and what becomes of them: c of its group, and whether its numbers are finite.
struct EdenParts {
  EdenSums sums[kBlocks][kTileCols];
  std::uint32_t amax[kBlocks][kTileCols];
  float corrections[kBlocks][kTileCols];
};

// The corrections of a column's groups, one after another.
__device__ __forceinline__ void correct_column(const EdenLaunch& launch, const EdenTile& tile, int column, float s,
                                               EdenParts& parts) {
  const std::int64_t cols = launch.job.cols;
#pragma unroll 1
  for (int begin = 0, end = 0; begin < tile.rows / kEdenBlock; begin = end) {
    const int log = log_of_block(tile.rows, begin);
    end = begin + (1 << (log - 1));
    EdenSums sums{0, 0};
    std::uint32_t amax = 0;
#pragma unroll 1
    for (int b = begin; b < end; ++b) {
      sums = {sums.of_x + parts.sums[b][column].of_x, sums.of_both + parts.sums[b][column].of_both};
      amax = max(amax, parts.amax[b][column]);
    }
    float c = 1;
    if (amax < kInfinityBf16 && !find_correction(sums, amax, s, c)) {
      const std::int64_t first = (tile.row + begin * kEdenBlock) * cols + tile.col + column;
      c = correction_in_memory({launch.job.rotated + first, cols}, 8 << log, s);
    }
#pragma unroll 1
    for (int b = begin; b < end; ++b) parts.corrections[b][column] = c, parts.amax[b][column] = amax;
  }
}

template <bool kWhole>
__device__ __forceinline__ void quantize_tile(const EdenLaunch& launch, const EdenTile& tile, EdenParts& parts) {
  const MsEdenJob& job = launch.job;
  const int block = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(threadIdx.x) % 32 * 2;
  const std::int64_t first = (tile.row + block * kEdenBlock) * job.cols + tile.col + column;
  const int count = column < tile.cols ? min(tile.rows - block * kEdenBlock, kSide) : 0;
  PairWords words;
  load_eden_pairs<kWhole>(job.rotated + first, job.cols, count, words);
  const float s = eden_scale_of(*job.amax);
  const std::uint32_t amax = amax_of_pairs(words);
  EdenHalf halves[2];
  for (int k = 0; k < 2; ++k) {
    const std::uint32_t of_half = k == 0 ? amax & 0xFFFF : amax >> 16;
    halves[k] = eden_half(of_half < kInfinityBf16 ? of_half : 0, s);
    parts.amax[block][column + k] = of_half;
  }
  PairWords codes;
  EdenSums sums[2];
  find_codes(words, halves[0], halves[1], codes, sums);
  for (int k = 0; k < 2; ++k)
    parts.sums[block][column + k] = {sums[k].of_x, sums[k].of_both * static_cast<double>(halves[k].q)};
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < tile.cols) correct_column(launch, tile, static_cast<int>(threadIdx.x), s, parts);
  __syncthreads();
  if (!kWhole && count <= 0) return;
  if (!kWhole && count < kSide) {
    write_rest(launch, first, job.cols, count);
    return write_rest(launch, first + 1, job.cols, count);
  }
  float scales[2];
  std::uint32_t nan = 0;
  for (int k = 0; k < 2; ++k) {
    const bool is_finite = parts.amax[block][column + k] < kInfinityBf16;
    scales[k] = e4m3_by_word(product(halves[k].q, parts.corrections[block][column + k]), word_of(launch, first + k));
    if (!is_finite) nan |= k == 0 ? 0x7FFF : 0x7FFF0000;
  }
  const std::uint32_t scale = packed(scales[0], scales[1]);
  std::uint16_t* to = job.values + first;
#pragma unroll
  for (int i = 0; i < kSide; ++i, to += job.cols)
    *reinterpret_cast<std::uint32_t*>(to) = value_of(codes[i], scale, words[i]) | nan;
}

__global__ void __launch_bounds__(kThreads, 3) quantize_columns(const __grid_constant__ EdenLaunch launch) {
  __shared__ EdenParts parts;
  EdenTile tile;
  if (!find_eden_tile(launch, tile)) return;
  if (is_whole(tile)) {
    quantize_tile<true>(launch, tile, parts);
  } else {
    quantize_tile<false>(launch, tile, parts);
  }
}

constexpr std::int64_t parts_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
std::int64_t blocks_across(bool down_columns, std::int64_t cols) {
  return down_columns ? parts_of(cols, kTileCols) : parts_of(cols, kEdenPiece) * (kTileRows * kBlocks / kThreads);
}

}  // namespace

bool takes_ms_eden(bool down_columns, std::int64_t cols) { return blocks_across(down_columns, cols) <= kMostAcross; }

cudaError_t launch_ms_eden(const MsEdenJob& job, cudaStream_t stream) {
  if (const cudaError_t e = launch_begin_amax(job.amax, job.rows.header, stream); e != cudaSuccess) return e;
  if (job.rows.rows == 0 || job.cols == 0) return cudaSuccess;
  const std::int64_t tiles = job.rows.table != nullptr ? job.rows.tiles : parts_of(job.rows.rows, kTileRows);
  const std::int64_t across = blocks_across(job.down_columns, job.cols);
  if (tiles == 0) return cudaSuccess;
  if (tiles > kMostTiles || !takes_ms_eden(job.down_columns, job.cols)) return cudaErrorInvalidValue;
  EdenLaunch launch{job, philox_keys(job.random.seed), {}, tiles};
  for (std::uint32_t i = 0; i < 4; ++i)
    launch.signs[i] = philox_word(job.random.seed, i, 0, job.signs, job.random.step);
  const dim3 grid = grid_of_tiles(tiles, across);
  if (job.down_columns) {
    rotate_columns<<<grid, kThreads, 0, stream>>>(launch);
    quantize_columns<<<grid, kThreads, 0, stream>>>(launch);
  } else {
    rotate_rows<<<grid, kThreads, 0, stream>>>(launch);
    quantize_rows<<<grid, kThreads, 0, stream>>>(launch);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
