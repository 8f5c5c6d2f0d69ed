#pragma once
// From a case of a layer to its inputs. An element is a pure function of seed, data and its place (token and column;
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

#include <cstdint>
#include <vector>

#include "properties/operations/moe/fields.h"
#include "reference/layer/layer.h"

namespace mxcheck {

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

}  // namespace mxcheck
