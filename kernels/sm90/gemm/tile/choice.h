#pragma once
// Which tiles a GEMM is cut into.
//
// All CTAs are resident, one a processor, and each takes every `processors`-th tile; the CTAs of a cluster take tiles
// one above the other. With P processors, in clusters of c, a GEMM of T groups of c tiles and a depth of s stages takes
//
//   ceil(T / floor(P / c)) * (tile + s * stage)     and a `sum` for each tile where C is added in FP32,
//
// where `stage` is the time of one stage of k in a tile of that shape and `tile` that of its epilogue and of filling
// the pipeline. Both are measured (kFp8Costs and those below it); what a launch costs, 3 us, is the same for
// all shapes. Loads of rows past the matrix's end are slow, which counts for the last row and column of tiles where
// they are not the only ones (kPastTheEnd). Groups count as equal ones: their ends are on the device.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/sm90/gemm/tile/matmul.h"

namespace mxcheck_kernels::sm90 {

struct TilesCost {
  MatmulTiles tiles = MatmulTiles::chosen;
  int rows = 0;
  int cols = 0;
  double tile_us = 0;
  double stage_us = 0;
  int cluster = 1;
  double sum_us = 0;  // more of a tile where C is added in FP32
};

// Fitted to what `mxcheck_sm90_tiles_bench` measured on an H100; tests/kernels/sm90/gemm/choice_test.cc holds the
// choice to the measurements themselves. A stage is 128 bytes of a row of A and of B.
inline constexpr std::array<TilesCost, 6> kFp8Costs{{
    {MatmulTiles::m128n256, 128, 256, 4.30, 0.5408},
    {MatmulTiles::m128n128, 128, 128, 2.37, 0.2969},
    {MatmulTiles::m128n64, 128, 64, 1.21, 0.2351},
    {MatmulTiles::m64n128, 64, 128, 1.24, 0.2190},
    {MatmulTiles::m64n64, 64, 64, 0.62, 0.1610},
    {MatmulTiles::m64n32, 64, 32, 0.51, 0.1481},
}};
// Scales of 1 x 128 on both sides.
inline constexpr std::array<TilesCost, 5> kFp8RowCosts{{
    {MatmulTiles::m128n256, 128, 256, 3.65, 0.8381, 2, 6.70},
    {MatmulTiles::m128n192, 128, 192, 3.80, 0.5841, 1, 4.45},
    {MatmulTiles::m128n128, 128, 128, 1.41, 0.5875, 1, 3.04},
    {MatmulTiles::m64n64, 64, 64, 0.67, 0.2044, 1, 1.25},
    {MatmulTiles::m64n32, 64, 32, 0.51, 0.1630, 1, 0.17},
}};
inline constexpr std::array<TilesCost, 6> kBf16Costs{{
    {MatmulTiles::m128n256, 128, 256, 5.75, 0.5151},
    {MatmulTiles::m128n128, 128, 128, 3.97, 0.2714},
    {MatmulTiles::m128n64, 128, 64, 2.82, 0.1964},
    {MatmulTiles::m64n128, 64, 128, 2.19, 0.1821},
    {MatmulTiles::m64n64, 64, 64, 0.84, 0.1516},
    {MatmulTiles::m64n32, 64, 32, 0.46, 0.1428},
}};
// MXFP8: an operand's codes decoded on their way, which a warp does between its mma and not during them.
inline constexpr std::array<TilesCost, 3> kDecodedCosts{{
    {MatmulTiles::m128n256, 128, 256, 3.93, 0.5413},
    {MatmulTiles::m64n128, 64, 128, 1.56, 0.2090},
    {MatmulTiles::m64n64, 64, 64, 0.71, 0.1727},
}};

// GEMMs of so little work that nearly all of their time is the launch's take shapes in turn: whoever tests small GEMMs
// tests every shape of tiles. It costs up to 5 us.
inline constexpr double kSmallProducts = 1 << 24;
inline constexpr std::int64_t kSmallDepth = 512;

// More time of a tile that has rows past the end of A or of B: 0.09 to 0.48 were measured.
inline constexpr double kPastTheEnd = 0.3;

// As the formula has it, in microseconds.
double tiles_us(const TilesCost& cost, const MatmulCall& matmul, int stage_columns, int processors);
// The cheapest of `costs`; of a small GEMM any of them, by its extents.
MatmulTiles cheapest_tiles(const MatmulCall& matmul, std::span<const TilesCost> costs, int stage_columns,
                           int processors);
// launch.cu: what the call asks for, or the cheapest on the current device.
MatmulTiles chosen_tiles(const MatmulCall& matmul, std::span<const TilesCost> costs, int stage_columns);

// start(std::integral_constant<MatmulTiles, ..>) for tiles that are known when running: those of kCosts, its last where
// they are none of them.
template <const auto& kCosts, std::size_t kAt = 0, class Start>
auto with_tiles(MatmulTiles tiles, const Start& start) {
  constexpr MatmulTiles kThis = kCosts[kAt].tiles;
  if constexpr (kAt + 1 < kCosts.size()) {
    if (tiles != kThis) return with_tiles<kCosts, kAt + 1>(tiles, start);
  }
  return start(std::integral_constant<MatmulTiles, kThis>{});
}

}  // namespace mxcheck_kernels::sm90
