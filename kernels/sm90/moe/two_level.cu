// Operands in NVFP4 in two kernels: the amax of the matrix, with the rotation where there is one, and the values. A
// thread has 16 elements of a row, 16 rows of two columns, or a line of a square of 16 x 16, whose errors under Four
// Over Six are added in order.

#include "kernels/sm90/moe/two_level.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/sm90/common/philox.cuh"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/two_level_values.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 16;
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

struct Launch {
  TwoLevelJob job;
  unsigned expert_tiles = 0;  // where experts are of expert_rows rows
};

// ---- Places ----

// Lines of 16 elements, or fewer at an edge: of a row, or of a column.
struct Line {
  std::int64_t row = 0;  // of its first element
  std::int64_t col = 0;
  int count = 0;
};

__device__ __forceinline__ bool find_rows(const Launch& launch, RowTile& tile) {
  const TwoLevelJob& job = launch.job;
  const unsigned t = blockIdx.x;
  if (job.expert_rows == 0) return find_tile(job.rows, t, kTileRows, tile);
  if (job.rows.header != nullptr && job.rows.header->status != MXCHECK_OK) return false;
  const std::int64_t begin = std::int64_t{t % launch.expert_tiles} * kTileRows;
  tile.first = static_cast<std::int32_t>(t / launch.expert_tiles * job.expert_rows + begin);
  tile.rows = static_cast<std::int32_t>(min(std::int64_t{kTileRows}, job.expert_rows - begin));
  return true;
}

__device__ __forceinline__ std::int64_t item_of_thread() { return std::int64_t{blockIdx.y} * kThreads + threadIdx.x; }
__device__ __forceinline__ int line_count(std::int64_t rest) {
  return static_cast<int>(min(std::int64_t{kSide}, rest));
}

// x, of which row i of the matrix is a row.
struct Source {
  const std::uint16_t* x;
  const std::int32_t* index;
  std::int64_t cols;

  __device__ __forceinline__ const std::uint16_t* at(std::int64_t row, std::int64_t col) const {
    const std::int64_t from = index == nullptr ? row : __ldg(index + row);
    return x + from * cols + col;
  }
};

using Words = std::uint32_t[kSide];  // BF16, one in each; zeros past the line's end

// Columns are a multiple of 8: a line has 8 elements or 16.
__device__ __forceinline__ void load_row(const std::uint16_t* from, int count, Words& words) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint4 v{0, 0, 0, 0};
    if (count > half * 8) v = __ldg(reinterpret_cast<const uint4*>(from) + half);
    const std::uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[half * 8 + 2 * i] = pairs[i] & 0xFFFF;
      words[half * 8 + 2 * i + 1] = pairs[i] >> 16;
    }
  }
}
__device__ __forceinline__ void store_row(std::uint16_t* to, int count, const Words& words) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (count <= half * 8) return;
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = words[half * 8 + 2 * i] | words[half * 8 + 2 * i + 1] << 16;
    reinterpret_cast<uint4*>(to)[half] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

// Two columns beside each other.
__device__ __forceinline__ void load_columns(const Source& source, const Line& line, Words (&words)[2]) {
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    std::uint32_t two = 0;
    if (i < line.count) two = __ldg(reinterpret_cast<const std::uint32_t*>(source.at(line.row + i, line.col)));
    words[0][i] = two & 0xFFFF, words[1][i] = two >> 16;
  }
}
__device__ __forceinline__ void store_columns(std::uint16_t* to, std::int64_t cols, const Line& line,
                                              const Words (&words)[2]) {
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (i < line.count)
      *reinterpret_cast<std::uint32_t*>(to + (line.row + i) * cols + line.col) = words[0][i] | words[1][i] << 16;
  }
}

// ---- Numbers ----

// The largest magnitude, as a number of bits: a NaN is above all numbers, and does not count where it is dropped.
__device__ __forceinline__ std::uint32_t amax_of(const Words& words, bool drops_nan) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    const std::uint32_t magnitude = words[i] & 0x7FFF;
    if (!(drops_nan && magnitude > kInfinityBf16)) amax = max(amax, magnitude);
  }
  return amax;
}

