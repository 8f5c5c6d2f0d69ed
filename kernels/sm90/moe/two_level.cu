// Operands in NVFP4 in two kernels: the amax of the matrix, and the values. A rotation is done in both: its sums are
// cheaper than writing and reading what it gives. A thread has 16 elements of a row, 16 rows of two columns, or a row
// of a square of 16 x 16. Lines whose numbers are out of the ordinary, one in thousands, take the way of
// two_level_lines.cuh.

#include "kernels/sm90/moe/two_level.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/sm90/moe/square_codes.h"
#include "kernels/sm90/moe/two_level_lines.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = kTwoLevelThreads;
constexpr int kLinesOfThread = 4;    // one after another, along rows
constexpr int kSquaresOfThread = 2;  // likewise
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// ---- Values of words of two numbers ----
//
// The halves of all words are one block, or, down, one each: rows of two columns.

// A block's scales under Four Over Six; easy: its codes need not be found by the definition. The tensor's scale is
// near_one.
struct BothScales {
  NearScale four, six;
  SixOrFour near_four, near_six;
  float largest;
  bool alike;
  bool easy;
};
__device__ __forceinline__ BothScales both_scales(const TensorScale& outer, std::uint32_t amax) {
  BothScales s;
  s.four = near_scale_of(true, outer, amax, 1.5F), s.six = near_scale_of(true, outer, amax, 1);
  s.near_four = six_or_four(s.four.b, s.four.factor, outer.unit);
  s.near_six = six_or_four(s.six.b, s.six.factor, outer.unit);
  s.largest = float_of(amax << 16);
  s.alike = s.four.b == s.six.b;  // 0
  s.easy = s.alike || is_ordinary(outer.amax, s.largest, s.near_four, s.near_six);
  return s;
}

// Codes under both scales, and what comes near the sums of their squared errors in either half.
template <int kCount>
struct NearCodes {
  std::uint32_t four[kCount], six[kCount];
  float of_four[2] = {}, of_six[2] = {};
};
template <int kCount>
__device__ __forceinline__ void find_near(const std::uint32_t (&words)[kCount], const BothScales& lower,
                                          const BothScales& upper, NearCodes<kCount>& near) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float low = magnitude_of(lower_of(words[i])), high = magnitude_of(upper_of(words[i]));
    near.four[i] =
        packed(add_near(low, lower.near_four, near.of_four[0]), add_near(high, upper.near_four, near.of_four[1]));
    near.six[i] = packed(add_near(low, lower.near_six, near.of_six[0]), add_near(high, upper.near_six, near.of_six[1]));
  }
}

template <int kCount>
__device__ __forceinline__ void choose(const NearCodes<kCount>& near, std::uint32_t fours, const BothScales& lower,
                                       const BothScales& upper, std::uint32_t (&words)[kCount]) {
  const std::uint32_t b = (fours & packed(lower.four.b, upper.four.b)) | (~fours & packed(lower.six.b, upper.six.b));
#pragma unroll
  for (int i = 0; i < kCount; ++i) words[i] = value_of((fours & near.four[i]) | (~fours & near.six[i]), b, words[i]);
}

__device__ __forceinline__ Stretch choice_of(const BothScales& scales, float of_four, float of_six, int n) {
  return scales.alike ? Stretch::six : stretch_of(scales.largest, of_four, of_six, n);
}

// Values in place. False where the definition's way is needed.
template <bool kDown, int kCount>
__device__ __forceinline__ bool round_four_over_six(const TensorScale& outer, std::uint32_t (&words)[kCount]) {
  if (!outer.near_one) return false;
  const std::uint32_t amax = amax_of_pairs(words);
  NearCodes<kCount> near;
  if constexpr (kDown) {
    const BothScales lower = both_scales(outer, amax & 0xFFFF), upper = both_scales(outer, amax >> 16);
    if (!lower.easy || !upper.easy) return false;
    find_near(words, lower, upper, near);
    const Stretch left = choice_of(lower, near.of_four[0], near.of_six[0], kSide);
    const Stretch right = choice_of(upper, near.of_four[1], near.of_six[1], kSide);
    if (left == Stretch::by_definition || right == Stretch::by_definition) return false;
    choose(near, (left == Stretch::four ? 0xFFFF : 0) | (right == Stretch::four ? 0xFFFF0000 : 0), lower, upper, words);
  } else {
    const BothScales scales = both_scales(outer, amax_of_both(amax));
    if (!scales.easy) return false;
    find_near(words, scales, scales, near);
    const Stretch stretch =
        choice_of(scales, sum_of(near.of_four[0], near.of_four[1]), sum_of(near.of_six[0], near.of_six[1]), kSide);
    if (stretch == Stretch::by_definition) return false;
    choose(near, stretch == Stretch::four ? 0xFFFFFFFF : 0, scales, scales, words);
  }
  return true;
}

