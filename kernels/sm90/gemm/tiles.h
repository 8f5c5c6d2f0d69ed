#pragma once
// The tiles that a GEMM is cut into: one table of all shapes of tiles that there are, and how a row of it is chosen.
// The result of a GEMM does not depend on it.
//
// All CTAs are resident, one a processor, and each takes every `processors`-th tile; the CTAs of a cluster take tiles
// one above the other. With P processors, in clusters of c, a GEMM of T groups of c tiles and a depth of s stages takes
//
//   ceil(T / floor(P / c)) * (tile + s * stage)     and for each tile whose D is FP32 a `sum`, where C is added, or
//   `fp32`,
//
// where `stage` is the time of one stage of k in a tile of that shape and `tile` that of its epilogue and of filling
// the pipeline. What a launch costs, 3 us, is the same for all shapes. Loads of rows past the matrix's end are slow,
// which counts for the last row and column of tiles where they are not the only ones (kPastTheEnd). Groups count as
// equal ones: their ends are on the device. So are the counts of masked ones, which are taken for kMaskedRows.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {

// fp8_rows: with scales of 1 x 128 on both sides. mxfp8: an operand's codes decoded on their way, which a warp does
// between its mma and not during them.
enum class MatmulKernel : std::uint8_t { fp8, fp8_rows, bf16, mxfp8 };

// A stage is 128 bytes of a row of A and of B, or of B alone where A is codes that become BF16.
constexpr int stage_columns(MatmulKernel kernel) {
  return kernel == MatmulKernel::fp8 || kernel == MatmulKernel::fp8_rows ? 128 : 64;
}

struct TilesRow {
  MatmulKernel kernel;
  MatmulTiles tiles;
  int rows;  // of D, that a CTA works on at a time
  int cols;
  // Microseconds, with CTAs of a cluster one above the other.
  double tile_us;
  double stage_us;
  double sum_us;   // more of a tile where C is added in FP32
  double fp32_us;  // more of a tile whose D is FP32, without C
  int cluster;
  // MatmulShape (tile.cuh): a consumer's accumulators, how many consumers, side by side or one above the other, and the
  // chunks of D that each has in shared memory, of BF16 and of FP32.
  int row_subs;
  int col_subs;
  int sub_n;
  int consumers;
  bool beside;
  int slots;
  int slots_fp32;
};

