#pragma once
// Production's layers as quantize and its like meet them: matrices of d columns (tokens, and the gradients of outputs),
// of n (what the down projection reads) and of 2n (gate and up projection together).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/rng.h"

namespace mxcheck {

class BlockLayers {
 public:
  struct Use {
    std::string layer;
    std::string text;
    std::int64_t cols = 0;
    bool many = false;  // rows: more than a block of 32, its last one ragged; else 1 to 8, as when a model decodes
  };
  BlockLayers() = default;
  explicit BlockLayers(const OperationInfo& limits);

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is(const Use& use, const Case& c) const;
  // The drawn case with the use's columns, rows for them, and offsets that fit; its options stay.
  [[nodiscard]] std::optional<Case> at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const;

 private:
  OperationInfo limits_;
  std::vector<Use> uses_;
};

}  // namespace mxcheck