// nvfp4_te: the scales of both halves.
template <bool kDown>
__device__ __forceinline__ void find_scales(const TensorScale& outer, std::uint32_t amax, NearScale (&scales)[2]) {
  scales[0] = near_scale_of(false, outer, kDown ? amax & 0xFFFF : amax_of_both(amax), 1);
  scales[1] = kDown ? near_scale_of(false, outer, amax >> 16, 1) : scales[0];
}

template <int kCount>
__device__ __forceinline__ void round_to_nearest(const NearScale (&scales)[2], std::uint32_t (&words)[kCount]) {
  const std::uint32_t b = packed(scales[0].b, scales[1].b);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float lower = product(magnitude_of(lower_of(words[i])), scales[0].factor);
    const float upper = product(magnitude_of(upper_of(words[i])), scales[1].factor);
    words[i] = value_of(packed(e2m1_below_7(lower), e2m1_below_7(upper)), b, words[i]);
  }
}

// By the words of element `first` and the next one, and so on, `step` from a word to the next. False where elements'
// upper words are not alike, or a number is NaN.
template <bool kDown, int kCount>
__device__ __forceinline__ bool round_by_words(const TwoLevelLaunch& launch, const TensorScale& outer,
                                               std::int64_t first, std::int64_t step, std::uint32_t (&words)[kCount]) {
  const std::uint32_t amax = amax_of_pairs(words);
  const auto upper_word = [](std::int64_t i) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) >> 32);
  };
  if (!outer.near_one || amax_of_both(amax) > kInfinityBf16 || upper_word(first) != upper_word(first + kCount * step))
    return false;
  const PhiloxSeries series =
      philox_series(launch.keys, upper_word(first), launch.job.random.stream, launch.job.random.step);
  NearScale scales[2];
  find_scales<kDown>(outer, amax, scales);
  const std::uint32_t b = packed(scales[0].b, scales[1].b);
  const std::uint64_t further = philox_product(static_cast<std::uint32_t>(step));
  std::uint64_t at = philox_product(static_cast<std::uint32_t>(first));
#pragma unroll
  for (int i = 0; i < kCount; ++i, at += further) {
    const float lower = product(magnitude_of(lower_of(words[i])), scales[0].factor);
    const float upper = product(magnitude_of(upper_of(words[i])), scales[1].factor);
    const float low = e2m1_by_word(lower, philox_words(launch.keys, series, at).w[0]);
    const float high = e2m1_by_word(upper, philox_words(launch.keys, series, at + philox_product(1)).w[0]);
    words[i] = value_of(packed(low, high), b, words[i]);
  }
  return true;
}

template <bool kFourOverSix, bool kStochastic, bool kDown, int kCount>
__device__ __forceinline__ bool round_words(const TwoLevelLaunch& launch, const TensorScale& outer, const Line& line,
                                            std::uint32_t (&words)[kCount]) {
  if constexpr (kFourOverSix) {
    return round_four_over_six<kDown>(outer, words);
  } else if constexpr (kStochastic) {
    return round_by_words<kDown>(launch, outer, line.row * launch.job.cols + line.col, kDown ? launch.job.cols : 2,
                                 words);
  } else {
    const std::uint32_t amax = amax_of_pairs(words);
    NearScale scales[2];
    find_scales<kDown>(outer, amax, scales);
    const float low = float_of((kDown ? amax & 0xFFFF : amax_of_both(amax)) << 16), high = upper_of(amax);
    if (!outer.near_one || !(product(low, scales[0].factor) < 7)) return false;
    if (kDown && !(product(high, scales[1].factor) < 7)) return false;
    round_to_nearest(scales, words);
    return true;
  }
}

// ---- Rows ----

