#pragma once
// Cases of one distribution, and a walk over what they expand to.

#include <cstdint>

#include "numerics/format/codec.h"
#include "properties/operations/scaled_blocks/expand.h"

namespace mxcheck::test {

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
