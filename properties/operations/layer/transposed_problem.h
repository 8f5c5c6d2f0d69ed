#pragma once
// quantize_transposed as a problem of the gate.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "properties/core/input.h"
#include "properties/core/operation.h"

namespace mxcheck {

class TransposedProblem final : public Problem {
 public:
  explicit TransposedProblem(const Case& c);     // x drawn as quantize's
  explicit TransposedProblem(const Call& call);  // that a call poses

  Input x;                          // as the candidate sees it: with an index, the rows that it names are among these
  std::vector<std::int32_t> index;  // row i of the matrix is row index[i] of x

  [[nodiscard]] Call call() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override;
  [[nodiscard]] std::vector<std::size_t> order() const override { return {1, 0}; }

  void describe_outputs();
  [[nodiscard]] Input gathered() const;  // the matrix that is quantized
};

}  // namespace mxcheck
