// Operands in NVFP4 in three kernels, a block of 16 a thread: the rotation, the amax of the matrix, and the values. A
// square of 16 x 16 is a thread's too: weights have few, and under Four Over Six the errors of a block are added in
// order.

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

// A block: rows [first, first + rows) by columns [col, col + cols).
struct BlockPlace {
  std::int64_t first = 0;
  int rows = 0;
  std::int64_t col = 0;
  int cols = 0;
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

// The block of number `item` of a tile; false where there is none.
template <TwoLevelBlocks kBlocks>
__device__ __forceinline__ bool find_block(const RowTile& tile, std::int64_t cols, std::int64_t item,
                                           BlockPlace& place) {
  constexpr int kRows = kBlocks == TwoLevelBlocks::rows ? 1 : kSide;
  constexpr int kCols = kBlocks == TwoLevelBlocks::columns ? 1 : kSide;
  const std::int64_t across = (cols + kCols - 1) / kCols;
  const std::int64_t row = item / across * kRows;
  if (row >= tile.rows) return false;
  place.first = tile.first + row;
  place.rows = static_cast<int>(min(std::int64_t{kRows}, tile.rows - row));
  place.col = item % across * kCols;
  place.cols = static_cast<int>(min(std::int64_t{kCols}, cols - place.col));
  return true;
}

// x at a row of the matrix.
struct Source {
  const std::uint16_t* x;
  const std::int32_t* index;
  std::int64_t cols;

  __device__ __forceinline__ std::uint32_t at(std::int64_t row, std::int64_t col) const {
    const std::int64_t from = index == nullptr ? row : __ldg(index + row);
    return __ldg(x + from * cols + col);
  }
};

// A block's elements: a row or a column in registers, a square in memory.
template <TwoLevelBlocks kBlocks>
struct Elements {
  std::uint32_t words[kSide];

  __device__ __forceinline__ Elements(const Source& from, const BlockPlace& place, bool) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const bool by_column = kBlocks == TwoLevelBlocks::columns;
      const bool inside = i < (by_column ? place.rows : place.cols);
      words[i] = inside ? from.at(place.first + (by_column ? i : 0), place.col + (by_column ? 0 : i)) : 0;
    }
  }
  // body(i, word) for each element, i being its number in the block, row by row.
  template <class Body>
  __device__ __forceinline__ void each(const BlockPlace& place, const Body& body) const {
    const int count = place.rows * place.cols;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      if (i < count) body(i, words[i]);
    }
  }
};

template <>
struct Elements<TwoLevelBlocks::squares> {
  Source from;
  bool by_columns;

  __device__ __forceinline__ Elements(const Source& source, const BlockPlace&, bool columns)
      : from(source), by_columns(columns) {}
  template <class Body>
  __device__ __forceinline__ void each(const BlockPlace& place, const Body& body) const {
    const int outer = by_columns ? place.cols : place.rows;
    const int inner = by_columns ? place.rows : place.cols;
#pragma unroll 1
    for (int o = 0; o < outer; ++o) {
      for (int i = 0; i < inner; ++i) {
        const int r = by_columns ? i : o;
        const int c = by_columns ? o : i;
        body(r * place.cols + c, from.at(place.first + r, place.col + c));
      }
    }
  }
};

// The largest magnitude, as a number of bits: a NaN is above all numbers, and does not count where it is dropped.
template <class Elements>
__device__ __forceinline__ std::uint32_t amax_of(const Elements& elements, const BlockPlace& place, bool drops_nan) {
  std::uint32_t amax = 0;
  elements.each(place, [&](int, std::uint32_t word) {
    const std::uint32_t magnitude = word & 0x7FFF;
    if (!(drops_nan && magnitude > kInfinityBf16)) amax = max(amax, magnitude);
  });
  return amax;
}

// ---- The kernels ----

