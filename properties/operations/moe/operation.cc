#include "properties/operations/moe/operation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/candidate_kept_weights.h"
#include "properties/core/case_text.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/rng.h"
#include "properties/operations/moe/problem.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 2> kGateUp{"halves", "interleaved"};
constexpr std::array<std::string_view, 2> kWeightsAre{"read", "kept"};
constexpr std::int64_t kWidth = 128;   // of which widths are multiples where a library need not take others
constexpr std::uint8_t kAligned = 16;  // bytes, where it need not take other addresses of matrices

bool is_whole(std::int64_t width) { return width % kWidth == 0; }

// Places of Misalignment that are those of a matrix: the rest is that of routes, scales or dS alone.
std::vector<std::size_t> input_matrices(const Variant& v) {
  return is_moe_backward(v) ? std::vector<std::size_t>{0, 1, 2, 3} : std::vector<std::size_t>{0, 1, 2};
}
std::vector<std::size_t> output_matrices(const Variant& v) {
  if (is_moe_backward(v)) return {0, 1, 2};
  const LayerRecipe& recipe = layer_recipe_of(v);
  if (!recipe.keeps_quantized_x) return {0, 1};
  return {0, 1, std::size_t{recipe.kept_h.quantized() ? 3U : 2U}};
}

class MoeOperation final : public OperationOf<MoeProblem> {
 public:
  explicit MoeOperation(std::string_view name) : name_(name) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_layers(operation);
  }
  [[nodiscard]] std::vector<Variant> askable_under(const std::string& operation,
                                                   std::string_view contract) const override {
    std::vector<Variant> all = askable_layers(operation);
    if (contract != MXCHECK_KEPT_WEIGHTS_CONTRACT) return all;
    for (Variant& v : askable_kept_weights(operation)) all.push_back(std::move(v));
    return all;
  }
  [[nodiscard]] std::string variant_name(std::string_view contract) const override {
    return contract == MXCHECK_KEPT_WEIGHTS_CONTRACT ? std::string(name_) : Operation::variant_name(contract);
  }
  [[nodiscard]] Policy policy(const Case& c) const override;

  [[nodiscard]] std::string variant_text(const Variant& v) const override {
    return fmt::format("op={} recipe={} gate_up={}{}", name_, moe_of(v).recipe,
                       kGateUp[static_cast<std::size_t>(moe_of(v).gate_up)], keeps_weights(v) ? " weights=kept" : "");
  }
  [[nodiscard]] std::string shape_text(const Case& c) const override {
    const MoeCase& own = moe_case(c);
    std::string text = fmt::format(" inner={} k={}", own.inner, own.k);
    if (own.drops != 0) text += fmt::format(" drops={}", own.drops);
    if (own.zero != 0) text += fmt::format(" zero={}", own.zero);
    return text;
  }
  bool set_field(Case& c, std::string_view field, std::string_view value) const override;
  void check(const Case& c) const override { check_moe(c); }

  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return moe_domain(request);
  }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    return simpler_layers(c, finding);
  }
  void fit(Case& c) const override { fit_moe(c); }
  [[nodiscard]] std::int64_t experts_end(const Case& c) const override { return moe_routed(c); }
  void halve_rows(Case& c) const override {
    c.rows /= 2;
    fit_moe(c);
  }
  [[nodiscard]] std::int64_t work(const Case& c) const override { return moe_work(c); }

  [[nodiscard]] bool any_nan_is_equal(std::string_view) const override { return true; }

  // Widths that are no multiple of 128, matrices that are not at multiples of 16 bytes: nothing else may be refused as
  // UNSUPPORTED.
  [[nodiscard]] bool is_option(const Case& c) const override {
    if (!is_whole(c.cols) || !is_whole(moe_case(c).inner)) return true;
    const auto is_off = [](std::uint8_t at) { return at % kAligned != 0; };
    for (const std::size_t i : input_matrices(c.variant)) {
      if (is_off(c.misaligned.inputs[i])) return true;
    }
    for (const std::size_t i : output_matrices(c.variant)) {
      if (is_off(c.misaligned.outputs[i])) return true;
    }
    return false;
  }
  [[nodiscard]] Case without_options(Case c) const override {
    const auto whole = [](std::int64_t width) { return (width + kWidth - 1) / kWidth * kWidth; };
    c.cols = whole(c.cols);
    moe_case(c).inner = whole(moe_case(std::as_const(c)).inner);
    const auto align = [](std::uint8_t& at) { at = static_cast<std::uint8_t>(at / kAligned * kAligned); };
    for (const std::size_t i : input_matrices(c.variant)) align(c.misaligned.inputs[i]);
    for (const std::size_t i : output_matrices(c.variant)) align(c.misaligned.outputs[i]);
    return c;
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override { return invalid_layers(); }
  [[nodiscard]] bool has_invalid_calls(const Case& c) const override {
    return Operation::has_invalid_calls(c) && moe_case(c).inner >= 2 && moe_routed(c) >= 2;
  }
  [[nodiscard]] bool has_offsets_of_experts() const override { return false; }  // the policy says how many there are
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const override;

 private:
  std::string_view name_;
};

