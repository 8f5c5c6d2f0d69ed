// Laws of the tokens of any layer that hold whatever the reference says: the candidate's outputs are held against each
// other.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/moe/operation.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

// True if operands of these GEMMs have scales that several tokens share.
bool shares(const Variant& v, bool whole_tensors, bool blocks_of_rows) {
  const LayerRecipe& recipe = layer_recipe_of(v);
  // The backward pass has H of the forward pass, which up's operand X decides.
  const std::array<LayerGemm, 2> forward{LayerGemm::up, LayerGemm::down};
  const std::array<LayerGemm, 3> backward{LayerGemm::up, LayerGemm::d_down, LayerGemm::d_up};
  for (const LayerGemm gemm : is_moe_backward(v) ? std::span<const LayerGemm>(backward) : std::span(forward)) {
    const OperandRule& rule = recipe.gemm(gemm).a;  // X, A, dO, dH: rows of tokens
    if (!rule.quantized()) continue;
    if (rule.stochastic) return true;  // its words go by the place of the element
    if (whole_tensors && has_scale_of_tensor(rule)) return true;
    if (blocks_of_rows && rule.block.rows > 1) return true;
  }
  return false;
}
bool has_tokens_in_any_order(const Variant& v) { return !shares(v, false, true); }
bool has_tokens_alone(const Variant& v) { return !shares(v, true, true); }

// The case and its inputs with these tokens, in this order; token i of the result is tokens[i].
struct Layered {
  Case c;
  MoeInputs in;
};
Layered with_tokens(const Layered& from, std::span<const std::int64_t> tokens) {
  Layered to{from.c, {{}, from.in.w1, from.in.w2, {}, {{0}, {}, {}}}};
  to.c.rows = std::ssize(tokens);
  const auto copy = [&](const std::vector<std::uint16_t>& all, std::vector<std::uint16_t>& some) {
    if (all.empty()) return;
    for (const std::int64_t t : tokens)
      some.insert(some.end(), all.begin() + t * from.c.cols, all.begin() + (t + 1) * from.c.cols);
  };
  copy(from.in.x, to.in.x), copy(from.in.d_o, to.in.d_o);
  const MoeSlots& slots = from.in.slots;
  for (const std::int64_t t : tokens) {
    const std::int64_t begin = slots.token_offsets[static_cast<std::size_t>(t)];
    const std::int64_t end = slots.token_offsets[static_cast<std::size_t>(t) + 1];
    to.in.slots.experts.insert(to.in.slots.experts.end(), slots.experts.begin() + begin, slots.experts.begin() + end);
    to.in.slots.weights.insert(to.in.slots.weights.end(), slots.weights.begin() + begin, slots.weights.begin() + end);
    to.in.slots.token_offsets.push_back(std::ssize(to.in.slots.experts));
  }
  to.c.experts = to.in.slots.routes(moe_experts(from.c)).offsets;
  return to;
}

// Lines of a matrix of `lines` of them.
Bytes lines_of(const Bytes& from, std::int64_t lines, std::span<const std::int64_t> which) {
  Bytes to;
  const std::int64_t line = lines == 0 ? 0 : std::ssize(from) / lines;
  for (const std::int64_t i : which) to.insert(to.end(), from.begin() + i * line, from.begin() + (i + 1) * line);
  return to;
}

// The gradient of each slot's weight, +0 for a dropped one: slots have the tokens' order, whatever that of the rows.
std::vector<float> by_slot(const MoeProblem& p, const Bytes& ds) {
  return slot_gradient(p.routes, values_in<float>(ds));
}

void same_slots(const Law& law, const MoeProblem& one, const MoeProblem& other, const Bytes& expected,
                const Bytes& observed, std::span<const std::int64_t> tokens, const char* what) {
  const std::vector<float> all = by_slot(one, expected);
  std::vector<float> want;
  for (const std::int64_t t : tokens) {
    const auto at = static_cast<std::size_t>(t);
    want.insert(want.end(), all.begin() + one.routes.token_offsets[at], all.begin() + one.routes.token_offsets[at + 1]);
  }
  TensorInfo info = one.outputs[3];
  info.cols = std::ssize(want);
  law.equal(info, to_bytes(want), to_bytes(by_slot(other, observed)), std::string("ds ") + what);
}

// O or dX of these tokens, and dS of their slots, are those of the same tokens elsewhere.
void same_for_tokens(const Law& law, const Layered& from, std::span<const std::int64_t> tokens, const char* what) {
  const Layered moved = with_tokens(from, tokens);
  const MoeProblem one(from.c, from.in);
  const MoeProblem other(moved.c, moved.in);
  const Law::Outputs before = law.outputs(one);
  const Law::Outputs after = law.outputs(other);
  const Bytes want = lines_of(before[0], from.c.rows, tokens);
  law.equal(other.outputs[0], want, after[0], one.outputs[0].name + " " + what);
  if (is_moe_backward(from.c.variant)) same_slots(law, one, other, before[3], after[3], tokens, what);
}

