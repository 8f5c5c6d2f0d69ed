#pragma once
// Which tiles a GEMM is cut into.
//
// All CTAs are resident, one a processor, and each takes every `processors`-th tile. With P processors a GEMM of T
// tiles and a depth of s stages takes
//
//   ceil(T / P) * (tile + s * stage)
//
// where `stage` is the time of one stage of k in a tile of that shape and `tile` that of its epilogue and of filling
// the pipeline. Both are measured (kFp8Costs, kBf16Costs); what a launch costs is the same for all shapes. Loads of
// rows past the matrix's end are slow, which counts for the last row of tiles alone (kPastTheEnd). Groups count as
// equal ones: their ends are on the device.

#include <array>
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
};

// Fitted to what `mxcheck_sm90_tiles_bench` measured on an H200; tests/kernels/sm90/gemm/choice_test.cc holds the
// choice to the measurements themselves. A stage is 128 bytes of a row of A and of B.
inline constexpr std::array<TilesCost, 5> kFp8Costs{{
    {MatmulTiles::m128n256, 128, 256, 3.69, 0.6046},
    {MatmulTiles::m128n128, 128, 128, 2.08, 0.3329},
    {MatmulTiles::m128n64, 128, 64, 1.11, 0.2363},
    {MatmulTiles::m64n128, 64, 128, 1.19, 0.2382},
    {MatmulTiles::m64n64, 64, 64, 0.68, 0.1752},
}};
inline constexpr std::array<TilesCost, 5> kBf16Costs{{
    {MatmulTiles::m128n256, 128, 256, 4.32, 0.5672},
    {MatmulTiles::m128n128, 128, 128, 2.44, 0.3008},
    {MatmulTiles::m128n64, 128, 64, 1.31, 0.2167},
    {MatmulTiles::m64n128, 64, 128, 1.25, 0.1812},
    {MatmulTiles::m64n64, 64, 64, 0.72, 0.1559},
}};

// GEMMs of so little work that nearly all of their time is the launch's take shapes in turn: whoever tests small GEMMs
// tests every shape of tiles. It costs up to 5 us.
inline constexpr double kSmallProducts = 1 << 24;
inline constexpr std::int64_t kSmallDepth = 512;

// More time of a tile that has rows past the end: 0.09 to 0.48 were measured.
inline constexpr double kPastTheEnd = 0.2;

// As the formula has it, in microseconds.
double tiles_us(const TilesCost& cost, const MatmulCall& matmul, int stage_columns, int processors);
// The cheapest of `costs`; of a small GEMM any of them, by its extents.
MatmulTiles cheapest_tiles(const MatmulCall& matmul, std::span<const TilesCost> costs, int stage_columns,
                           int processors);
// launch.cu: what the call asks for, or the cheapest on the current device.
MatmulTiles chosen_tiles(const MatmulCall& matmul, std::span<const TilesCost> costs, int stage_columns);

// start(std::integral_constant<MatmulTiles, ..>) for tiles that are known when running.
template <class Start>
auto with_tiles(MatmulTiles tiles, const Start& start) {
  switch (tiles) {
    case MatmulTiles::m128n128: return start(std::integral_constant<MatmulTiles, MatmulTiles::m128n128>{});
    case MatmulTiles::m128n64: return start(std::integral_constant<MatmulTiles, MatmulTiles::m128n64>{});
    case MatmulTiles::m64n128: return start(std::integral_constant<MatmulTiles, MatmulTiles::m64n128>{});
    case MatmulTiles::m64n64: return start(std::integral_constant<MatmulTiles, MatmulTiles::m64n64>{});
    default: return start(std::integral_constant<MatmulTiles, MatmulTiles::m128n256>{});
  }
}

}  // namespace mxcheck_kernels::sm90
