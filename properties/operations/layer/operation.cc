#include "properties/operations/layer/operation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

#include "numerics/scale/recipe.h"
#include "numerics/text.h"
#include "properties/core/case_text.h"
#include "properties/core/claims.h"
#include "properties/core/limits.h"
#include "properties/operations/layer/problem.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 2> kGateUp{"halves", "interleaved"};
constexpr std::array<std::string_view, 3> kWritten{"values", "rows", "columns"};
constexpr std::array<std::string_view, 2> kFlag{"0", "1"};

std::string outputs_text(int outputs) {
  std::string text;
  for (std::size_t bit = 0; bit < kWritten.size(); ++bit) {
    if ((outputs >> bit & 1) != 0) text += (text.empty() ? "" : "+") + std::string(kWritten[bit]);
  }
  return text;
}

int outputs_field(std::string_view field, std::string_view value) {
  int outputs = 0;
  for (const std::string_view word : split(value, '+')) outputs |= 1 << word_field(field, word, kWritten);
  return outputs;
}

std::pair<std::int64_t, std::int64_t> place_field(std::string_view field, std::string_view value) {
  const std::vector<std::string_view> parts = split(value, ',');
  if (parts.size() != 2) fail_field(field, value, "ROW,COL");
  return {number_field<std::int64_t>(field, parts[0]), number_field<std::int64_t>(field, parts[1])};
}

// Parts that all steps share.
class StepOperation : public Operation {
 public:
  // weight: there are a thousand variants of swiglu and its gradient, which must not crowd out the rest.
  StepOperation(std::string_view name, std::size_t weight) : name_(name), weight_(weight) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string shape_text(const Case& c) const override;
  bool set_field(Case& c, std::string_view field, std::string_view value) const override;
  [[nodiscard]] std::optional<std::size_t> fixed_weight() const override { return weight_; }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    return simpler_steps(c, finding);
  }
  [[nodiscard]] bool any_nan_is_equal(std::string_view) const override { return true; }
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const override;

 protected:
  [[nodiscard]] virtual bool set_own_field(Case& c, const FieldText& f) const = 0;
  static mxcheck_policy common_policy(const Case& c);

 private:
  std::string_view name_;
  std::size_t weight_;
};

mxcheck_policy StepOperation::common_policy(const Case& c) {
  mxcheck_policy common;
  std::memset(static_cast<void*>(&common), 0, sizeof(common));  // as aggregate's policy
  common.format = common.recipe = "";
  common.rows = c.rows, common.cols = c.cols, common.threads = c.threads;
  common.layout = MXCHECK_COMPACT;
  return common;
}

std::string StepOperation::shape_text(const Case& c) const {
  const LayerCase& own = layer_case(c);
  std::string text;
  if (own.drops != 0) text += fmt::format(" drops={}", own.drops);
  if (own.first_row != 0 || own.first_col != 0) text += fmt::format(" at={},{}", own.first_row, own.first_col);
  return text;
}

bool StepOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  if (field == "at") {
    LayerCase& own = layer_case(c);
    std::tie(own.first_row, own.first_col) = place_field(field, value);
    return true;
  }
  return set_own_field(c, {field, value});
}

std::vector<Case> StepOperation::large_cases(const Variant& v, Suite suite) const {
  const LayerVariant& own = layer_of(v);
  const bool usual = own.recipe == "rceil" && own.format == Format::e4m3 && own.scaled == Format::e4m3 &&
                     own.block == 32 && own.gate_up == MXCHECK_HALVES;
  if (suite == Suite::quick && !usual) return {};
  if (suite != Suite::exhaustive && own.recipe != "rceil") return {};
  Case c = step_corner(v, 515, 301, Data::normal, 5);
  if (has_offsets_of_experts()) c.experts = {0, 3, 3, 259, 515};
  return {c};
}

class SwigluOperation : public StepOperation {
 public:
  using StepOperation::StepOperation;

  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_swiglus(operation);
  }
  [[nodiscard]] std::vector<std::string_view> claims() const override {
    return {kAnyOrder, kAnyOrderOrTanh, kAsAccurateAsExact};
  }
  [[nodiscard]] Policy policy(const Case& c) const override;
  [[nodiscard]] std::string variant_text(const Variant& v) const override;
  void check(const Case& c) const override { check_swiglu(c); }
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return swiglu_domain(request);
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override { return invalid_swiglus(); }
  [[nodiscard]] bool may_have_row_stride() const override { return true; }

 private:
  [[nodiscard]] bool set_own_field(Case& c, const FieldText& f) const override {
    LayerVariant& v = layer_of(c.variant);
    return f.word("gate_up", v.gate_up, kGateUp) ||
           f.read("outputs", [&] { v.outputs = outputs_field(f.field, f.value); }) || f.format("format", v.format) ||
           f.read("recipe", [&] { v.recipe = recipe_named(f.value).name; }) || f.number("block", v.block) ||
           f.format("scaled", v.scaled);
  }
};

