#pragma once
// A layer's forward or backward pass as a problem of the gate: inputs drawn from a case, the call, and the reference's
// answer. The backward pass has H and X as the reference's forward pass keeps them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "properties/core/operation.h"
#include "properties/operations/moe/expand.h"
#include "properties/operations/moe/fields.h"
#include "properties/operations/moe/kept.h"

namespace mxcheck {

// Seed, step and layer of a case's policy: those of a call, or drawn from the case's seed.
LayerRandom random_of(const Case& c);

class MoeProblem final : public Problem {
 public:
  explicit MoeProblem(const Case& c);       // drawn
  MoeProblem(const Case& c, MoeInputs of);  // of these inputs, whose sizes are the case's
  explicit MoeProblem(const Call& call);    // that a call poses

  MoeInputs in;  // of a call: without slots
  LayerRoutes routes;
  std::vector<KeptTensor> h, x;  // moe_backward: as they were kept
  LayerRandom random;            // the policy's

  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  [[nodiscard]] Layer layer() const;  // pointers into this
  // The answer under another recipe, order of gate and up value or routes; none where the recipe keeps other tensors.
  [[nodiscard]] std::vector<ExpectedTensor> answer_with(const Layer& of, const LayerRoutes& with) const;

 private:
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  void describe_outputs();
};

}  // namespace mxcheck