// `mxcheck_sm90_tiles_bench > CSV` measures every row, `mxcheck_sm90_tiles_bench --fit CSV` prints these rows: here an
// H100's (tests/kernels/sm90/gemm/tiles_h100.csv), but for the sum 6.70 in place of 5.35, with which the choice is
// nearer to the best (choice_test.cc). Of fp8_rows the consumers of large tiles are side by side, so that those scales
// of B that a thread reads serve four of its rows. Of 128 x 192 and 128 x 128 with D in FP32 all of C and D is in
// shared memory: C arrives and D leaves while mma run. Of bf16 with D in FP32, C is read and D written in eight chunks:
// four slots and three stages are 1 to 2 % faster than two and four (4 groups of k = 4096, 4096 x 7168); of BF16 there
// are four chunks, and it makes no difference. `fp32` is that of weight gradients of whole layers, 16 stages a tile, on
// an H200: there 128 x 256, whose D leaves in four turns, takes 1.53 of the time of 128 x 192.
// clang-format off
inline constexpr auto kTilesTable = [] {
  using K = MatmulKernel;
  using T = MatmulTiles;
  return std::to_array<TilesRow>({
      //                           rows cols  tile   stage  sum  fp32  cluster subs   n  consumers  slots
      {K::fp8,      T::m128n256, 128, 256, 4.30, 0.5408, 0, 0,      1,  1, 2, 128, 2, false, 4, 4},
      {K::fp8,      T::m128n128, 128, 128, 2.37, 0.2969, 0, 0,      1,  1, 1, 128, 2, false, 2, 2},
      {K::fp8,      T::m128n64,  128,  64, 1.21, 0.2351, 0, 0,      1,  1, 1,  64, 2, false, 1, 1},
      {K::fp8,      T::m64n128,   64, 128, 1.24, 0.2190, 0, 0,      1,  1, 1, 128, 1, false, 2, 2},
      {K::fp8,      T::m64n64,    64,  64, 0.62, 0.1610, 0, 0,      1,  1, 1,  64, 1, false, 1, 1},
      {K::fp8,      T::m64n32,    64,  32, 0.51, 0.1481, 0, 0,      1,  1, 1,  32, 1, false, 1, 1},
      {K::fp8_rows, T::m128n256, 128, 256, 3.65, 0.8381, 6.70, 3.0, 2,  2, 1, 128, 2, true,  4, 4},
      {K::fp8_rows, T::m128n192, 128, 192, 3.80, 0.5841, 4.45, 0,   1,  2, 1,  96, 2, true,  3, 6},
      {K::fp8_rows, T::m128n128, 128, 128, 1.41, 0.5875, 3.04, 0,   1,  1, 1, 128, 2, false, 2, 4},
      {K::fp8_rows, T::m64n64,    64,  64, 0.67, 0.2044, 1.25, 0,   1,  1, 1,  64, 1, false, 1, 1},
      {K::fp8_rows, T::m64n32,    64,  32, 0.51, 0.1630, 0.17, 0,   1,  1, 1,  32, 1, false, 1, 1},
      {K::bf16,     T::m128n256, 128, 256, 5.75, 0.5151, 0, 0,      1,  1, 1, 256, 2, false, 2, 4},
      {K::bf16,     T::m128n128, 128, 128, 3.97, 0.2714, 0, 0,      1,  1, 1, 128, 2, false, 2, 2},
      {K::bf16,     T::m128n64,  128,  64, 2.82, 0.1964, 0, 0,      1,  1, 1,  64, 2, false, 1, 1},
      {K::bf16,     T::m64n128,   64, 128, 2.19, 0.1821, 0, 0,      1,  1, 1, 128, 1, false, 2, 2},
      {K::bf16,     T::m64n64,    64,  64, 0.84, 0.1516, 0, 0,      1,  1, 1,  64, 1, false, 1, 1},
      {K::bf16,     T::m64n32,    64,  32, 0.46, 0.1428, 0, 0,      1,  1, 1,  32, 1, false, 1, 1},
      {K::mxfp8,    T::m128n256, 128, 256, 3.93, 0.5413, 0, 0,      1,  1, 1, 256, 2, false, 2, 2},
      {K::mxfp8,    T::m64n128,   64, 128, 1.56, 0.2090, 0, 0,      1,  1, 1, 128, 1, false, 2, 2},
      {K::mxfp8,    T::m64n64,    64,  64, 0.71, 0.1727, 0, 0,      1,  1, 1,  64, 1, false, 1, 1},
  });
}();
// clang-format on

// GEMMs of so little work that nearly all of their time is the launch's take shapes in turn: whoever tests small GEMMs
// tests every shape of tiles. It costs up to 5 us.
inline constexpr double kSmallProducts = 1 << 24;
inline constexpr std::int64_t kSmallDepth = 512;

// More time of a tile that has rows past the end of A or of B: 0.09 to 0.48 were measured.
inline constexpr double kPastTheEnd = 0.3;

// Rows that a masked group is taken to have, where its capacity is larger: inference has few.
inline constexpr std::int64_t kMaskedRows = 128;

// The rows of one kernel, which follow one another; first_row: the first's number in the table.
constexpr std::size_t first_row(MatmulKernel kernel) {
  std::size_t at = 0;
  while (kTilesTable[at].kernel != kernel) ++at;
  return at;
}
constexpr std::span<const TilesRow> tiles_of(MatmulKernel kernel) {
  std::size_t count = 0;
  for (const TilesRow& row : kTilesTable) count += row.kernel == kernel ? 1 : 0;
  return {kTilesTable.data() + first_row(kernel), count};
}