// A column of 16 rows: butterflies of FP32 sums, times 1 / 4, to BF16. Fewer rows stay as they are.
__global__ void __launch_bounds__(kThreads) rotate(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  BlockPlace place;
  const std::int64_t item = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (!find_rows(launch, tile) || !find_block<TwoLevelBlocks::columns>(tile, job.cols, item, place)) return;
  const Elements<TwoLevelBlocks::columns> elements({job.x, job.index, job.cols}, place, false);
  std::uint16_t* const to = job.rotated + place.first * job.cols + place.col;
  if (place.rows < kSide) {
    elements.each(place, [&](int i, std::uint32_t word) { to[i * job.cols] = static_cast<std::uint16_t>(word); });
    return;
  }
  constexpr std::uint32_t kSigns = 0xD7E8;  // bit i: element i changes its sign
  float y[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) y[i] = float_of((elements.words[i] ^ (kSigns >> i & 1U) << 15) << 16);
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
  for (int i = 0; i < kSide; ++i) to[i * job.cols] = static_cast<std::uint16_t>(to_bf16x2(product(y[i], 0.25F), 0));
}

// What the amax and the values are of: x, or x rotated.
__device__ __forceinline__ Source source_of(const TwoLevelJob& job) {
  return job.rule.rotates ? Source{job.rotated, nullptr, job.cols} : Source{job.x, job.index, job.cols};
}

template <TwoLevelBlocks kBlocks>
__global__ void __launch_bounds__(kThreads) find_amax(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  if (!find_rows(launch, tile)) return;
  BlockPlace place;
  std::uint32_t amax = 0;
  const std::int64_t item = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (find_block<kBlocks>(tile, job.cols, item, place)) {
    amax = amax_of(Elements<kBlocks>(source_of(job), place, false), place, !job.rule.four_over_six);
  }
  amax = __reduce_max_sync(0xFFFFFFFF, amax);
  // Most warps find a larger one there, and do not wait for their turn.
  if (threadIdx.x % 32 == 0 && amax > *static_cast<volatile std::uint32_t*>(job.amax)) atomicMax(job.amax, amax);
}

template <bool kStochastic>
struct Encoder {
  const TwoLevelJob& job;
  const BlockPlace& place;
  float b;
  float factor;

  __device__ __forceinline__ std::uint32_t word_of(int i) const {
    if (!kStochastic) return 0;
    const std::int64_t at = (place.first + i / place.cols) * job.cols + place.col + i % place.cols;
    return philox_word(job.random.seed, static_cast<std::uint32_t>(at),
                       static_cast<std::uint32_t>(static_cast<std::uint64_t>(at) >> 32), job.random.stream,
                       job.random.step);
  }
  // code * b: exact. The FP32 of an x is its BF16 word, shifted.
  __device__ __forceinline__ float value(int i, std::uint32_t word) const {
    const float x = float_of(word << 16);
    if (is_nan(b)) return b;
    return product(is_nan(x) ? 6.0F : code_value_of<kStochastic>(x, factor, word_of(i)), b);
  }
};

// The errors of a block under a scale, added in order.
template <class Elements>
__device__ __forceinline__ float error_of(const Elements& elements, const BlockPlace& place,
                                          const Encoder<false>& encoder, const TensorScale& outer) {
  float sum = 0;
  elements.each(place, [&](int i, std::uint32_t word) {
    sum = with_error(sum, float_of(word << 16), encoder.value(i, word), outer);
  });
  return sum;
}

