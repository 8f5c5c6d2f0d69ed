// The candidate's bytes are the reference's bytes.

#include <algorithm>

#include "properties/operations/moe/statements.h"

namespace mxcheck {
namespace {

std::optional<Finding> layer_equals_reference(CheckContext& context, const Case& c) {
  const Posed posed = posed_of(context, c);
  EqualityOptions options;
  options.matches = moe_matches;
  return equals_answer(context, *posed.problem, posed.answer, options);
}

// The variants that every run gives more: one of each way to quantize, in one order of gate and up value.
bool is_usual_layer(const Variant& v) {
  const MoeVariant& own = moe_of(v);
  return own.gate_up == MXCHECK_HALVES && (own.recipe == "mxfp8" || own.recipe == "dsv3");
}

// What every variant meets on every run. Widths are multiples of 128 but in the last: a library may leave out others.
std::vector<Case> layer_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&](std::int64_t tokens, std::int64_t cols, std::int64_t inner,
                       const std::vector<std::int64_t>& sizes, std::int64_t k, Data data) {
    cases.push_back(moe_corner(v, tokens, cols, inner, sizes, k, data, cases.size() + 1));
  };
  add(0, 128, 128, {0, 0}, 2, Data::zeros);
  add(5, 128, 128, {0, 0}, 2, Data::normal);  // every route was dropped
  add(19, 128, 128, {0, 7, 0, 1, 19}, 2, Data::normal);
  add(9, 128, 128, {9, 9, 7, 0, 2}, 0, Data::boundaries);
  add(13, 128, 128, {13, 6}, 2, Data::specials);
  add(35, 32, 64, {33, 1, 0, 35}, 3, Data::normal);
  if (suite == Suite::quick && !is_usual_layer(v)) return cases;
  add(129, 128, 128, {0, 1, 128, 0}, 1, Data::normal);
  add(130, 128, 128, {127, 128, 129, 64}, 4, Data::normal);
  add(24, 256, 128, {20, 3}, 1, Data::wide);
  add(24, 128, 256, {20, 3}, 1, Data::real);
  if (suite == Suite::quick) return cases;
  add(260, 256, 128, {257, 0, 255, 256, 1, 31, 32, 33}, 0, Data::normal);
  add(140, 128, 384, {128, 129, 3}, 2, Data::boundaries);
  add(65, 512, 128, {64, 65, 1}, 2, Data::slots);
  return cases;
}

// More than 2^16 tokens, routed rows, slots, rows of one expert, and 2^20 elements of O and dX: indices of 16 or 20
// bits go wrong. An expert follows that has rows beyond 2^16 alone.
constexpr std::int64_t kManyTokens = 65600;
const std::vector<std::int64_t> kManyRows{3, 65560, 0, 129};

// Narrow ones take the reference half a second, and every run meets one of each recipe but those in blocks of 128,
// which are met in the full suite. So are those that a library has which takes multiples of 128 alone: 10 G products.
std::vector<Case> beyond_16_bits(std::span<const Variant> variants, Suite suite) {
  std::vector<Case> cases;
  std::vector<std::string> recipes;
  for (const Variant& v : variants) {
    const std::string& recipe = moe_of(v).recipe;
    const bool is_first = std::find(recipes.begin(), recipes.end(), recipe) == recipes.end();
    if (is_first) recipes.push_back(recipe);
    const bool is_quick = is_first && layer_recipe_of(v).gemm(LayerGemm::up).contract.starts_with("sm90_bf16");
    if (is_quick || suite != Suite::quick)
      cases.push_back(moe_corner(v, kManyTokens, 16, 8, kManyRows, 2, Data::normal, 21));
    if (is_first && suite != Suite::quick)
      cases.push_back(moe_corner(v, kManyTokens, 128, 128, kManyRows, 2, Data::normal, 22));
  }
  return cases;
}

Statement layer_equality(std::string_view name, std::string_view operation, std::string_view sentence) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/layer.md; kernels/candidate_moe.h";
  s.applies = [operation](const Variant& v, std::span<const Variant>) { return v.operation == operation; };
  s.data = {Data::normal, Data::normal,     Data::boundaries, Data::codes, Data::slots,
            Data::wide,   Data::every_word, Data::specials,   Data::real,  Data::sparse};
  s.strides = false;
  s.check = layer_equals_reference;
  s.corners = layer_corners;
  s.shared_corners = beyond_16_bits;
  s.covers_pairs = true;
  return s;
}

}  // namespace

std::vector<Statement> moe_equality_statements() {
  return {
      layer_equality("moe_forward_equals_the_reference", "moe_forward",
                     "O of each token, and H and X as they are kept, are the reference's"),
      layer_equality("moe_backward_equals_the_reference", "moe_backward",
                     "dX of each token, the gradients of the weights and dS are the reference's"),
  };
}

}  // namespace mxcheck