void tokens_permuted(const Law& law, const Case& c) {
  if (c.rows < 2) law.says_nothing();
  std::vector<std::int64_t> tokens;
  const std::int64_t by = 1 + c.rows / 3;
  for (std::int64_t t = 0; t < c.rows; ++t) tokens.push_back((t + by) % c.rows);
  if (c.seed % 2 == 0) std::reverse(tokens.begin(), tokens.end());
  same_for_tokens(law, {c, expand_moe(c)}, tokens, "of tokens that stand in another order are others");
}

void tokens_left_out(const Law& law, const Case& c) {
  if (c.rows < 2) law.says_nothing();
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = static_cast<std::int64_t>(c.seed % 2); t < c.rows; t += 2) tokens.push_back(t);
  same_for_tokens(law, {c, expand_moe(c)}, tokens, "of tokens are others where there are fewer beside them");
}

// Every other token has NaN for X, and dO.
void tokens_replaced(const Law& law, const Case& c) {
  if (c.rows < 2) law.says_nothing();
  const MoeProblem one(c);
  MoeInputs changed = one.in;
  std::vector<std::int64_t> kept;
  for (std::int64_t t = 0; t < c.rows; ++t) {
    if (t % 2 == static_cast<std::int64_t>(c.seed % 2)) {
      kept.push_back(t);
      continue;
    }
    for (std::vector<std::uint16_t>* rows : {&changed.x, &changed.d_o}) {
      if (!rows->empty()) std::fill_n(rows->begin() + t * c.cols, c.cols, std::uint16_t{0x7FC0});
    }
  }
  const MoeProblem other(c, std::move(changed));
  const Law::Outputs before = law.outputs(one);
  const Law::Outputs after = law.outputs(other);
  TensorInfo info = one.outputs[0];
  info.rows = std::ssize(kept);
  law.equal(info, lines_of(before[0], c.rows, kept), lines_of(after[0], c.rows, kept),
            info.name + " of tokens are others where those beside them are NaN");
}

bool has_linear_gradients(const Variant& v) { return is_moe_backward(v) && moe_of(v).recipe != "broken"; }

float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

Bytes scaled(const TensorInfo& info, const Bytes& from, float by) {
  if (info.format == Format::fp32) {
    std::vector<float> values = values_in<float>(from);
    for (float& v : values) v *= by;
    return to_bytes(values);
  }
  std::vector<std::uint16_t> words = values_in<std::uint16_t>(from);
  for (std::uint16_t& w : words) w = layer_bf16(fp32_of(w) * by);
  return to_bytes(words);
}

void powers_of_two(const Law& law, const Case& c) {
  const MoeProblem one(c);
  MoeProblem other = one;
  const int power = c.seed % 2 == 0 ? 5 : -4;
  const float by = std::ldexp(1.0F, power);
  for (std::uint16_t& w : other.in.d_o) w = layer_bf16(fp32_of(w) * by);
  const Law::Outputs before = law.outputs(one);
  const Law::Outputs after = law.outputs(other);
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    law.equal(one.outputs[i], scaled(one.outputs[i], before[i], by), after[i],
              fmt::format("{} of 2^{} dO is not 2^{} times that of dO", one.outputs[i].name, power, power));
  }
}

}  // namespace

std::vector<Statement> moe_token_law_statements() {
  std::vector<Statement> s{
      moe_law("permuting_tokens_permutes_o_and_dx",
              "O, dX and dS of a token do not depend on where it stands among others", has_tokens_in_any_order,
              tokens_permuted),
      moe_law("a_token_does_not_depend_on_how_many_others_there_are",
              "O, dX and dS of a token are the same in a batch without every other token", has_tokens_alone,
              tokens_left_out),
      moe_law("a_token_does_not_depend_on_what_others_hold",
              "O and dX of a token are the same where every other token is NaN", has_tokens_alone, tokens_replaced),
      moe_law("powers_of_two_pass_from_do_to_every_gradient", "2^k dO gives 2^k times dX, dW1, dW2 and dS, bit for bit",
              has_linear_gradients, powers_of_two),
  };
  s[3].data = {Data::normal, Data::normal, Data::codes, Data::every_word};
  return s;
}

// Laws of the experts of any layer that hold whatever the reference says.