// A matrix's amax, of all threads of the block; those without elements have 0. Most warps find a larger one there, and
// do not wait for their turn.
__device__ __forceinline__ void add_amax(std::uint32_t* to, std::uint32_t amax) {
  amax = __reduce_max_sync(0xFFFFFFFF, amax);
  if (threadIdx.x % 32 == 0 && amax > *static_cast<volatile std::uint32_t*>(to)) atomicMax(to, amax);
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
__device__ __forceinline__ Encoder encoder_of(bool four_over_six, const TensorScale& outer, float b) {
  return {b, factor_of(four_over_six, outer, b)};
}

// A line by its values, `step` from one element to the next.
template <bool kStochastic>
__device__ __forceinline__ void encode(const TwoLevelJob& job, const Encoder& encoder, const Line& line,
                                       std::int64_t step, Words& words) {
  const std::int64_t first = line.row * job.cols + line.col;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    std::uint32_t random = 0;
    if constexpr (kStochastic) {
      const auto at = static_cast<std::uint64_t>(first + i * step);
      random = philox_word(job.random.seed, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32),
                           job.random.stream, job.random.step);
    }
    words[i] = to_bf16x2(encoder.value<kStochastic>(words[i], random), 0) & 0xFFFF;
  }
}

// The squares of a line's errors under a scale.
__device__ __forceinline__ void errors_of(const Words& words, const Encoder& encoder, const TensorScale& outer,
                                          float (&errors)[kSide]) {
#pragma unroll
  for (int i = 0; i < kSide; ++i)
    errors[i] = squared_error(float_of(words[i] << 16), encoder.value<false>(words[i], 0), outer.amax);
}
__device__ __forceinline__ float sum_in_order(float sum, const float (&errors)[kSide], int count) {
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (i < count) sum = sum_of(sum, errors[i]);
  }
  return sum;
}

// The encoder of a block that is one line.
template <bool kFourOverSix>
__device__ __forceinline__ Encoder encoder_of_line(const TensorScale& outer, const Words& words, int count) {
  const std::uint32_t amax = amax_of(words, !kFourOverSix);
  const Encoder six = encoder_of(kFourOverSix, outer, block_scale_of(kFourOverSix, outer, amax, 1));
  if constexpr (!kFourOverSix) return six;
  const Encoder four = encoder_of(true, outer, block_scale_of(true, outer, amax, 1.5F));
  float errors[kSide];
  errors_of(words, four, outer, errors);
  const float of_four = sum_in_order(0, errors, count);
  errors_of(words, six, outer, errors);
  return of_four < sum_in_order(0, errors, count) ? four : six;
}

// ---- Rows ----

__device__ __forceinline__ bool find_row(const RowTile& tile, std::int64_t cols, Line& line) {
  const std::int64_t across = (cols + kSide - 1) / kSide;
  const std::int64_t row = item_of_thread() / across;
  if (row >= tile.rows) return false;
  line.row = tile.first + row, line.col = item_of_thread() % across * kSide;
  line.count = line_count(cols - line.col);
  return true;
}

__global__ void __launch_bounds__(kThreads) amax_of_rows(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  Line line;
  std::uint32_t amax = 0;
  if (find_row(tile, job.cols, line)) {
    Words words;
    load_row(Source{job.x, job.index, job.cols}.at(line.row, line.col), line.count, words);
    amax = amax_of(words, !job.rule.four_over_six);
  }
  add_amax(job.amax, amax);
}

template <bool kFourOverSix, bool kStochastic>
__global__ void __launch_bounds__(kThreads) quantize_rows(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  Line line;
  if (!find_rows(launch, tile) || !find_row(tile, job.cols, line)) return;
  Words words;
  load_row(Source{job.x, job.index, job.cols}.at(line.row, line.col), line.count, words);
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  encode<kStochastic>(job, encoder_of_line<kFourOverSix>(outer, words, line.count), line, 1, words);
  store_row(job.values + line.row * job.cols + line.col, line.count, words);
}

// ---- Columns ----

// Two columns of 16 rows.
__device__ __forceinline__ bool find_columns(const RowTile& tile, std::int64_t cols, Line& line) {
  const std::int64_t across = cols / 2;
  const std::int64_t row = item_of_thread() / across * kSide;
  if (row >= tile.rows) return false;
  line.row = tile.first + row, line.col = item_of_thread() % across * 2;
  line.count = line_count(tile.rows - row);
  return true;
}

// 16 rows of a column: butterflies of FP32 sums, times 1 / 4, to BF16.
__device__ __forceinline__ void rotate(Words& words) {
  constexpr std::uint32_t kSigns = 0xD7E8;  // bit i: element i changes its sign
  float y[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) y[i] = float_of((words[i] ^ (kSigns >> i & 1U) << 15) << 16);
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
  for (int i = 0; i < kSide; ++i) words[i] = to_bf16x2(product(y[i], 0.25F), 0) & 0xFFFF;
}