__global__ void __launch_bounds__(kThreads) amax_of_rows(const __grid_constant__ TwoLevelLaunch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  RowWords words[kLinesOfThread];
  Items items(blockIdx.x * (kThreads * kLinesOfThread) + threadIdx.x, job.cols, kThreads);
#pragma unroll
  for (int k = 0; k < kLinesOfThread; ++k, items.next()) {
    Line line;
    const bool is_there = find_row(tile, job.cols, items, line);
    load_row(is_there ? source_at(job, line.row, line.col) : nullptr, line.count, words[k]);
  }
  std::uint32_t amax = 0;
#pragma unroll
  for (int k = 0; k < kLinesOfThread; ++k) amax = max(amax, amax_that_counts(words[k], !job.rule.four_over_six));
  add_amax(job.amax, amax);
}

template <bool kFourOverSix, bool kStochastic>
__global__ void __launch_bounds__(kThreads, kFourOverSix ? 4 : 0)
    quantize_rows(const __grid_constant__ TwoLevelLaunch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  Items items(blockIdx.x * (kThreads * kLinesOfThread) + threadIdx.x, job.cols, kThreads);
  RowWords words, next;
  Line line;
  if (!find_row(tile, job.cols, items, line)) return;
  load_row(source_at(job, line.row, line.col), line.count, words);
#pragma unroll 1
  for (int k = 1;; ++k) {
    items.next();
    Line following;
    const bool goes_on = k < kLinesOfThread && find_row(tile, job.cols, items, following);
    if (goes_on) load_row(source_at(job, following.row, following.col), following.count, next);
    if (round_words<kFourOverSix, kStochastic, false>(launch, outer, line, words)) {
      store_row(job.values + line.row * job.cols + line.col, line.count, words);
    } else {
      write_by_definition<kFourOverSix, kStochastic>(launch, line);
    }
    if (!goes_on) return;
    line = following;
#pragma unroll
    for (int i = 0; i < kSide / 2; ++i) words[i] = next[i];
  }
}

// ---- Columns ----

// Two columns, rotated where they have 16 rows.
template <bool kRotates>
__device__ __forceinline__ void load_columns(const TwoLevelJob& job, const Line& line, PairWords& words) {
  load_pairs(job, line, words);
  if constexpr (kRotates) {
    if (line.count == kSide) rotate_pairs(words);
  }
}

template <bool kRotates>
__global__ void __launch_bounds__(kThreads) amax_of_columns(const __grid_constant__ TwoLevelLaunch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  Line line;
  std::uint32_t amax = 0;
  if (find_columns(tile, job.cols, line)) {
    PairWords words;
    load_columns<kRotates>(job, line, words);
    amax = amax_that_counts(words, !job.rule.four_over_six);
  }
  add_amax(job.amax, amax);
}

template <bool kFourOverSix, bool kStochastic, bool kRotates>
__global__ void __launch_bounds__(kThreads, kFourOverSix ? 3 : 0)
    quantize_columns(const __grid_constant__ TwoLevelLaunch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  Line line;
  if (!find_rows(launch, tile) || !find_columns(tile, job.cols, line)) return;
  PairWords words;
  load_columns<kRotates>(job, line, words);
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  if (!round_words<kFourOverSix, kStochastic, true>(launch, outer, line, words)) {
    write_by_definition<kFourOverSix, kStochastic>(launch, line);
    return write_by_definition<kFourOverSix, kStochastic>(launch, {line.row, line.col + 1, line.count, true});
  }
  store_pairs(job, line, words);
}

// ---- Squares: eight lanes ----

constexpr int kLanesOfSquare = 8;
constexpr int kPieces = kSide * 2 / kLanesOfSquare;
static_assert(kThreads / kLanesOfSquare * kSquaresOfThread * kSide == kThreads * kLinesOfThread);  // of one grid
using SquareWords = std::uint32_t[kPieces * 4];

