#pragma once
// The extents that GEMMs take from production's layers: of the up projection (n = 2n, k = d), the down projection
// (n = d, k = n) and, with groups along depth, the gradients of both weights (m x n of d x 2n and n x d).
//
// A layer's weights have up to 10^10 elements, which no host reference multiplies. Each use is a slice: one extent (k,
// n, m, or the number of experts) is the layer's own, the others are as much of theirs as the suite's work allows. Most
// experts have no row, the others one or two.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/rng.h"

namespace mxcheck {

class MatmulLayers {
 public:
  enum class Whole : std::uint8_t { m, n, k, experts };
  struct Use {
    std::string layer;
    std::string text;
    Whole whole = Whole::k;
    bool gradient = false;      // with groups along depth
    std::int64_t m = 0;         // of gradients; else tokens, which no layer fixes
    std::int64_t n = 0, k = 0;  // k: of gradients tokens
    std::int64_t experts = 0;
  };
  MatmulLayers() = default;
  explicit MatmulLayers(const OperationInfo& limits);

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is(const Use& use, const Case& c) const;
  [[nodiscard]] std::optional<Case> at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const;

 private:
  [[nodiscard]] bool fits(const Use& use) const;
  void add(Use use, const char* product, const std::vector<Whole>& wholes);
  [[nodiscard]] bool slice_product(const Use& use, std::int64_t elements, std::int64_t experts, Case& c) const;
  [[nodiscard]] bool slice_gradient(const Use& use, std::int64_t elements, std::int64_t experts, Case& c) const;

  OperationInfo limits_;
  std::vector<Use> uses_;
};

}  // namespace mxcheck
