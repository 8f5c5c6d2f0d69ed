#pragma once
// The steps of a layer as problems of the gate: tensors drawn from a case, the call, and the reference's answer.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "properties/core/input.h"
#include "properties/core/operation.h"
#include "properties/operations/layer/expand.h"
#include "properties/operations/layer/fields.h"

namespace mxcheck {

// swiglu and swiglu_backward.
class SwigluProblem final : public Problem {
 public:
  explicit SwigluProblem(const Case& c);     // drawn
  explicit SwigluProblem(const Call& call);  // that a call poses

  std::vector<std::uint16_t> h;        // BF16: rows of stride_of_h(c), NaN in the gaps
  std::vector<std::uint8_t> h_codes;   // or codes, rows x 2 cols
  std::vector<std::uint8_t> h_scales;  // of blocks of 1 x 32
  std::vector<float> p;                // swiglu_backward
  std::vector<float> weights;

  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<std::size_t> order() const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  void describe_outputs();  // of the case as it is

  // H in FP32, rows of 2 cols, codes multiplied by their scales.
  [[nodiscard]] std::vector<float> values_of_h() const;
  // Where the gate and the up value of (i, j) stand in a row of h.
  [[nodiscard]] std::int64_t gate_column(std::int64_t j) const;
  [[nodiscard]] std::int64_t up_column(std::int64_t j) const;

 protected:
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
};

// The contents of an output of SwigluProblem: which tensor, and its values, codes or scales.
struct SwigluOutput {
  enum class What : std::uint8_t { a, scaled_a, dh, ds } what = What::a;
  enum class Part : std::uint8_t { values, codes, scales } part = Part::values;
  bool transposed = false;
  friend bool operator==(const SwigluOutput&, const SwigluOutput&) = default;
};
std::vector<SwigluOutput> swiglu_outputs(const Variant& v);

class AggregateProblem final : public Problem {
 public:
  explicit AggregateProblem(const Case& c);
  explicit AggregateProblem(const Call& call);

  std::vector<std::uint16_t> y;
  std::vector<float> weights;  // of the rows of y, where weighted
  DrawnSlots slots;

  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

 protected:
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
};

// quantize_transposed as a problem of the gate.

class TransposedProblem final : public Problem {
 public:
  explicit TransposedProblem(const Case& c);     // x drawn as quantize's
  explicit TransposedProblem(const Call& call);  // that a call poses

  Input x;                          // as the candidate sees it: with an index, the rows that it names are among these
  std::vector<std::int32_t> index;  // row i of the matrix is row index[i] of x

  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<std::size_t> order() const override { return {1, 0}; }
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  void describe_outputs();
  [[nodiscard]] Input gathered() const;  // the matrix that is quantized

 protected:
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
};

}  // namespace mxcheck