Policy SwigluOperation::policy(const Case& c) const {
  const LayerVariant& v = layer_of(c.variant);
  mxcheck_swiglu_policy p{};
  p.policy = common_policy(c);
  if (writes_codes(c.variant)) {
    p.policy.format = spec(v.format).name.data(), p.policy.recipe = v.recipe.c_str();
    p.policy.block_rows = 1, p.policy.block_cols = v.block;
  }
  p.format_h = has_coded_h(c.variant) ? spec(c.variant.dtype).name.data() : "";
  p.format_scaled = has_scaled_format(c.variant) ? spec(v.scaled).name.data() : "";
  p.gate_up = v.gate_up, p.outputs = v.outputs;
  return pack(p, {offsetof(mxcheck_swiglu_policy, format_h), offsetof(mxcheck_swiglu_policy, format_scaled)});
}

std::string SwigluOperation::variant_text(const Variant& variant) const {
  const LayerVariant& v = layer_of(variant);
  std::string text = fmt::format("op={} x={} gate_up={} outputs={}", variant.operation, spec(variant.dtype).name,
                                 kGateUp[static_cast<std::size_t>(v.gate_up)], outputs_text(v.outputs));
  if (writes_codes(variant))
    text += fmt::format(" format={} recipe={} block={}", spec(v.format).name, v.recipe, v.block);
  if (has_scaled_format(variant)) text += fmt::format(" scaled={}", spec(v.scaled).name);
  return text;
}

class AggregateOperation : public StepOperation {
 public:
  using StepOperation::StepOperation;

  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_aggregates(operation);
  }
  [[nodiscard]] std::vector<std::string_view> claims() const override { return {kAnyOrder, kAsAccurateAsExact}; }
  [[nodiscard]] Policy policy(const Case& c) const override {
    mxcheck_aggregate_policy p;
    std::memset(static_cast<void*>(&p), 0,
                sizeof(p));  // the bytes after the last member too: policies are compared whole
    p.policy = common_policy(c), p.weighted = layer_of(c.variant).weighted ? 1 : 0;
    return pack(p);
  }
  [[nodiscard]] std::string variant_text(const Variant& v) const override {
    return fmt::format("op={} weighted={:d}", v.operation, layer_of(v).weighted);
  }
  [[nodiscard]] std::string shape_text(const Case& c) const override {
    return fmt::format(" y={} k={}", layer_case(c).y_rows, layer_case(c).most) + StepOperation::shape_text(c);
  }
  void check(const Case& c) const override { check_aggregate(c); }
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return aggregate_domain(request);
  }
  [[nodiscard]] std::int64_t work(const Case& c) const override {
    return c.cols * std::max(c.rows * std::max<std::int64_t>(1, layer_case(c).most), layer_case(c).y_rows);
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override { return invalid_aggregates(); }
  [[nodiscard]] bool has_invalid_calls(const Case& c) const override {
    return StepOperation::has_invalid_calls(c) && layer_case(c).y_rows >= 2 &&
           AggregateProblem(c).slots.token_rows.size() >= 2;
  }
  [[nodiscard]] bool has_offsets_of_experts() const override { return false; }  // they are of tokens

 private:
  [[nodiscard]] bool set_own_field(Case& c, const FieldText& f) const override {
    LayerCase& own = layer_case(c);
    return f.word("weighted", layer_of(c.variant).weighted, kFlag) || f.number("y", own.y_rows) ||
           f.number("k", own.most) || f.number("drops", own.drops);
  }
};

}  // namespace

Case step_corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, c.data = data, c.seed = seed;
  if (is_aggregate(v)) layer_case(c).y_rows = rows * 2 + 1, layer_case(c).most = 4, layer_case(c).drops = 10;
  return c;
}

OperationModule layer_module() {
  static const OperationOf<SwigluProblem, SwigluOperation> kSwiglu("swiglu", 60);
  static const OperationOf<SwigluProblem, SwigluOperation> kBackward("swiglu_backward", 60);
  static const OperationOf<AggregateProblem, AggregateOperation> kAggregate("aggregate", 20);
  OperationModule module{{&kSwiglu, &kBackward, &kAggregate, &quantize_transposed_operation()},
                         step_equality_statements()};
  for (const auto& family : {step_claim_statements(step_equality_statements()), swiglu_law_statements(),
                             expert_law_statements(), aggregate_law_statements()})
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  return module;
}

Statement step_law(std::string_view name, std::string_view sentence, Applies* applies, LawCheck* check) {
  const auto promised = [applies](const Variant& v, std::span<const Variant> all) {
    return promises_bits(v) && applies(v, all);  // two right calls may differ where it does not
  };
  return law_statement(name, sentence, "docs/layer.md", promised,
                       {Data::normal, Data::boundaries, Data::slots, Data::specials, Data::wide, Data::sparse}, 30,
                       true, check);
}

bool is_usual(const Variant& v) {
  const LayerVariant& own = layer_of(v);
  return own.recipe == "rceil" && own.block == 32 && own.format == Format::e4m3 && own.scaled == Format::e4m3;
}

std::vector<std::byte> rotated(std::span<const std::byte> from, std::int64_t lines, std::int64_t by) {
  std::vector<std::byte> to(from.begin(), from.end());
  const std::size_t line = lines == 0 ? 0 : from.size() / static_cast<std::size_t>(lines);
  for (std::int64_t i = 0; i < lines && line != 0; ++i) {
    std::memcpy(to.data() + static_cast<std::size_t>(i) * line,
                from.data() + static_cast<std::size_t>((i + by) % lines) * line, line);
  }
  return to;
}

}  // namespace mxcheck