namespace {

using Words = std::vector<std::uint16_t>;

// Expert number e of the result is experts[e] of the other; several may be the same one.
using Places = std::vector<std::int64_t>;

// Matrices of so many experts, those that are named one after another.
template <class T>
std::vector<T> matrices_of(const std::vector<T>& all, std::int64_t experts, const Places& which) {
  std::vector<T> some;
  const std::int64_t each = std::ssize(all) / experts;
  for (const std::int64_t e : which) some.insert(some.end(), all.begin() + e * each, all.begin() + (e + 1) * each);
  return some;
}

// Experts in other places: to[e] is the new number of expert e, whose weights `from` names for each new one.
MoeProblem with_experts(const MoeProblem& p, const Places& from, const Places& to) {
  MoeInputs in = p.in;
  in.w1 = matrices_of(p.in.w1, moe_experts(p.c), from);
  in.w2 = matrices_of(p.in.w2, moe_experts(p.c), from);
  for (std::int32_t& e : in.slots.experts) e = e < 0 ? e : static_cast<std::int32_t>(to[static_cast<std::size_t>(e)]);
  Case c = p.c;
  c.experts = in.slots.routes(std::ssize(from)).offsets;
  return {c, std::move(in)};
}

// Row r of the first is row rows[r] of the other: of each route, that of its slot.
Places rows_of(const LayerRoutes& one, const LayerRoutes& other) {
  Places rows(one.row_token.size());
  for (std::size_t slot = 0; slot < one.token_rows.size(); ++slot) {
    if (one.token_rows[slot] >= 0) rows[static_cast<std::size_t>(one.token_rows[slot])] = other.token_rows[slot];
  }
  return rows;
}

Bytes rows_in(const Bytes& from, const Places& rows) {
  Bytes to;
  const std::int64_t line = rows.empty() ? 0 : std::ssize(from) / std::ssize(rows);
  for (const std::int64_t r : rows) to.insert(to.end(), from.begin() + r * line, from.begin() + (r + 1) * line);
  return to;
}

// The other problem's outputs are the first's: rows where they are now, weights' gradients by expert; `from` as above,
// and +0 for experts that are new (from number `first_new` on of those that are the same one).
void same_outputs(const Law& law, const MoeProblem& one, const MoeProblem& other, const Places& to,
                  const std::string& what) {
  const Law::Outputs before = law.outputs(one);
  const Law::Outputs after = law.outputs(other);
  const Places rows = rows_of(one.routes, other.routes);
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    const TensorInfo& info = one.outputs[i];
    Bytes observed = after[i];
    if (info.name.front() == 'h' || info.name == "ds") observed = rows_in(observed, rows);
    if (info.name == "dw1" || info.name == "dw2") observed = matrices_of(observed, moe_experts(other.c), to);
    law.equal(info, before[i], observed, info.name + " " + what);
  }
  if (!is_moe_backward(one.c.variant)) return;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto is_old = [&](std::int64_t e) { return std::find(to.begin(), to.end(), e) != to.end(); };
    for (std::int64_t e = 0; e < moe_experts(other.c); ++e) {
      if (is_old(e)) continue;
      const Bytes added = matrices_of(after[i], moe_experts(other.c), {e});
      TensorInfo info = one.outputs[i];
      info.rows = info.rows / moe_experts(one.c);
      law.equal(info, Bytes(added.size()), added, info.name + " of an expert without tokens is not zero");
    }
  }
}

void experts_permuted(const Law& law, const Case& c) {
  const std::int64_t experts = moe_experts(c);
  if (experts < 2) law.says_nothing();
  const MoeProblem one(c);
  Places from(static_cast<std::size_t>(experts));
  std::iota(from.begin(), from.end(), std::int64_t{0});
  std::rotate(from.begin(), from.begin() + 1 + experts / 3 % experts, from.end());
  if (c.seed % 2 == 0) std::reverse(from.begin(), from.end());
  Places to(from.size());
  for (std::size_t e = 0; e < from.size(); ++e) to[static_cast<std::size_t>(from[e])] = static_cast<std::int64_t>(e);
  same_outputs(law, one, with_experts(one, from, to), to, "are others where experts have other numbers");
}

// Experts without tokens before, between or after the others. They have the weights of one that there is, so that a
// scale of all experts' weights stays what it is.
void experts_added(const Law& law, const Case& c) {
  const MoeProblem one(c);
  Places from;
  Places to;
  for (std::int64_t e = 0; e < moe_experts(c); ++e) {
    const std::int64_t before = static_cast<std::int64_t>(mix64(c.seed + static_cast<std::uint64_t>(e)) % 3) / 2;
    from.insert(from.end(), static_cast<std::size_t>(before), e);
    to.push_back(std::ssize(from));
    from.push_back(e);
  }
  if (c.seed % 2 == 0 || std::ssize(from) == moe_experts(c)) from.push_back(0);
  same_outputs(law, one, with_experts(one, from, to), to, "are others with further experts that have no tokens");
}

