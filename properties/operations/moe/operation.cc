#include "properties/operations/moe/operation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "properties/core/case_text.h"
#include "properties/core/limits.h"
#include "properties/operations/moe/problem.h"
#include "properties/operations/moe/statements.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 2> kGateUp{"halves", "interleaved"};
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

class MoeOperation final : public Operation {
 public:
  explicit MoeOperation(std::string_view name) : name_(name) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_layers(operation);
  }
  [[nodiscard]] Policy policy(const Case& c) const override;

  [[nodiscard]] std::string variant_text(const Variant& v) const override {
    return fmt::format("op={} recipe={} gate_up={}", name_, moe_of(v).recipe,
                       kGateUp[static_cast<std::size_t>(moe_of(v).gate_up)]);
  }
  [[nodiscard]] std::string shape_text(const Case& c) const override {
    const MoeCase& own = moe_case(c);
    std::string text = fmt::format(" inner={} k={}", own.inner, own.k);
    if (own.drops != 0) text += fmt::format(" drops={}", own.drops);
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

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<MoeProblem>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    return std::make_unique<MoeProblem>(call);
  }
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
  return pack(p);
}

bool MoeOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  if (field == "recipe") {
    moe_of(c.variant).recipe = layer_recipe_named(value).name;
  } else if (field == "gate_up") {
    moe_of(c.variant).gate_up = word_field(field, value, kGateUp);
  } else if (field == "inner") {
    moe_case(c).inner = number_field<std::int64_t>(field, value);
  } else if (field == "k") {
    moe_case(c).k = number_field<std::int64_t>(field, value);
  } else if (field == "drops") {
    moe_case(c).drops = number_field<int>(field, value);
  } else {
    return false;
  }
  return true;
}

std::vector<Case> MoeOperation::large_cases(const Variant& v, Suite suite) const {
  const MoeVariant& own = moe_of(v);
  if (suite == Suite::quick && (own.gate_up != MXCHECK_HALVES || (own.recipe != "mxfp8" && own.recipe != "dsv3")))
    return {};
  return {moe_corner(v, 67, kWidth, kWidth, {30, 0, 67, 1, 36}, 2, Data::normal, 5)};
}

}  // namespace

OperationModule moe_module() {
  static const MoeOperation kForward("moe_forward");
  static const MoeOperation kBackward("moe_backward");
  OperationModule module{{&kForward, &kBackward}, moe_equality_statements()};
  for (const auto& family : {moe_token_law_statements(), moe_expert_law_statements(), moe_order_law_statements()})
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  return module;
}

}  // namespace mxcheck
