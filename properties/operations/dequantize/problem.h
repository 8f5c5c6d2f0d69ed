#pragma once
// Problems of dequantize: codes and scales in, values y out.

#include <cstdint>
#include <vector>

#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {

class DequantizeProblem final : public Problem {
 public:
  explicit DequantizeProblem(const Case& c);     // drawn
  explicit DequantizeProblem(const Call& call);  // that a call poses
  // Given; scales in the variant's layout.
  DequantizeProblem(const Case& c, std::vector<std::uint8_t> codes, std::vector<std::uint8_t> scales);

  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;

  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;
};

}  // namespace mxcheck
