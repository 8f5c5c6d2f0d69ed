#pragma once
// The microseconds of the table of tiles (kernels/sm90/gemm/tiles.h) from measured GEMMs.

#include <array>
#include <cmath>
#include <istream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/sm90/gemm/tiles.h"

namespace mxcheck::bench {

struct TilesSample {
  mxcheck_kernels::sm90::MatmulKernel kernel{};
  mxcheck_kernels::sm90::MatmulCall matmul;  // with the tiles that it was cut into
  double us = 0;
};

// Lines "format,m,n,k,128x256=37.26,128x128=20.98", a GEMM each with its microseconds by tiles, after a header, as
// mxcheck_sm90_tiles_bench prints them; others are left out.
inline std::vector<TilesSample> read_samples(std::istream& in) {
  using namespace mxcheck_kernels::sm90;
  constexpr std::array kFormats{"fp8", "fp8_rows", "fp8_rows_sum", "bf16", "mxfp8"};
  constexpr std::array kKernels{MatmulKernel::fp8, MatmulKernel::fp8_rows, MatmulKernel::fp8_rows, MatmulKernel::bf16,
                                MatmulKernel::mxfp8};
  std::vector<TilesSample> samples;
  for (std::string line; std::getline(in, line);) {
    for (char& c : line) c = c == ',' || c == 'x' || c == '=' ? ' ' : c;  // "mxfp8" is "m fp8"
    const bool swapped = line.starts_with("m fp8");                       // the weights' codes are A
    if (swapped) line = "mxfp8" + line.substr(5);
    std::istringstream words(line);
    std::string format;
    TilesSample s;
    if (!(words >> format >> s.matmul.m >> s.matmul.n >> s.matmul.k)) continue;
    if (swapped) std::swap(s.matmul.m, s.matmul.n);
    for (std::size_t i = 0; i < kFormats.size(); ++i) {
      if (format == kFormats[i]) s.kernel = kKernels[i];
    }
    if (format == "fp8_rows_sum") s.matmul.output = MatmulOutput::fp32, s.matmul.accumulate = true;
    for (int rows = 0, cols = 0; words >> rows >> cols >> s.us;) {
      for (const TilesRow& row : tiles_of(s.kernel)) {
        if (row.rows == rows && row.cols == cols) s.matmul.tiles = row.tiles;
      }
      samples.push_back(s);
    }
  }
  return samples;
}

// The row with the microseconds for which the squares of relative errors are least: a GEMM takes the launch's 3 and
// what tiles_us says, which is linear in them.
inline mxcheck_kernels::sm90::TilesRow fitted(mxcheck_kernels::sm90::TilesRow row, std::span<const TilesSample> samples,
                                              int processors) {
  constexpr double kLaunchUs = 3;
  std::array<mxcheck_kernels::sm90::TilesRow, 3> units{row, row, row};
  for (std::size_t i = 0; i < 3; ++i) {
    units[i].tile_us = i == 0 ? 1 : 0, units[i].stage_us = i == 1 ? 1 : 0, units[i].sum_us = i == 2 ? 1 : 0;
    units[i].fp32_us = 0;
  }
  double a[3][4] = {};  // the normal equations
  for (const TilesSample& s : samples) {
    if (s.kernel != row.kernel || s.matmul.tiles != row.tiles) continue;
    double x[4];
    for (std::size_t i = 0; i < 3; ++i) x[i] = tiles_us(units[i], s.matmul, processors) / s.us;
    x[3] = (s.us - kLaunchUs) / s.us;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) a[i][j] += x[i] * x[j];
    }
  }
  for (int i = 0; i < 3; ++i) {
    if (a[i][i] == 0) a[i][i] = 1;  // no sample has it
    for (int j = 3; j >= i; --j) a[i][j] /= a[i][i];
    for (int k = 0; k < 3; ++k) {
      for (int j = 3; k != i && j >= i; --j) a[k][j] -= a[k][i] * a[i][j];
    }
  }
  row.tile_us = std::round(a[0][3] * 1e2) / 1e2;
  row.stage_us = std::round(a[1][3] * 1e4) / 1e4;
  row.sum_us = std::round(a[2][3] * 1e2) / 1e2;
  return row;
}

}  // namespace mxcheck::bench