// The amax of x, or of x rotated, which is written; fewer than 16 rows stay as they are.
template <bool kRotates>
__global__ void __launch_bounds__(kThreads) amax_of_columns(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  Line line;
  std::uint32_t amax = 0;
  if (find_columns(tile, job.cols, line)) {
    Words words[2];
    load_columns({job.x, job.index, job.cols}, line, words);
    if constexpr (kRotates) {
      if (line.count == kSide) rotate(words[0]), rotate(words[1]);
      store_columns(job.rotated, job.cols, line, words);
    }
    amax = max(amax_of(words[0], !job.rule.four_over_six), amax_of(words[1], !job.rule.four_over_six));
  }
  add_amax(job.amax, amax);
}

template <bool kFourOverSix, bool kStochastic>
__global__ void __launch_bounds__(kThreads) quantize_columns(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  Line line;
  if (!find_rows(launch, tile) || !find_columns(tile, job.cols, line)) return;
  Words words[2];
  load_columns(job.rule.rotates ? Source{job.rotated, nullptr, job.cols} : Source{job.x, job.index, job.cols}, line,
               words);
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const Encoder encoder = encoder_of_line<kFourOverSix>(outer, words[c], line.count);
    encode<kStochastic>(job, encoder, {line.row, line.col + c, line.count}, job.cols, words[c]);
  }
  store_columns(job.values, job.cols, line, words);
}

// ---- Squares: 16 threads, a line each, of a row, or of a column where errors are added by columns ----

struct Square {
  Line line;
  int lines = 0;  // with elements
  int number = 0;
  bool by_columns = false;

  __device__ __forceinline__ bool has_line() const { return number < lines; }
};
__device__ __forceinline__ Square find_square(const RowTile& tile, std::int64_t cols, bool by_columns) {
  Square s;
  const std::int64_t across = (cols + kSide - 1) / kSide;
  const std::int64_t square = item_of_thread() / kSide;
  const std::int64_t row = square / across * kSide;
  const std::int64_t col = square % across * kSide;
  if (row >= tile.rows) return s;
  const int rows = line_count(tile.rows - row);
  const int columns = line_count(cols - col);
  s.number = static_cast<int>(threadIdx.x) % kSide;
  s.by_columns = by_columns, s.lines = by_columns ? columns : rows;
  s.line = {tile.first + row + (by_columns ? 0 : s.number), col + (by_columns ? s.number : 0),
            by_columns ? rows : columns};
  return s;
}

__device__ __forceinline__ void load_line(const TwoLevelJob& job, const Square& s, Words& words) {
  const std::uint16_t* const from = job.x + s.line.row * job.cols + s.line.col;
  if (s.has_line() && !s.by_columns) return load_row(from, s.line.count, words);
#pragma unroll
  for (int i = 0; i < kSide; ++i) words[i] = s.has_line() && i < s.line.count ? __ldg(from + i * job.cols) : 0;
}
__device__ __forceinline__ void store_line(const TwoLevelJob& job, const Square& s, const Words& words) {
  std::uint16_t* const to = job.values + s.line.row * job.cols + s.line.col;
  if (!s.has_line()) return;
  if (!s.by_columns) return store_row(to, s.line.count, words);
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (i < s.line.count) to[i * job.cols] = static_cast<std::uint16_t>(words[i]);
  }
}

__global__ void __launch_bounds__(kThreads) amax_of_squares(const __grid_constant__ Launch launch) {
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  Words words;
  load_line(launch.job, find_square(tile, launch.job.cols, false), words);
  add_amax(launch.job.amax, amax_of(words, !launch.job.rule.four_over_six));
}

// The sum of a square's errors, line after line: each takes the sum of those before it.
__device__ __forceinline__ float sum_of_lines(const float (&errors)[kSide], const Square& s) {
  const int base = static_cast<int>(threadIdx.x) % 32 / kSide * kSide;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < kSide; ++k) {
    const float before = __shfl_sync(0xFFFFFFFF, sum, base + max(k - 1, 0));
    if (s.number == k && s.has_line()) sum = sum_in_order(k == 0 ? 0.0F : before, errors, s.line.count);
  }
  return __shfl_sync(0xFFFFFFFF, sum, base + max(s.lines - 1, 0));
}

template <bool kFourOverSix>
__global__ void __launch_bounds__(kThreads) quantize_squares(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  const Square s = find_square(tile, job.cols, kFourOverSix && job.by_columns);
  Words words;
  load_line(job, s, words);
  std::uint32_t amax = amax_of(words, !kFourOverSix);
#pragma unroll
  for (int h = 1; h < kSide; h *= 2) amax = max(amax, __shfl_xor_sync(0xFFFFFFFF, amax, h));
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  Encoder encoder = encoder_of(kFourOverSix, outer, block_scale_of(kFourOverSix, outer, amax, 1));
  if constexpr (kFourOverSix) {
    const Encoder four = encoder_of(true, outer, block_scale_of(true, outer, amax, 1.5F));
    float errors[kSide];
    errors_of(words, four, outer, errors);
    const float of_four = sum_of_lines(errors, s);
    errors_of(words, encoder, outer, errors);
    if (of_four < sum_of_lines(errors, s)) encoder = four;
  }
  encode<false>(job, encoder, s.line, 1, words);
  store_line(job, s, words);
}

