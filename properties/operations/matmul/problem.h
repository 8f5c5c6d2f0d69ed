#pragma once
// GEMMs as problems of the gate: operands drawn from a case, the call, and the reference's answer.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "properties/core/operation.h"
#include "properties/operations/matmul/fields.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {

class MatmulProblem final : public Problem {
 public:
  explicit MatmulProblem(const Case& c);     // drawn
  explicit MatmulProblem(const Call& call);  // that a call poses

  // Operands [rows, depth] row-major, scales [blocks of rows, blocks of depth], C as D, as the candidate reads them.
  std::vector<std::byte> a, b, scales_a, scales_b, c_values;
  std::vector<std::int32_t> index;  // gather: row i of A is row index[i]

  [[nodiscard]] Call call() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  [[nodiscard]] ExpectedTensor answer(const MatmulContract& contract) const;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override { return {}; }
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  // As the reference takes it; pointers into this.
  [[nodiscard]] Matmul matmul(const MatmulContract& contract) const;
  [[nodiscard]] MatmulContract contract() const;
  // Lines about the first differing output: its steps. Returns the reference's word there.
  std::uint32_t explain_steps(Finding& finding) const;
};

// Operands (properties/operations/matmul/problem.cc).
std::vector<std::byte> expand_operand(const Case& c, Format format, std::uint64_t salt, std::int64_t rows,
                                      std::int64_t depth);
std::vector<std::byte> expand_operand_scales(const Case& c, std::uint64_t salt, std::int64_t rows, std::int64_t blocks);
std::vector<std::byte> expand_c(const Case& c, std::int64_t count);

}  // namespace mxcheck