template <TwoLevelBlocks kBlocks, bool kFourOverSix, bool kStochastic>
__global__ void __launch_bounds__(kThreads) quantize(const __grid_constant__ Launch launch) {
  const TwoLevelJob& job = launch.job;
  RowTile tile;
  BlockPlace place;
  const std::int64_t item = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (!find_rows(launch, tile) || !find_block<kBlocks>(tile, job.cols, item, place)) return;
  const TensorScale outer = tensor_scale_of(kFourOverSix, *job.amax);
  const Elements<kBlocks> elements(source_of(job), place, job.by_columns);
  const std::uint32_t amax = amax_of(elements, place, !kFourOverSix);
  float b = block_scale_of(kFourOverSix, outer, amax, 1);
  if constexpr (kFourOverSix) {
    const float four = block_scale_of(true, outer, amax, 1.5F);
    const Encoder<false> by_six{job, place, b, factor_of(true, outer, b)};
    const Encoder<false> by_four{job, place, four, factor_of(true, outer, four)};
    if (error_of(elements, place, by_four, outer) < error_of(elements, place, by_six, outer)) b = four;
  }
  const Encoder<kStochastic> encoder{job, place, b, factor_of(kFourOverSix, outer, b)};
  std::uint16_t* const to = job.values + place.first * job.cols + place.col;
  elements.each(place, [&](int i, std::uint32_t word) {
    to[i / place.cols * job.cols + i % place.cols] = static_cast<std::uint16_t>(to_bf16x2(encoder.value(i, word), 0));
  });
}

__device__ __forceinline__ float outer_scale(const std::uint32_t* amax, float unit) {
  return amax == nullptr ? 1.0F : quotient(float_of(*amax << 16), unit);
}

__global__ void __launch_bounds__(kThreads) times_alpha(const __grid_constant__ AlphaJob job) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  const float alpha = product(outer_scale(job.amax_a, job.unit_a), outer_scale(job.amax_b, job.unit_b));
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < job.count; i += step) {
    const float d = product(alpha, job.acc[i]);
    if (job.to_bf16) {
      static_cast<std::uint16_t*>(job.d)[i] = static_cast<std::uint16_t>(to_bf16x2(d, 0));
    } else {
      static_cast<float*>(job.d)[i] = d;
    }
  }
}

// ---- Launches ----

template <TwoLevelBlocks kBlocks>
void start(const Launch& launch, const dim3& grid, cudaStream_t stream) {
  const TwoLevelRule& rule = launch.job.rule;
  find_amax<kBlocks><<<grid, kThreads, 0, stream>>>(launch);
  if (rule.four_over_six) {
    quantize<kBlocks, true, false><<<grid, kThreads, 0, stream>>>(launch);
  } else if (rule.stochastic) {
    quantize<kBlocks, false, true><<<grid, kThreads, 0, stream>>>(launch);
  } else {
    quantize<kBlocks, false, false><<<grid, kThreads, 0, stream>>>(launch);
  }
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
  // Items of a tile: rows have one for 16 columns in each of 128 rows, columns one for 16 rows, squares fewer.
  const std::int64_t columns = std::int64_t{kTileRows} / kSide * job.cols;
  const std::int64_t rows = kTileRows * divide_up(job.cols, kSide);
  constexpr std::int64_t kMostAcross = 65535;
  const std::int64_t across = divide_up(std::max(columns, rows), kThreads);
  if (tiles > kMost || across > kMostAcross || (job.rule.stochastic && job.rule.four_over_six))
    return cudaErrorInvalidValue;
  const Launch launch{job, static_cast<unsigned>(expert_tiles)};
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(across));
  if (job.rule.rotates) rotate<<<grid, kThreads, 0, stream>>>(launch);
  switch (job.blocks) {
    case TwoLevelBlocks::rows: start<TwoLevelBlocks::rows>(launch, grid, stream); break;
    case TwoLevelBlocks::columns: start<TwoLevelBlocks::columns>(launch, grid, stream); break;
    case TwoLevelBlocks::squares: start<TwoLevelBlocks::squares>(launch, grid, stream); break;
  }
  return cudaGetLastError();
}

cudaError_t launch_alpha(const AlphaJob& job, cudaStream_t stream) {
  if (job.count == 0) return cudaSuccess;
  constexpr std::int64_t kEachThread = 8;
  const std::int64_t blocks = std::min<std::int64_t>(divide_up(job.count, kThreads * kEachThread), kMost);
  times_alpha<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
