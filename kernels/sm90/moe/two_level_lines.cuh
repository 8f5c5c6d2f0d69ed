#pragma once
// Lines of 16 elements of an operand in NVFP4 on the device: where they lie, how they are read and written, and their
// values by the definition's own operations. Kernels (two_level.cu) take that way with few lines: those with NaN, Inf
// or a scale that is too small, and blocks whose two scales are nearly as good.

#include <cstdint>

#include "kernels/sm90/common/philox.cuh"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/operand_words.cuh"
#include "kernels/sm90/moe/two_level.h"
#include "kernels/sm90/moe/two_level_values.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kTwoLevelThreads = 256;

struct TwoLevelLaunch {
  TwoLevelJob job;
  PhiloxKeys keys;
  std::int64_t tiles = 0;
  unsigned expert_tiles = 0;  // where experts are of expert_rows rows
};

// Up to 16 elements of a row, or, down, of a column.
struct Line {
  std::int64_t row = 0;  // of its first element
  std::int64_t col = 0;
  int count = 0;
  bool down = false;
};

// ---- Places ----

__device__ __forceinline__ bool find_rows(const TwoLevelLaunch& launch, RowTile& tile) {
  const TwoLevelJob& job = launch.job;
  if (tile_of_block() >= launch.tiles) return false;
  const auto t = static_cast<unsigned>(tile_of_block());
  if (job.expert_rows == 0) return find_tile(job.rows, t, kTileRows, tile);
  if (job.rows.header != nullptr && job.rows.header->status != MXCHECK_OK) return false;
  const std::int64_t begin = std::int64_t{t % launch.expert_tiles} * kTileRows;
  tile.first = static_cast<std::int32_t>(t / launch.expert_tiles * job.expert_rows + begin);
  tile.rows = static_cast<std::int32_t>(min(std::int64_t{kTileRows}, job.expert_rows - begin));
  return true;
}

// A tile has less than 2^32 items: items_of(), and a block's at most.
__device__ __forceinline__ unsigned item_of_thread() { return blockIdx.x * kTwoLevelThreads + threadIdx.x; }
__device__ __forceinline__ unsigned across_of(std::int64_t cols, int width) {
  return static_cast<unsigned>((cols + width - 1) / width);
}

// The items of a thread, a block's threads apart, as rows and blocks of 16 columns: without a division for each.
struct Items {
  unsigned across;
  unsigned row, block;    // of the first
  unsigned rows, blocks;  // from one to the next

  __device__ __forceinline__ Items(unsigned first, std::int64_t cols, unsigned step)
      : across(across_of(cols, kSide)),
        row(first / across),
        block(first - row * across),
        rows(step / across),
        blocks(step - rows * across) {}
  __device__ __forceinline__ void next() {
    row += rows, block += blocks;
    if (block >= across) block -= across, ++row;
  }
};

__device__ __forceinline__ bool find_row(const RowTile& tile, std::int64_t cols, const Items& items, Line& line) {
  if (items.row >= static_cast<unsigned>(tile.rows)) return false;
  line.row = tile.first + static_cast<std::int64_t>(items.row), line.col = std::int64_t{items.block} * kSide;
  line.count = line_count(cols - line.col);
  return true;
}

// Two columns of 16 rows.
__device__ __forceinline__ bool find_columns(const RowTile& tile, std::int64_t cols, Line& line) {
  const unsigned across = across_of(cols, 2);
  const unsigned block = item_of_thread() / across;
  const std::int64_t row = std::int64_t{block} * kSide;
  if (row >= tile.rows) return false;
  line.row = tile.first + row, line.col = std::int64_t{item_of_thread() - block * across} * 2;
  line.count = line_count(tile.rows - row);
  line.down = true;
  return true;
}

// ---- Numbers in place: zeros past the line's end ----

__device__ __forceinline__ void load_pairs(const TwoLevelJob& job, const Line& line, PairWords& words) {
  if (job.index == nullptr) {
    const std::uint16_t* from = job.x + line.row * job.cols + line.col;
#pragma unroll
    for (int i = 0; i < kSide; ++i, from += job.cols)
      words[i] = i < line.count ? __ldg(reinterpret_cast<const std::uint32_t*>(from)) : 0;
    return;
  }
  std::int32_t from[kSide];  // all are asked for at once
#pragma unroll
  for (int i = 0; i < kSide; ++i) from[i] = i < line.count ? __ldg(job.index + line.row + i) : 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    words[i] = 0;
    if (i < line.count) words[i] = __ldg(reinterpret_cast<const std::uint32_t*>(job.x + from[i] * job.cols + line.col));
  }
}
__device__ __forceinline__ void store_pairs(const TwoLevelJob& job, const Line& line, const PairWords& words) {
  std::uint16_t* to = job.values + line.row * job.cols + line.col;
#pragma unroll
  for (int i = 0; i < kSide; ++i, to += job.cols) {
    if (i < line.count) *reinterpret_cast<std::uint32_t*>(to) = words[i];
  }
}

