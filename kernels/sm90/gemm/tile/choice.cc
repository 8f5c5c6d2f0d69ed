#include "kernels/sm90/gemm/tile/choice.h"

#include <algorithm>
#include <cmath>

namespace mxcheck_kernels::sm90 {
namespace {

std::int64_t quotient_up(std::int64_t of, std::int64_t by) { return (of + by - 1) / by; }

// More of the average tile's time, where the last of them has rows past the end.
double past_the_end(std::int64_t extent, std::int64_t tile) {
  return extent % tile == 0 || extent < tile ? 0 : kPastTheEnd / static_cast<double>(quotient_up(extent, tile));
}

}  // namespace

double tiles_us(const TilesCost& cost, const MatmulCall& matmul, int stage_columns, int processors) {
  const std::int64_t experts = matmul.kind == MatmulKind::dense ? 1 : std::max(matmul.experts, 1);
  const bool rows = matmul.kind == MatmulKind::rows;
  const std::int64_t m = rows ? quotient_up(matmul.m, experts) : matmul.m;
  const std::int64_t k = matmul.kind == MatmulKind::depth ? quotient_up(matmul.k, experts) : matmul.k;
  const std::int64_t down = quotient_up(m, std::int64_t{cost.rows} * cost.cluster);  // groups of a cluster's tiles
  // Rounded where there are more than 2^53; such times are only compared.
  const double tiles =
      static_cast<double>(down) * static_cast<double>(quotient_up(matmul.n, cost.cols)) * static_cast<double>(experts);
  const auto stages = static_cast<double>(quotient_up(k, stage_columns));
  const double past = past_the_end(m, cost.rows) + past_the_end(matmul.n, cost.cols);
  const double sum = matmul.accumulate && matmul.output == MatmulOutput::fp32 ? cost.sum_us : 0;
  // NOLINTNEXTLINE(bugprone-integer-division): whole clusters.
  return std::ceil(tiles / (processors / cost.cluster)) * (cost.tile_us + sum + stages * cost.stage_us) * (1 + past);
}

MatmulTiles cheapest_tiles(const MatmulCall& matmul, std::span<const TilesCost> costs, int stage_columns,
                           int processors) {
  const double products = static_cast<double>(matmul.m) * static_cast<double>(matmul.n) * static_cast<double>(matmul.k);
  if (products < kSmallProducts && matmul.k <= kSmallDepth) {
    return costs[static_cast<std::size_t>(matmul.m + matmul.n + matmul.k / 32) % costs.size()].tiles;
  }
  const auto us = [&](const TilesCost& cost) { return tiles_us(cost, matmul, stage_columns, processors); };
  return std::min_element(costs.begin(), costs.end(),
                          [&](const TilesCost& x, const TilesCost& y) { return us(x) < us(y); })
      ->tiles;
}

}  // namespace mxcheck_kernels::sm90