// A thread has 8 elements of every fourth row, neighbouring lanes those beside them: which ones does not matter.
struct Pieces {
  std::int64_t first;  // of job.x and job.values
  std::int64_t step;
  int rows;  // of the square from the first on
};
__device__ __forceinline__ Pieces pieces_of(const TwoLevelJob& job, const Square& square) {
  const int lane = static_cast<int>(threadIdx.x) % kLanesOfSquare;
  const int col = lane % 2 * 8;
  return {(square.row + lane / 2) * job.cols + square.col + col, 4 * job.cols,
          col < square.cols ? square.rows - lane / 2 : 0};
}
__device__ __forceinline__ void load_pieces(const std::uint16_t* x, const Pieces& pieces, SquareWords& words) {
  x += pieces.first;
#pragma unroll
  for (int i = 0; i < kPieces; ++i, x += pieces.step) {
    uint4 v{0, 0, 0, 0};
    if (4 * i < pieces.rows) v = __ldg(reinterpret_cast<const uint4*>(x));
    words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
  }
}
__device__ __forceinline__ void store_pieces(std::uint16_t* to, const Pieces& pieces, const SquareWords& words) {
  to += pieces.first;
#pragma unroll
  for (int i = 0; i < kPieces; ++i, to += pieces.step) {
    const std::uint32_t* const w = words + 4 * i;
    if (4 * i < pieces.rows) *reinterpret_cast<uint4*>(to) = make_uint4(w[0], w[1], w[2], w[3]);
  }
}

__device__ __forceinline__ float sum_of_square(float sum) {
#pragma unroll
  for (int h = 1; h < kLanesOfSquare; h *= 2) sum = sum_of(sum, __shfl_xor_sync(kAllLanes, sum, h));
  return sum;
}

// Values in place. False where the definition's way is needed. All threads of a warp.
template <bool kFourOverSix>
__device__ __forceinline__ bool round_square(const TensorScale& outer, SquareWords& words) {
  const std::uint32_t amax = largest_of(amax_of_both(amax_of_pairs(words)), kLanesOfSquare);
  if constexpr (kFourOverSix) {
    const BothScales scales = both_scales(outer, amax);
    NearCodes<kPieces * 4> near;
    find_near(words, scales, scales, near);
    const float of_four = sum_of_square(sum_of(near.of_four[0], near.of_four[1]));
    const float of_six = sum_of_square(sum_of(near.of_six[0], near.of_six[1]));
    const Stretch stretch = choice_of(scales, of_four, of_six, kSide * kSide);
    choose(near, stretch == Stretch::four ? 0xFFFFFFFF : 0, scales, scales, words);
    return outer.near_one && scales.easy && stretch != Stretch::by_definition;
  } else {
    const NearScale scale = near_scale_of(false, outer, amax, 1);
    round_to_nearest({scale, scale}, words);
    return outer.near_one && product(float_of(amax << 16), scale.factor) < 7;
  }
}

// The squares of a warp that need the definition's way, two of them at once by 16 lanes each. All threads of a warp.
template <bool kFourOverSix>
__device__ __noinline__ void write_squares(const TwoLevelLaunch& launch, const RowTile& tile, unsigned first,
                                           unsigned left) {
  constexpr int kSquares = 32 / kLanesOfSquare;
#pragma unroll 1
  for (int k = 0; k < kSquares; k += 2) {
    const int mine = k + static_cast<int>(threadIdx.x) % 32 / kSide;
    const bool writes = (left >> (mine * kLanesOfSquare) & 1U) != 0;
    const Items items(first + static_cast<unsigned>(mine), launch.job.cols, 1);
    write_square_by_definition<kFourOverSix>(launch, find_square(tile, launch.job.cols, items), writes);
  }
}

template <bool kFourOverSix>
__global__ void __launch_bounds__(kThreads, kFourOverSix ? 3 : 0)
    quantize_squares(const __grid_constant__ TwoLevelLaunch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  constexpr unsigned kSquares = kThreads / kLanesOfSquare;
  unsigned first = blockIdx.x * (kSquares * kSquaresOfThread) + threadIdx.x / kLanesOfSquare;
  Items items(first, job.cols, kSquares);
#pragma unroll 1
  for (int k = 0; k < kSquaresOfThread; ++k, items.next(), first += kSquares) {
    const Pieces pieces = pieces_of(job, find_square(tile, job.cols, items));
    SquareWords words;
    load_pieces(job.x, pieces, words);
    const bool found = round_square<kFourOverSix>(outer, words);
    if (found) store_pieces(job.values, pieces, words);
    const unsigned left = __ballot_sync(kAllLanes, !found);
    if (left != 0) write_squares<kFourOverSix>(launch, tile, first - threadIdx.x % 32 / kLanesOfSquare, left);
  }
}

// ---- Alpha ----

__device__ __forceinline__ float outer_scale(const std::uint32_t* amax, float unit) {
  return amax == nullptr ? 1.0F : quotient(float_of(*amax << 16), unit);
}