Policy MoeOperation::policy(const Case& c) const {
  mxcheck_moe_policy p{};
  p.policy.format = "";
  p.policy.recipe = layer_recipe_of(c.variant).name.c_str();  // of the table of recipes
  p.policy.rows = c.rows, p.policy.cols = c.cols, p.policy.threads = c.threads;
  p.policy.layout = MXCHECK_COMPACT;
  p.inner = moe_case(c).inner, p.experts = moe_experts(c), p.routed = moe_routed(c);
  p.gate_up = moe_of(c.variant).gate_up;
  const LayerRandom random = random_of(c);
  p.seed = random.seed, p.step = random.step, p.layer = random.layer;
  // Words take the step modulo 2^32; a step that is 0 stays, and so does one of a usual number, and the largest.
  const int zero = moe_case(c).zero;
  const bool has_upper_half = zero == 7 || (random.step != 0 && zero != 4 && zero != 6);
  if (has_upper_half) p.step |= random_word(random.seed, random.step) << 32;
  if (!keeps_weights(c.variant)) return pack(p);
  mxcheck_moe_kept_policy kept{};
  kept.moe = p, kept.kept.mode = MXCHECK_WEIGHTS_KEEP;
  return pack(kept);
}

bool MoeOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  MoeCase& own = moe_case(c);
  const FieldText f{field, value};
  return f.read("recipe", [&] { moe_of(c.variant).recipe = layer_recipe_named(value).name; }) ||
         f.word("gate_up", moe_of(c.variant).gate_up, kGateUp) ||
         f.word("weights", moe_of(c.variant).keeps_weights, kWeightsAre) || f.number("inner", own.inner) ||
         f.number("k", own.k) || f.number("drops", own.drops) || f.number("zero", own.zero);
}

std::vector<Case> MoeOperation::large_cases(const Variant& v, Suite suite) const {
  const MoeVariant& own = moe_of(v);
  if (own.keeps_weights) return {};  // its steps are those of the variant without
  if (suite == Suite::quick && (own.gate_up != MXCHECK_HALVES || (own.recipe != "mxfp8" && own.recipe != "dsv3")))
    return {};
  return {moe_corner(v, 67, kWidth, kWidth, {30, 0, 67, 1, 36}, 2, Data::normal, 5)};
}

}  // namespace

OperationModule moe_module() {
  static const MoeOperation kForward("moe_forward");
  static const MoeOperation kBackward("moe_backward");
  OperationModule module{{&kForward, &kBackward}, moe_equality_statements()};
  for (const auto& family : {moe_token_law_statements(), moe_expert_law_statements(), moe_order_law_statements(),
                             moe_kept_weights_statements()})
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  return module;
}

Statement moe_law(std::string_view name, std::string_view sentence, bool (*applies)(const Variant&), LawCheck* check) {
  return law_statement(
      name, sentence, "docs/layer.md, What holds for any layer",
      [applies](const Variant& v, std::span<const Variant>) { return is_moe(v) && !keeps_weights(v) && applies(v); },
      {Data::normal, Data::normal, Data::slots, Data::boundaries, Data::sparse}, 30, false, check);
}

// Calls of a layer that must be refused, beside those of every operation.

