#pragma once
// A layer's forward or backward pass as a problem of the gate: inputs drawn from a case, the call, and the reference's
// answer. The backward pass has H and X as the reference's forward pass keeps them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "properties/core/compare.h"
#include "properties/core/operation.h"
#include "properties/operations/moe/fields.h"
#include "reference/layer/layer.h"

namespace mxcheck {

// --- kept tensors
//
// H and X as they are kept, as tensors of a call: what the forward pass writes and the backward pass reads.

// One tensor, or codes and scales.
struct KeptTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

// The tensors in which a rule keeps `rows` rows of `cols` columns: names, types and sizes; no bytes.
std::vector<TensorInfo> kept_infos(const std::string& name, const OperandRule& rule, std::int64_t rows,
                                   std::int64_t cols);
// The rule by which a recipe keeps X: BF16, or up's operand.
OperandRule kept_x_rule(const LayerRecipe& recipe);

std::vector<KeptTensor> kept_tensors(const std::string& name, const OperandRule& rule, const LayerOperand& from);
// The same the other way; as many bytes as kept_infos says.
LayerOperand kept_operand(const OperandRule& rule, const std::vector<KeptTensor>& from, std::int64_t rows,
                          std::int64_t cols, bool by_token);

// --- inputs
//
// Expands a case of a layer to its inputs. An element is a pure function of seed, data and its place (token and column;
// expert, row, gate or up, column), a route's weight one of token and expert: none depends on how large the case is.
//
//   zeros       +0; weights are 1
//   normal      as in training: rows of X and dO of other magnitudes, with outliers, W by 1 / sqrt of the depth, so
//               that gates stay within +-40
//   boundaries  blocks of 32 whose amax is on the edges where a scale changes, elements on and beside the midpoints of
//               E4M3; rows of a token that cancel, beside one that is 2^-18 of them
//   codes       few bits: products and sums are exact
//   specials    normal, with NaN, infinities, zeros and subnormals in one row of eight of X and dO, in every other
//               expert and in one weight of eight
//   wide        magnitudes of 2^-40 to 2^20, by row and by element
//   sparse      blocks of zeros, of +0 and -0, between others
//   slots       sign, mantissa and exponent say the place
//   every_word  X and dO one-hot: a row of H is a row of W1
//   real        windows of the committed tensors of a trained model
//
// All others are as normal.

// Routes before they are sorted by expert.
struct MoeSlots {
  std::vector<std::int64_t> token_offsets;
  std::vector<std::int32_t> experts;  // of each slot; -1: dropped
  std::vector<float> weights;
  [[nodiscard]] LayerRoutes routes(std::int64_t num_experts) const {
    return layer_routes(experts, weights, 0, token_offsets, num_experts);
  }
};
MoeSlots expand_moe_slots(const Case& c);

struct MoeInputs {
  std::vector<std::uint16_t> x;    // tokens x d
  std::vector<std::uint16_t> w1;   // experts x d x 2 inner
  std::vector<std::uint16_t> w2;   // experts x inner x d
  std::vector<std::uint16_t> d_o;  // tokens x d; empty for moe_forward
  MoeSlots slots;
};
MoeInputs expand_moe(const Case& c);

// --- the problem

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

  [[nodiscard]] Call call() const override;
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