__global__ void make_alpha(const __grid_constant__ AlphaJob job) {
  *job.alpha = product(outer_scale(job.amax_a, job.unit_a), outer_scale(job.amax_b, job.unit_b));
}

// ---- Launches ----

struct Grids {
  dim3 columns;
  dim3 rows;  // also of squares
};

void start_rows(const TwoLevelLaunch& launch, const Grids& grids, cudaStream_t stream) {
  const TwoLevelRule& rule = launch.job.rule;
  amax_of_rows<<<grids.rows, kThreads, 0, stream>>>(launch);
  if (rule.four_over_six) {
    quantize_rows<true, false><<<grids.rows, kThreads, 0, stream>>>(launch);
  } else if (rule.stochastic) {
    quantize_rows<false, true><<<grids.rows, kThreads, 0, stream>>>(launch);
  } else {
    quantize_rows<false, false><<<grids.rows, kThreads, 0, stream>>>(launch);
  }
}

template <bool kRotates>
void start_columns(const TwoLevelLaunch& launch, const dim3& grid, cudaStream_t stream) {
  const TwoLevelRule& rule = launch.job.rule;
  amax_of_columns<kRotates><<<grid, kThreads, 0, stream>>>(launch);
  if (rule.four_over_six) {
    quantize_columns<true, false, kRotates><<<grid, kThreads, 0, stream>>>(launch);
  } else if (rule.stochastic) {
    quantize_columns<false, true, kRotates><<<grid, kThreads, 0, stream>>>(launch);
  } else {
    quantize_columns<false, false, kRotates><<<grid, kThreads, 0, stream>>>(launch);
  }
}

void start_squares(const TwoLevelLaunch& launch, const Grids& grids, cudaStream_t stream) {
  amax_of_rows<<<grids.rows, kThreads, 0, stream>>>(launch);
  if (launch.job.rule.four_over_six) {
    quantize_squares<true><<<grids.rows, kThreads, 0, stream>>>(launch);
  } else {
    quantize_squares<false><<<grids.rows, kThreads, 0, stream>>>(launch);
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
std::int64_t blocks_across(TwoLevelBlocks blocks, std::int64_t cols) {
  return divide_up(items_of(blocks, cols), kThreads);
}

}  // namespace

bool takes_two_level(TwoLevelBlocks blocks, std::int64_t cols) { return blocks_across(blocks, cols) <= kMostAcross; }

cudaError_t launch_two_level(const TwoLevelJob& job, cudaStream_t stream) {
  if (const cudaError_t e = launch_begin_amax(job.amax, job.rows.header, stream); e != cudaSuccess) return e;
  if (job.rows.rows == 0 || job.cols == 0) return cudaSuccess;
  const std::int64_t expert_tiles = divide_up(job.expert_rows, kTileRows);
  std::int64_t tiles = job.rows.tiles;
  if (job.rows.table == nullptr) tiles = divide_up(job.rows.rows, kTileRows);
  if (job.expert_rows != 0) tiles = job.rows.rows / job.expert_rows * expert_tiles;
  if (tiles == 0) return cudaSuccess;
  const std::int64_t across = blocks_across(job.blocks, job.cols);
  const bool rotates_others = job.rule.rotates && job.blocks != TwoLevelBlocks::columns;
  const bool rounds_others = job.rule.stochastic && (job.rule.four_over_six || job.blocks == TwoLevelBlocks::squares);
  if (tiles > kMost || !takes_two_level(job.blocks, job.cols) || rotates_others || rounds_others) {
    return cudaErrorInvalidValue;
  }
  const TwoLevelLaunch launch{job, philox_keys(job.random.seed), tiles, static_cast<unsigned>(expert_tiles)};
  const Grids grids{grid_of_tiles(tiles, across), grid_of_tiles(tiles, divide_up(across, kLinesOfThread))};
  switch (job.blocks) {
    case TwoLevelBlocks::rows: start_rows(launch, grids, stream); break;
    case TwoLevelBlocks::columns:
      if (job.rule.rotates) {
        start_columns<true>(launch, grids.columns, stream);
      } else {
        start_columns<false>(launch, grids.columns, stream);
      }
      break;
    case TwoLevelBlocks::squares: start_squares(launch, grids, stream); break;
  }
  return cudaGetLastError();
}

cudaError_t launch_alpha(const AlphaJob& job, cudaStream_t stream) {
  make_alpha<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
