#pragma once
// Production's layers as the routers' operations meet them: their experts and active experts with every variant, and
// with the layer's own score, bias, groups and scale where the candidate offers those.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/layers/layers.h"
#include "properties/core/rng.h"

namespace mxcheck {

class RouteLayers {
 public:
  struct Use {
    const ProductionLayer* layer = nullptr;
    std::string text;
    bool own_router = false;
  };
  RouteLayers() = default;
  // own_router: the operation has one, and not its metadata alone.
  RouteLayers(const OperationInfo& limits, bool own_router);

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is(const Use& use, const Case& c) const;
  [[nodiscard]] std::optional<Case> at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const;

 private:
  OperationInfo limits_;
  std::vector<Use> uses_;
};

}  // namespace mxcheck
