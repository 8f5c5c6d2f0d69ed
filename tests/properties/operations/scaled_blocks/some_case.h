#pragma once
// Cases of the operations on scaled blocks that several tests start from.

#include <cstdint>
#include <utility>
#include <vector>

#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck::test {

inline constexpr BlockShape kBlockShapesOfTests[] = {{1, 32},  {32, 1},    {32, 32}, {1, 128},
                                                     {128, 1}, {128, 128}, {1, 0}};

// 150 x 131 values, which no block divides; padding of tiled scales holds 90.
inline Case some_case(const char* operation, BlockShape block, int layout, std::vector<std::int64_t> experts = {}) {
  Case c;
  c.variant.operation = operation, blocks_of(c.variant).block = block, blocks_of(c.variant).layout = layout;
  c.rows = 150, c.cols = 131, c.data = Data::normal, c.seed = 3, c.experts = std::move(experts);
  blocks_case(c).pad = 90;
  return c;
}

}  // namespace mxcheck::test