// ---- Alpha ----

__device__ __forceinline__ float outer_scale(const std::uint32_t* amax, float unit) {
  return amax == nullptr ? 1.0F : quotient(float_of(*amax << 16), unit);
}

__global__ void make_alpha(const __grid_constant__ AlphaJob job) {
  *job.alpha = product(outer_scale(job.amax_a, job.unit_a), outer_scale(job.amax_b, job.unit_b));
}

// ---- Launches ----

void start_rows(const Launch& launch, const dim3& grid, cudaStream_t stream) {
  const TwoLevelRule& rule = launch.job.rule;
  amax_of_rows<<<grid, kThreads, 0, stream>>>(launch);
  if (rule.four_over_six) {
    quantize_rows<true, false><<<grid, kThreads, 0, stream>>>(launch);
  } else if (rule.stochastic) {
    quantize_rows<false, true><<<grid, kThreads, 0, stream>>>(launch);
  } else {
    quantize_rows<false, false><<<grid, kThreads, 0, stream>>>(launch);
  }
}

void start_columns(const Launch& launch, const dim3& grid, cudaStream_t stream) {
  const TwoLevelRule& rule = launch.job.rule;
  if (rule.rotates) {
    amax_of_columns<true><<<grid, kThreads, 0, stream>>>(launch);
  } else {
    amax_of_columns<false><<<grid, kThreads, 0, stream>>>(launch);
  }
  if (rule.four_over_six) {
    quantize_columns<true, false><<<grid, kThreads, 0, stream>>>(launch);
  } else if (rule.stochastic) {
    quantize_columns<false, true><<<grid, kThreads, 0, stream>>>(launch);
  } else {
    quantize_columns<false, false><<<grid, kThreads, 0, stream>>>(launch);
  }
}

void start_squares(const Launch& launch, const dim3& grid, cudaStream_t stream) {
  amax_of_squares<<<grid, kThreads, 0, stream>>>(launch);
  if (launch.job.rule.four_over_six) {
    quantize_squares<true><<<grid, kThreads, 0, stream>>>(launch);
  } else {
    quantize_squares<false><<<grid, kThreads, 0, stream>>>(launch);
  }
}

// Threads of a tile of 128 rows.
std::int64_t items_of(TwoLevelBlocks blocks, std::int64_t cols) {
  switch (blocks) {
    case TwoLevelBlocks::rows: return kTileRows * divide_up(cols, kSide);
    case TwoLevelBlocks::columns: return kTileRows / kSide * (cols / 2);
    case TwoLevelBlocks::squares: break;
  }
  return std::int64_t{kTileRows} * divide_up(cols, kSide);
}

}  // namespace

cudaError_t launch_two_level(const TwoLevelJob& job, cudaStream_t stream) {
  if (const cudaError_t e = cudaMemsetAsync(job.amax, 0, sizeof(*job.amax), stream); e != cudaSuccess) return e;
  if (job.rows.rows == 0 || job.cols == 0) return cudaSuccess;
  const std::int64_t expert_tiles = divide_up(job.expert_rows, kTileRows);
  std::int64_t tiles = job.rows.tiles;
  if (job.rows.table == nullptr) tiles = divide_up(job.rows.rows, kTileRows);
  if (job.expert_rows != 0) tiles = job.rows.rows / job.expert_rows * expert_tiles;
  if (tiles == 0) return cudaSuccess;
  constexpr std::int64_t kMostAcross = 65535;
  const std::int64_t across = divide_up(items_of(job.blocks, job.cols), kThreads);
  const bool rotates_others = job.rule.rotates && job.blocks != TwoLevelBlocks::columns;
  const bool rounds_others = job.rule.stochastic && (job.rule.four_over_six || job.blocks == TwoLevelBlocks::squares);
  if (tiles > kMost || across > kMostAcross || rotates_others || rounds_others) return cudaErrorInvalidValue;
  const Launch launch{job, static_cast<unsigned>(expert_tiles)};
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(across));
  switch (job.blocks) {
    case TwoLevelBlocks::rows: start_rows(launch, grid, stream); break;
    case TwoLevelBlocks::columns: start_columns(launch, grid, stream); break;
    case TwoLevelBlocks::squares: start_squares(launch, grid, stream); break;
  }
  return cudaGetLastError();
}

cudaError_t launch_alpha(const AlphaJob& job, cudaStream_t stream) {
  make_alpha<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