namespace {

using M = mxcheck_moe_policy;

// The routes are the last five inputs.
CallTensor& route_input(Call& call, std::size_t number) { return call.inputs[call.inputs.size() - 5 + number]; }
CallTensor& row_token(Call& call) { return route_input(call, 0); }
CallTensor& token_offsets(Call& call) { return route_input(call, 2); }
CallTensor& token_rows(Call& call) { return route_input(call, 3); }
CallTensor& offsets(Call& call) { return route_input(call, 4); }

std::int64_t routed_of(const Call& call) { return read<M>(call.policy).routed; }
std::int64_t slots_of(Call& call) { return token_rows(call).shape[0]; }
std::size_t last_of(const CallTensor& t) { return static_cast<std::size_t>(t.shape[0]) - 1; }

bool change_one_index(Call& call, CallTensor& t, std::int64_t value) {
  return change_one(call, t, static_cast<std::int32_t>(value));
}

std::vector<InvalidCall> invalid_policies() {
  return {
      invalid_policy<M>("gate_up is unknown", [](M& p) { return p.gate_up = 7, true; }),
      invalid_policy<M>("gate_up is negative", [](M& p) { return p.gate_up = -1, true; }),
      invalid_policy<M>("a layer has a format", [](M& p) { return p.policy.format = "e4m3", true; }),
      invalid_policy<M>("a layer has blocks",
                        [](M& p) { return p.policy.block_rows = 1, p.policy.block_cols = 32, true; }),
      invalid_policy<M>("a layer has scales in tiles", [](M& p) { return p.policy.layout = MXCHECK_TCGEN05, true; }),
      invalid_policy<M>("inner disagrees with the weights", [](M& p) { return p.inner += 128, true; }),
      invalid_policy<M>("inner is negative", [](M& p) { return p.inner = -1, true; }),
      invalid_policy<M>("inner is 2^63 - 1", [](M& p) { return p.inner = INT64_MAX, true; }),
      invalid_policy<M>("layer is 65536",
                        [](M& p) { return p.layer = 65536, is_stochastic(layer_recipe_named(p.policy.recipe)); }),
      wrapping_policy<M>("inner is 2^32 more", [](M& p) { return p.inner += std::int64_t{1} << 32, true; }),
      invalid_policy<M>("there are more experts than offsets say", [](M& p) { return p.experts += 1, true; }),
      invalid_policy<M>("the number of experts is negative", [](M& p) { return p.experts = -1, true; }),
      invalid_policy<M>("the number of experts is 2^63 - 1", [](M& p) { return p.experts = INT64_MAX, true; }),
      invalid_policy<M>("routed is one more than there are rows", [](M& p) { return p.routed += 1, true; }),
      invalid_policy<M>("routed is negative", [](M& p) { return p.routed = -1, true; }),
      wrapping_policy<M>("routed is 2^32 more", [](M& p) { return p.routed += std::int64_t{1} << 32, true; }),
      invalid_policy<M>("routed is 2^63 - 1", [](M& p) { return p.routed = INT64_MAX, true; }),
  };
}

// Calls with wrong memory for kept weights.
std::vector<InvalidCall> invalid_memory() {
  const auto with_policy = [](auto change) {
    return [change](Call& c) {
      if (c.memory.policy_offset == 0) return false;
      edit<mxcheck_moe_kept_policy>(c.policy, change);
      return true;
    };
  };
  const auto with_mode = [&](int mode) {
    return with_policy([mode](mxcheck_moe_kept_policy& p) { p.kept.mode = mode; });
  };
  return {
      {"the memory for kept weights is a null pointer",
       [](Call& c) { return c.memory.is_null = c.memory.policy_offset != 0; }},
      {"the memory for kept weights is one byte too small",
       [](Call& c) { return c.memory.is_small = c.memory.policy_offset != 0; }},
      {"the mode of kept weights is 0", with_mode(0)},
      {"the mode of kept weights is negative", with_mode(-1)},
      {"the mode of kept weights is unknown", with_mode(5)},
      {"a call asks how large the memory for kept weights must be", with_mode(MXCHECK_WEIGHTS_BYTES)},
      {"the policy ends within the fields of kept weights",
       with_policy([](mxcheck_moe_kept_policy& p) { p.moe.policy.size = sizeof(mxcheck_moe_policy) + 8; })},
  };
}

}  // namespace

std::vector<InvalidCall> invalid_layer_routes() {
  return {
      {"the offsets of experts descend",
       [](Call& c) {
         return offsets(c).shape[0] > 2 && change_value<std::int64_t>(c, offsets(c), 1, routed_of(c) + 1);
       }},
      {"the offsets of experts do not start at 0",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), 0, 1); }},
      {"the first offset of experts is negative",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), 0, -1); }},
      {"the offsets of experts end after the last row",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), last_of(offsets(c)), routed_of(c) + 1); }},
      {"the offsets of experts end before the last row",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), last_of(offsets(c)), routed_of(c) - 1); }},
      {"token_offsets descend",
       [](Call& c) { return change_value<std::int64_t>(c, token_offsets(c), 1, slots_of(c) + 1); }},
      {"token_offsets do not start at 0",
       [](Call& c) { return change_value<std::int64_t>(c, token_offsets(c), 0, 1); }},
      {"token_offsets are negative", [](Call& c) { return change_value<std::int64_t>(c, token_offsets(c), 0, -1); }},
      {"token_offsets end after the last slot",
       [](Call& c) {
         return change_value<std::int64_t>(c, token_offsets(c), last_of(token_offsets(c)), slots_of(c) + 1);
       }},
      {"token_offsets end before the last slot",
       [](Call& c) {
         return change_value<std::int64_t>(c, token_offsets(c), last_of(token_offsets(c)), slots_of(c) - 1);
       }},
      {"a row is of token -1", [](Call& c) { return change_one_index(c, row_token(c), -1); }},
      {"a row is of a token that there is not",
       [](Call& c) { return change_one_index(c, row_token(c), read<M>(c.policy).policy.rows); }},
      {"a slot's row is -2", [](Call& c) { return change_one_index(c, token_rows(c), -2); }},
      {"a slot's row is the number of rows", [](Call& c) { return change_one_index(c, token_rows(c), routed_of(c)); }},
      {"the first input has a row more", [](Call& c) { return c.inputs[0].shape[0] += 1, true; }},
  };
}

std::vector<InvalidCall> invalid_layers() {
  std::vector<InvalidCall> all = disagreeing_extents({unknown_recipe(), unknown_layout(), negative_layout()});
  add_invalid(all, {invalid_blocks(), invalid_policies(), invalid_layer_routes(), invalid_memory()});
  return all;
}

}  // namespace mxcheck
