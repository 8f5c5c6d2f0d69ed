#pragma once
// Problems of scale_layout: scale bytes in the layout that the policy does not name, out in the one that it names.

#include <cstdint>
#include <vector>

#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {

class ScaleLayoutProblem final : public Problem {
 public:
  explicit ScaleLayoutProblem(const Case& c);                           // drawn
  explicit ScaleLayoutProblem(const Call& call);                        // that a call poses
  ScaleLayoutProblem(const Case& c, std::vector<std::uint8_t> scales);  // given, in the layout that is read

  std::vector<std::uint8_t> scales;

  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override;
};

}  // namespace mxcheck
