// What holds of the tokens of any layer, whatever the reference says: the candidate's outputs are held against each
// other.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "properties/operations/moe/statements.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::byte>;

// Whether operands of these GEMMs have scales that several tokens share.
bool shares(const Variant& v, bool whole_tensors, bool blocks_of_rows) {
  const LayerRecipe& recipe = layer_recipe_of(v);
  const std::array<LayerGemm, 2> forward{LayerGemm::up, LayerGemm::down};
  const std::array<LayerGemm, 2> backward{LayerGemm::d_down, LayerGemm::d_up};
  for (const LayerGemm gemm : is_moe_backward(v) ? backward : forward) {
    const OperandRule& rule = recipe.gemm(gemm).a;  // X, A, dO, dH: rows of tokens
    if (!rule.quantized()) continue;
    if (whole_tensors && rule.of_whole_tensor()) return true;
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

std::optional<Finding> slots_differ(const MoeProblem& one, const MoeProblem& other, const Bytes& expected,
                                    const Bytes& observed, std::span<const std::int64_t> tokens, const char* what) {
  const std::vector<float> all = by_slot(one, expected);
  std::vector<float> want;
  for (const std::int64_t t : tokens) {
    const auto at = static_cast<std::size_t>(t);
    want.insert(want.end(), all.begin() + one.routes.token_offsets[at], all.begin() + one.routes.token_offsets[at + 1]);
  }
  TensorInfo info = one.outputs[3];
  info.cols = std::ssize(want);
  return differ(info, to_bytes(want), to_bytes(by_slot(other, observed)), std::string("ds ") + what);
}

// O or dX of these tokens, and dS of their slots, are those of the same tokens elsewhere.
std::optional<Finding> same_for_tokens(CheckContext& context, const Layered& from, std::span<const std::int64_t> tokens,
                                       const char* what) {
  const Layered moved = with_tokens(from, tokens);
  const MoeProblem one(from.c, from.in);
  const MoeProblem other(moved.c, moved.in);
  const MoePair pair = run_both(context, one, other);
  if (!pair.usable) return pair.finding;
  const Bytes want = lines_of(pair.before.outputs[0], from.c.rows, tokens);
  if (auto f = differ(other.outputs[0], want, pair.after.outputs[0], one.outputs[0].name + " " + what)) return f;
  if (!is_moe_backward(from.c.variant)) return std::nullopt;
  return slots_differ(one, other, pair.before.outputs[3], pair.after.outputs[3], tokens, what);
}

std::optional<Finding> tokens_permuted(CheckContext& context, const Case& c) {
  if (c.rows < 2) return nothing_claimed(context);
  std::vector<std::int64_t> tokens;
  const std::int64_t by = 1 + c.rows / 3;
  for (std::int64_t t = 0; t < c.rows; ++t) tokens.push_back((t + by) % c.rows);
  if (c.seed % 2 == 0) std::reverse(tokens.begin(), tokens.end());
  return same_for_tokens(context, {c, expand_moe(c)}, tokens, "of tokens that stand in another order are others");
}

std::optional<Finding> tokens_left_out(CheckContext& context, const Case& c) {
  if (c.rows < 2) return nothing_claimed(context);
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = static_cast<std::int64_t>(c.seed % 2); t < c.rows; t += 2) tokens.push_back(t);
  return same_for_tokens(context, {c, expand_moe(c)}, tokens, "of tokens are others where there are fewer beside them");
}

// Every other token has NaN for X, and dO.
std::optional<Finding> tokens_replaced(CheckContext& context, const Case& c) {
  if (c.rows < 2) return nothing_claimed(context);
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
  const MoePair pair = run_both(context, one, other);
  if (!pair.usable) return pair.finding;
  TensorInfo info = one.outputs[0];
  info.rows = std::ssize(kept);
  return differ(info, lines_of(pair.before.outputs[0], c.rows, kept), lines_of(pair.after.outputs[0], c.rows, kept),
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

std::optional<Finding> powers_of_two(CheckContext& context, const Case& c) {
  const MoeProblem one(c);
  MoeProblem other = one;
  const int power = c.seed % 2 == 0 ? 5 : -4;
  const float by = std::ldexp(1.0F, power);
  for (std::uint16_t& w : other.in.d_o) w = layer_bf16(fp32_of(w) * by);
  const MoePair pair = run_both(context, one, other);
  if (!pair.usable) return pair.finding;
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    if (auto f = differ(one.outputs[i], scaled(one.outputs[i], pair.before.outputs[i], by), pair.after.outputs[i],
                        fmt::format("{} of 2^{} dO is not 2^{} times that of dO", one.outputs[i].name, power, power)))
      return f;
  }
  return std::nullopt;
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

}  // namespace mxcheck
