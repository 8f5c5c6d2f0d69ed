#pragma once
// Cases of whole layers, of every variant and kind of data.

#include <vector>

#include "properties/operations/moe/operation.h"

namespace mxcheck::test {

inline constexpr const char* kLayerOperations[] = {"moe_forward", "moe_backward"};

inline std::vector<Variant> all_layer_variants() {
  std::vector<Variant> all;
  for (const char* operation : kLayerOperations) {
    for (Variant& v : operation_named(operation).askable(operation)) all.push_back(std::move(v));
  }
  return all;
}

// One of each variant, with other data, widths and routes.
inline std::vector<Case> some_layers() {
  constexpr Data kData[] = {Data::normal, Data::boundaries, Data::codes, Data::specials, Data::wide,
                            Data::sparse, Data::slots,      Data::real,  Data::zeros,    Data::every_word};
  const std::vector<std::int64_t> kSizes[] = {{5, 0, 7}, {0, 0}, {1, 9, 9, 2}, {9}, {3, 0, 0, 4}};
  std::vector<Case> cases;
  std::uint64_t seed = 0;
  for (const Variant& v : all_layer_variants()) {
    ++seed;
    const auto width = static_cast<std::int64_t>(8 * (1 + seed % 5));
    cases.push_back(moe_corner(v, 9, width, 8 * (1 + static_cast<std::int64_t>(seed % 3)), kSizes[seed % 5],
                               seed % 4 == 0 ? 0 : 3, kData[seed % 10], seed));
  }
  return cases;
}

}  // namespace mxcheck::test
