#pragma once
// Cases of the operations on scaled blocks that several tests start from.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "properties/operations/scaled_blocks/expand.h"
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

// One of each operation and layout, with and without experts.
inline std::vector<Case> some_scaled_blocks() {
  std::vector<Case> cases;
  for (const char* operation : {"quantize", "quantize_dual", "dequantize", "scale_layout", "cast"}) {
    const bool is_cast = std::string_view(operation) == "cast";
    for (int layout = 0; layout < (is_cast ? 1 : 2); ++layout) {
      cases.push_back(some_case(operation, {1, 32}, layout));
      if (std::string_view(operation) == "quantize") cases.back().stride = 140;
      if (!is_cast) cases.push_back(some_case(operation, {1, 32}, layout, {0, 40, 150}));
    }
  }
  return cases;
}

inline constexpr Format kDtypesOfTests[] = {Format::bf16, Format::fp32, Format::fp16};

inline Case make_case(Data data, std::int64_t rows, std::int64_t cols, std::uint64_t seed = 1) {
  Case c;
  c.variant.operation = "quantize", blocks_of(c.variant).block = {1, 32};
  c.rows = rows, c.cols = cols, c.data = data, c.seed = seed;
  return c;
}

inline double value_at(const Input& input, std::int64_t i, std::int64_t j) {
  return decode(input.dtype, input.bits(i, j));
}

// visit(input, i, j)
template <class Visit>
void for_each(const Case& c, Visit visit) {
  const Input input = expand(c);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) visit(input, i, j);
  }
}

}  // namespace mxcheck::test
