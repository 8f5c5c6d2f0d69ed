#pragma once
// Problems of quantize, quantize_dual and cast: a matrix x in, codes and scales out.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/scale/recipe.h"
#include "properties/core/input.h"
#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {

class QuantizeProblem final : public Problem {
 public:
  explicit QuantizeProblem(const Case& c);     // x drawn from the case
  explicit QuantizeProblem(const Call& call);  // that a call poses
  // x given, with its own row stride and no column stride; where the case gathers, from rows of which none comes twice.
  QuantizeProblem(const Case& c, Input x);

  Input input;                      // as the candidate must see it, gathered
  std::vector<std::int32_t> index;  // gather: row i of input is row index[i] of source
  std::vector<std::byte> source;    // gather: rows that nothing names hold NaN
  std::vector<std::byte> laid_out;  // column stride: x as the call has it, NaN between its elements

  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer(const Recipe& recipe) const;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;
  [[nodiscard]] std::vector<std::size_t> order() const override;  // scales before the codes that follow from them

 private:
  [[nodiscard]] Table definitions_of(std::size_t at, BlockShape block, std::span<const Bytes> observed) const;
  void describe_outputs();
  void gather_from(std::int64_t source_rows);
  void lay_out();
  void explain_code(BlockShape block, Finding& finding) const;
  void explain_scale(BlockShape block, Finding& finding) const;
};

}  // namespace mxcheck