// Random words of weights go by the number of the expert, which experts in between change.
bool has_weights_without_words(const Variant& v) {
  const LayerRecipe& recipe = layer_recipe_of(v);
  return !is_moe_backward(v) ||
         (!recipe.gemm(LayerGemm::d_down).b.stochastic && !recipe.gemm(LayerGemm::d_up).b.stochastic);
}
// Random words go by the number of a row, which experts in another order change.
bool has_rows_in_any_order(const Variant& v) { return !is_moe_backward(v) || !is_stochastic(layer_recipe_of(v)); }

}  // namespace

std::vector<Statement> moe_expert_law_statements() {
  return {
      moe_law("permuting_experts_permutes_the_gradients_of_their_weights_and_nothing_else",
              "O, H, dX and dS are the same where experts have other numbers, and dW1 and dW2 go with them",
              has_rows_in_any_order, experts_permuted),
      moe_law("an_expert_without_tokens_changes_nothing_and_has_gradients_of_zero",
              "further experts that no token is routed to change no output, and their dW1 and dW2 are +0",
              has_weights_without_words, experts_added),
  };
}

// Gate and up value in either order: the same layer, W1's columns another way round, whatever the reference says.
//
// Columns of W1, H and dH change their places. What is summed or quantized along them, 2n, is not the same then: dX, a
// sum over them in their order, of every recipe; H and O where W1's blocks have several columns; dW1 where dH's do.

namespace {

// True if a scale is that of the same elements in any order of the operand's rows: 2n of W1 in up and of dH in d_w1,
// whose rows, as the GEMM reads them, are those columns.
bool is_free_of_order(const OperandRule& rule) {
  return !rule.quantized() || (!rule.stochastic && (rule.block.rows == 1 || rule.of_whole_tensor()));
}

bool has_h_in_any_order(const LayerRecipe& recipe) { return is_free_of_order(recipe.gemm(LayerGemm::up).b); }

bool has_dw1_in_any_order(const LayerRecipe& recipe) {
  const OperandRule& dh = recipe.gemm(LayerGemm::d_w1).b;
  const OperandRule& source = recipe.gemm(LayerGemm::d_up).a;  // blocks along 2n
  const bool is_as_in_d_up = dh.quantized() && dh.source == OperandSource::requantized;
  return is_free_of_order(dh) && (!is_as_in_d_up || !source.quantized() || source.of_whole_tensor());
}

bool has_both_orders(const Variant& v, std::span<const Variant> offered) {
  if (!is_moe(v) || keeps_weights(v) || moe_of(v).gate_up != MXCHECK_INTERLEAVED) return false;
  const LayerRecipe& recipe = layer_recipe_of(v);
  const bool h_has_no_blocks = !recipe.kept_h.quantized();  // blocks along 2n
  if (!h_has_no_blocks || (!is_moe_backward(v) && !has_h_in_any_order(recipe))) return false;
  Variant halves = v;
  moe_of(halves).gate_up = MXCHECK_HALVES;
  return offers(offered, halves);
}

void either_order(const Law& law, const Case& c) {
  const std::int64_t n = moe_case(c).inner;
  const LayerRecipe& recipe = layer_recipe_of(c.variant);
  const MoeProblem interleaved(c);
  Case other = c;
  moe_of(other.variant).gate_up = MXCHECK_HALVES;
  MoeProblem halves(other);  // its W1 is drawn as the same gates and up values
  // The same H too, where that of W1 in blocks of several columns would be another.
  if (is_moe_backward(c.variant)) halves.h[0].bytes = in_halves(interleaved.h[0].bytes, n, 2);
  const Law::Outputs before = law.outputs(halves);
  const Law::Outputs after = law.outputs(interleaved);
  for (std::size_t i = 0; i < halves.outputs.size(); ++i) {
    const TensorInfo& info = halves.outputs[i];
    if (info.name == "dx" || (info.name == "dw1" && !has_dw1_in_any_order(recipe))) continue;
    Bytes observed = after[i];
    if (info.name == "h" || info.name == "dw1") observed = in_halves(observed, n, bytes_of_element(info));
    law.equal(info, before[i], observed, info.name + " of gates and up values interleaved is not that of halves");
  }
}

}  // namespace

std::vector<Statement> moe_order_law_statements() {
  Statement s = moe_law(
      "gate_and_up_interleaved_give_the_layer_of_halves",
      "W1 with its columns in the other order gives the same O, H, dW1, dW2 and dS, in that order",
      [](const Variant&) { return true; }, either_order);
  s.applies = has_both_orders;
  return {s};
}

}  // namespace mxcheck
