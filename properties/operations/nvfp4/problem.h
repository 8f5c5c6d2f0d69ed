#pragma once
// quantize_nvfp4: x and the tensor's scale in, packed E2M1 codes and E4M3 scales of blocks out, under a recipe of two
// levels (numerics/scale/two_level.h). The interface is stated in kernels/candidate.h.
//
// The tensor's scale of a case, as the recipe stores it, is the case's tensor_scale where it has one. Otherwise data
// `boundaries` has one that puts blocks' scales and elements on ties (expand.cc), other data the scale of the matrix's
// own amax, and one case in four a multiple of it, as where the scale is that of a larger tensor, or of an older one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "numerics/scale/recipe.h"
#include "properties/core/input.h"
#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "properties/operations/scaled_blocks/gathered.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

class Nvfp4Problem final : public Problem {
 public:
  explicit Nvfp4Problem(const Case& c);     // drawn
  explicit Nvfp4Problem(const Call& call);  // that a call poses
  // x given; where the case gathers, from rows of which none comes twice.
  Nvfp4Problem(const Case& c, Input x, float tensor_scale, float column_scale = 0);

  Input input;                      // as the candidate must see it, gathered
  Gathered gathered;                // gather: where its rows come from
  std::vector<float> tensor_scale;  // one
  std::vector<float> column_scale;  // one with both directions, else none

  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;
  [[nodiscard]] std::vector<std::size_t> order() const override;

  [[nodiscard]] Recipe recipe() const { return any_recipe_named(blocks_of(c.variant).recipe); }
  // The reference's answer under a recipe, with this scale of the tensor.
  [[nodiscard]] QuantizedTensor quantized(const Recipe& recipe) const;
  // Both outputs of a quantized matrix, as a candidate has them.
  [[nodiscard]] std::vector<Bytes> outputs_of(const QuantizedTensor& q) const { return outputs_of(q, c); }
  static std::vector<Bytes> outputs_of(const QuantizedTensor& q, const Case& of);
  [[nodiscard]] const Nvfp4Options& options() const { return blocks_of(c.variant).options; }
  [[nodiscard]] const Nvfp4Random& random() const { return blocks_case(c).random; }

 private:
  void describe_outputs();
  [[nodiscard]] Table gathers() const;
};

// The matrix of data=boundaries, and the tensor's scale of a case.
Input expand_nvfp4_ties(const Case& c, OuterScale outer);
float drawn_tensor_scale(const Case& c, const Recipe& recipe);
// Cases of data=boundaries under scales whose divisors have a mantissa at an end of a binade (divisors.h), with many
// blocks of the scale that has this divisor.
std::vector<Case> divisor_corners(const Variant& v);

// The table: other recipes of two levels, and slips of scales, codes and the scale of the tensor. observed: the
// candidate's outputs; codes may follow from its own scales.
Table nvfp4_table(const Nvfp4Problem& problem, std::span<const Bytes> observed);

OperationModule nvfp4_module();

// Laws of blocks below a tensor's scale.
std::vector<Statement> nvfp4_laws();

// The case with its rows one after the other, for a law that makes an input of its own.
inline Case without_gaps(Case c) {
  c.stride = 0;
  return c;
}

}  // namespace mxcheck
