#pragma once
// Cases of the steps of a layer, of all kinds of variants and data.

#include <string>
#include <vector>

#include "properties/operations/layer/operation.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck::test {

inline constexpr const char* kStepOperations[] = {"swiglu", "swiglu_backward", "aggregate", "quantize_transposed"};

inline std::vector<Variant> all_step_variants() {
  std::vector<Variant> all;
  for (const char* operation : kStepOperations) {
    for (Variant& v : operation_named(operation).askable(operation)) all.push_back(std::move(v));
  }
  return all;
}

// Some of each operation's, with and without experts, strides, rows by index, windows.
inline std::vector<Case> some_steps() {
  constexpr Data kData[] = {Data::normal, Data::boundaries, Data::codes, Data::specials, Data::bits,
                            Data::wide,   Data::sparse,     Data::slots, Data::real,     Data::zeros};
  std::vector<Case> cases;
  std::uint64_t seed = 0;
  for (const char* operation : kStepOperations) {
    const std::vector<Variant> all = operation_named(operation).askable(operation);
    const std::size_t step = all.size() < 100 ? 1 : 37;
    for (std::size_t i = 0; i < all.size() * (step == 1 ? 20 : 1); i += step) {
      ++seed;
      Case c;
      c.variant = all[i % all.size()];
      c.rows = static_cast<std::int64_t>(seed % 41), c.cols = static_cast<std::int64_t>(seed % 67);
      c.data = kData[seed % std::size(kData)], c.seed = seed;
      if (is_aggregate(c.variant)) {
        layer_case(c).y_rows = static_cast<std::int64_t>(seed % 50), layer_case(c).most = 5, layer_case(c).drops = 20;
      } else {
        if (seed % 2 == 0) c.experts = {0, c.rows / 3, c.rows / 3, c.rows};
        if (seed % 3 == 0 && !has_coded_h(c.variant)) c.stride = c.cols + 5;
      }
      const bool transposes = c.variant.operation == "quantize_transposed";
      if (transposes && seed % 5 == 0) c.gather = 7;
      if (!transposes && seed % 7 == 0) layer_case(c).first_row = 100, layer_case(c).first_col = 40;
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace mxcheck::test