// Without NaN.
template <int kCount>
__device__ __forceinline__ std::uint32_t amax_of_numbers(const std::uint32_t (&words)[kCount]) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t lower = words[i] & 0x7FFF, upper = words[i] >> 16 & 0x7FFF;
    amax = max(amax, max(lower > kInfinityBf16 ? 0 : lower, upper > kInfinityBf16 ? 0 : upper));
  }
  return amax;
}
template <int kCount>
__device__ __forceinline__ std::uint32_t amax_that_counts(const std::uint32_t (&words)[kCount], bool drops_nan) {
  const std::uint32_t amax = amax_of_both(amax_of_pairs(words));
  return drops_nan && amax > kInfinityBf16 ? amax_of_numbers(words) : amax;
}

// ---- Rotation ----

// 16 rows of a column: butterflies of FP32 sums, times 1 / 4; to be rounded to BF16.
__device__ __forceinline__ void rotate(float (&y)[kSide]) {
  constexpr std::uint32_t kSigns = 0xD7E8;  // bit i: element i changes its sign
#pragma unroll
  for (int i = 0; i < kSide; ++i) y[i] = (kSigns >> i & 1U) != 0 ? -y[i] : y[i];
#pragma unroll
  for (int h = 1; h < kSide; h *= 2) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      if ((i & h) != 0) continue;
      const float sum = sum_of(y[i], y[i + h]);
      y[i + h] = sum_of(y[i], -y[i + h]);
      y[i] = sum;
    }
  }
#pragma unroll
  for (int i = 0; i < kSide; ++i) y[i] = product(y[i], 0.25F);
}

// Both columns of a whole block.
__device__ __forceinline__ void rotate_pairs(PairWords& words) {
  float lower[kSide], upper[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) lower[i] = lower_of(words[i]), upper[i] = upper_of(words[i]);
  rotate(lower), rotate(upper);
#pragma unroll
  for (int i = 0; i < kSide; ++i) words[i] = to_bf16x2(lower[i], upper[i]);
}

// ---- By the definition ----

using Words = std::uint32_t[kSide];  // BF16, one in each

__device__ __forceinline__ void load_line(const TwoLevelJob& job, const Line& line, Words& words) {
#pragma unroll
  for (int i = 0; i < kSide; ++i)
    words[i] = i < line.count ? *source_at(job, line.row + (line.down ? i : 0), line.col + (line.down ? 0 : i)) : 0;
  if (!job.rule.rotates || line.count < kSide) return;
  float y[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) y[i] = float_of(words[i] << 16);
  rotate(y);
#pragma unroll
  for (int i = 0; i < kSide; ++i) words[i] = to_bf16x2(y[i], 0) & 0xFFFF;
}

// A scale and the values under it: code * b, exact. The FP32 of an x is its BF16 word, shifted.
struct Encoder {
  float b;
  float factor;

  template <bool kStochastic>
  __device__ __forceinline__ float value(std::uint32_t word, std::uint32_t random) const {
    const float x = float_of(word << 16);
    if (is_nan(b)) return b;
    return product(is_nan(x) ? 6.0F : code_value_of<kStochastic>(x, factor, random), b);
  }
};
__device__ __forceinline__ Encoder encoder_of(bool four_over_six, const TensorScale& outer, std::uint32_t amax,
                                              float stretch) {
  const float b = block_scale_of(four_over_six, outer, amax, stretch);
  return {b, factor_of(four_over_six, outer, b)};
}

__device__ __forceinline__ std::uint32_t random_word(const TwoLevelLaunch& launch, std::int64_t element) {
  const RandomStream& random = launch.job.random;
  const auto i = static_cast<std::uint64_t>(element);
  return philox_word(launch.keys,
                     philox_series(launch.keys, static_cast<std::uint32_t>(i >> 32), random.stream, random.step),
                     static_cast<std::uint32_t>(i));
}

// The squares of a line's errors under a scale.
__device__ __forceinline__ void errors_of(const Words& words, const Encoder& encoder, float amax, LineValues& errors) {
#pragma unroll
  for (int i = 0; i < kSide; ++i)
    errors[i] = squared_error(float_of(words[i] << 16), encoder.value<false>(words[i], 0), amax);
}
__device__ __forceinline__ float sum_in_order(float sum, const LineValues& errors, int count) {
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (i < count) sum = sum_of(sum, errors[i]);
  }
  return sum;
}