// --- the choice -----------------------------------------------------------------------------------------------------

constexpr std::int64_t quotient_up(std::int64_t of, std::int64_t by) { return (of + by - 1) / by; }

// More of the average tile's time, where the last of them has rows past the end.
constexpr double past_the_end(std::int64_t extent, std::int64_t tile) {
  return extent % tile == 0 || extent < tile ? 0 : kPastTheEnd / static_cast<double>(quotient_up(extent, tile));
}

// The formula's time, in microseconds.
inline double tiles_us(const TilesRow& row, const MatmulCall& matmul, int processors) {
  const std::int64_t experts = matmul.kind == MatmulKind::dense ? 1 : std::max(matmul.experts, 1);
  const bool masked = matmul.kind == MatmulKind::masked;
  const bool rows = matmul.kind == MatmulKind::rows || masked;
  const std::int64_t each = rows ? quotient_up(matmul.m, experts) : matmul.m;
  const std::int64_t m = masked ? std::min(each, kMaskedRows) : each;
  const std::int64_t k = matmul.kind == MatmulKind::depth ? quotient_up(matmul.k, experts) : matmul.k;
  const std::int64_t down = quotient_up(m, std::int64_t{row.rows} * row.cluster);  // groups of a cluster's tiles
  // Rounded where there are more than 2^53; such times are only compared.
  const double tiles =
      static_cast<double>(down) * static_cast<double>(quotient_up(matmul.n, row.cols)) * static_cast<double>(experts);
  const auto stages = static_cast<double>(quotient_up(k, stage_columns(row.kernel)));
  const double past = past_the_end(m, row.rows) + past_the_end(matmul.n, row.cols);
  const double fp32 = matmul.output != MatmulOutput::fp32 ? 0 : matmul.accumulate ? row.sum_us : row.fp32_us;
  // NOLINTNEXTLINE(bugprone-integer-division): whole clusters.
  return std::ceil(tiles / (processors / row.cluster)) * (row.tile_us + fp32 + stages * row.stage_us) * (1 + past);
}

// The cheapest of the kernel's rows; of a small GEMM any of them, by its extents.
inline MatmulTiles cheapest_tiles(const MatmulCall& matmul, MatmulKernel kernel, int processors) {
  const std::span<const TilesRow> rows = tiles_of(kernel);
  const double products = static_cast<double>(matmul.m) * static_cast<double>(matmul.n) * static_cast<double>(matmul.k);
  if (products < kSmallProducts && matmul.k <= kSmallDepth) {
    return rows[static_cast<std::size_t>(matmul.m + matmul.n + matmul.k / 32) % rows.size()].tiles;
  }
  const auto us = [&](const TilesRow& row) { return tiles_us(row, matmul, processors); };
  return std::min_element(rows.begin(), rows.end(), [&](const TilesRow& x, const TilesRow& y) { return us(x) < us(y); })
      ->tiles;
}

// launch.cu: what the call asks for, or the cheapest on the current device.
MatmulTiles chosen_tiles(const MatmulCall& matmul, MatmulKernel kernel);

// start(std::integral_constant<std::size_t, ..>), a row's number in the table, for tiles that are known when running:
// those of the kernel, its last where they are none of them.
template <MatmulKernel kKernel, std::size_t kAt = first_row(kKernel), class Start>
auto with_tiles(MatmulTiles tiles, const Start& start) {
  if constexpr (kAt + 1 < first_row(kKernel) + tiles_of(kKernel).size()) {
    if (tiles != kTilesTable[kAt].tiles) return with_tiles<kKernel, kAt + 1>(tiles, start);
  }
  return start(std::integral_constant<std::size_t, kAt>{});
}

}  // namespace mxcheck_kernels::sm90
