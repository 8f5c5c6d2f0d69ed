#pragma once
// Problems of quantize, quantize_dual and cast: a matrix x in, codes and scales out.
//
// An x of FP64, which cast alone has, is drawn in words of FP32, as plants are, and each word is widened: fp64_of().

#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/scale/recipe.h"
#include "properties/core/input.h"
#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "properties/operations/scaled_blocks/gathered.h"

namespace mxcheck {

// The bits of the FP64 element that stands for a word of FP32: its value, an ulp of FP64 above or below it, the same
// with other bits below FP32's, or, seldom, with an exponent that FP32 has not. A function of the word and the seed
// alone, so that a planted word has the element that was drawn. Zeros and infinities stay; a NaN may have a payload
// that FP32 has not.
std::uint64_t fp64_of(std::uint32_t word, std::uint64_t seed);

class QuantizeProblem final : public Problem {
 public:
  explicit QuantizeProblem(const Case& c);     // x drawn from the case
  explicit QuantizeProblem(const Call& call);  // that a call poses
  // x given, with its own row stride and no column stride; where the case gathers, from rows of which none comes twice.
  QuantizeProblem(const Case& c, Input x);

  Input input;                      // as the candidate must see it, gathered
  Gathered gathered;                // gather: where its rows come from
  std::vector<std::byte> laid_out;  // column stride: x as the call has it, NaN between its elements

  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer(const Recipe& recipe) const;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;
  [[nodiscard]] std::vector<std::size_t> order() const override;  // scales before the codes that follow from them

 private:
  [[nodiscard]] double value_at(std::int64_t row, std::int64_t col) const;
  [[nodiscard]] std::vector<double> values() const;  // without gaps
  [[nodiscard]] Table definitions_of(std::size_t at, BlockShape block, std::span<const Bytes> observed) const;
  void describe_outputs();
  [[nodiscard]] Table gathers() const;
  void gather(std::int64_t source_rows);
  void lay_out();
  void explain_input(std::int64_t row, std::int64_t col, Finding& finding) const;
  void explain_code(BlockShape block, Finding& finding) const;
  void explain_scale(BlockShape block, Finding& finding) const;
};

}  // namespace mxcheck