// The values of a line whose block has this encoder.
template <bool kStochastic>
__device__ __forceinline__ void write_line(const TwoLevelLaunch& launch, const Line& line, const Words& words,
                                           const Encoder& encoder) {
  const TwoLevelJob& job = launch.job;
#pragma unroll 1
  for (int i = 0; i < line.count; ++i) {
    const std::int64_t element = (line.row + (line.down ? i : 0)) * job.cols + line.col + (line.down ? 0 : i);
    const std::uint32_t random = kStochastic ? random_word(launch, element) : 0;
    job.values[element] = static_cast<std::uint16_t>(to_bf16x2(encoder.value<kStochastic>(words[i], random), 0));
  }
}

// A block that is one line, altogether.
template <bool kFourOverSix, bool kStochastic>
__device__ __noinline__ void write_by_definition(const TwoLevelLaunch& launch, const Line& line) {
  Words words;
  load_line(launch.job, line, words);
  const TensorScale outer = tensor_scale_of(kFourOverSix, *launch.job.amax);
  const std::uint32_t amax = amax_that_counts(words, !kFourOverSix);
  Encoder encoder = encoder_of(kFourOverSix, outer, amax, 1);
  if constexpr (kFourOverSix) {
    const Encoder four = encoder_of(true, outer, amax, 1.5F);
    LineValues errors;
    errors_of(words, four, outer.amax, errors);
    const float of_four = sum_in_order(0, errors, line.count);
    errors_of(words, encoder, outer.amax, errors);
    if (of_four < sum_in_order(0, errors, line.count)) encoder = four;
  }
  write_line<kStochastic>(launch, line, words, encoder);
}

// ---- Squares: 16 threads, a line each ----

struct Square {
  std::int64_t row = 0;
  std::int64_t col = 0;
  int rows = 0;
  int cols = 0;
  int number = 0;  // of the thread

  __device__ __forceinline__ int lines(bool down) const { return down ? cols : rows; }
  __device__ __forceinline__ Line line(bool down) const {
    if (number >= lines(down)) return {row, col, 0, down};
    return {row + (down ? 0 : number), col + (down ? number : 0), lines(!down), down};
  }
};

// The square of a thread's items, none past the tile's last.
__device__ __forceinline__ Square find_square(const RowTile& tile, std::int64_t cols, const Items& items) {
  Square s;
  s.number = static_cast<int>(threadIdx.x) % kSide;
  const std::int64_t row = std::int64_t{items.row} * kSide;
  if (row >= tile.rows) return s;
  s.row = tile.first + row, s.col = std::int64_t{items.block} * kSide;
  s.rows = line_count(tile.rows - row), s.cols = line_count(cols - s.col);
  return s;
}

// The sum of a square's errors, line after line: each takes the sum of those before it. All threads of a warp.
__device__ __forceinline__ float sum_of_lines(const LineValues& errors, int number, int count, int lines) {
  const int base = static_cast<int>(threadIdx.x) % 32 / kSide * kSide;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < kSide; ++k) {
    const float before = __shfl_sync(0xFFFFFFFF, sum, base + max(k - 1, 0));
    if (number == k && k < lines) sum = sum_in_order(k == 0 ? 0.0F : before, errors, count);
  }
  return __shfl_sync(0xFFFFFFFF, sum, base + max(lines - 1, 0));
}

// All threads of a warp; the lines of those with `writes`.
template <bool kFourOverSix>
__device__ __noinline__ void write_square_by_definition(const TwoLevelLaunch& launch, const Square& square,
                                                        bool writes) {
  const TwoLevelJob& job = launch.job;
  const bool down = kFourOverSix && job.by_columns;  // errors are added column by column
  const Line line = square.line(down);
  Words words;
  load_line(job, line, words);
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  const std::uint32_t amax = largest_of(amax_that_counts(words, !kFourOverSix), kSide);
  Encoder encoder = encoder_of(kFourOverSix, outer, amax, 1);
  if constexpr (kFourOverSix) {
    const Encoder four = encoder_of(true, outer, amax, 1.5F);
    LineValues errors;
    errors_of(words, four, outer.amax, errors);
    const float of_four = sum_of_lines(errors, square.number, line.count, square.lines(down));
    errors_of(words, encoder, outer.amax, errors);
    if (of_four < sum_of_lines(errors, square.number, line.count, square.lines(down))) encoder = four;
  }
  if (writes) write_line<false>(launch, line, words, encoder);
}

}  // namespace mxcheck_kernels::sm90
