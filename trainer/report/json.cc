#include "trainer/report/report.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "goldens/json/json.h"
#include "trainer/report/tables.h"

namespace mxcheck {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

template <class T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const PairedInterval& i) {
  return {{"pairs", i.pairs},
          {"mean", number(i.mean)},
          {"deviation", number(i.deviation)},
          {"lower", number(i.lower)},
          {"upper", number(i.upper)}};
}

Json to_json(const Judgement& j) { return {{"verdict", to_text(j.verdict)}, {"reason", j.reason}}; }

Json to_json(const StepCurve& curve) {
  Json steps = Json::array();
  Json values = Json::array();
  for (const StepValue& v : curve) {
    steps.push_back(v.step);
    values.push_back(number(v.value));
  }
  return {{"steps", steps}, {"values", values}};
}

Json numbers(const std::vector<double>& values) {
  Json all = Json::array();
  for (const double v : values) all.push_back(number(v));
  return all;
}

Json to_json(const ObservedArm& o) {
  Json loads = Json::array();
  for (const std::vector<double>& layer : o.loads) loads.push_back(numbers(layer));
  Json operands = Json::array();
  for (const OperandShares& s : o.operands)
    operands.push_back({{"operand", s.operand}, {"saturated", to_json(s.saturated)}, {"flushed", to_json(s.flushed)}});
  return {{"equal_routes", to_json(o.equal_routes)},
          {"equal_routes_by_layer", numbers(o.equal_routes_by_layer)},
          {"load_entropy", to_json(o.load_entropy)},
          {"loads", loads},
          {"operands", operands}};
}

Json intervals_json(const std::vector<CheckpointInterval>& intervals) {
  Json all = Json::array();
  for (const CheckpointInterval& p : intervals) all.push_back({{"step", p.step}, {"interval", to_json(p.interval)}});
  return all;
}

Json to_json(const RecipeCost& cost) {
  return {{"tokens_a_second", number(cost.tokens_a_second)},
          {"x_bits", cost.x_bits},
          {"w1_bits", cost.w1_bits},
          {"dy_bits", cost.dy_bits},
          {"w2_bits", cost.w2_bits},
          {"kept_x_bits", cost.kept_x_bits},
          {"kept_h_bits", cost.kept_h_bits},
          {"optimizer_bytes_a_parameter", cost.optimizer_bytes}};
}

Json dependence_json(const ParityComparison& c) {
  Json all = Json::array();
  for (const RecipeByBranchPoint& recipe : by_branch_point(c)) {
    Json points = Json::array();
    for (std::size_t n = 0; n < recipe.arms.size(); ++n) {
      const ArmResult& arm = c.arms[recipe.arms[n]];
      Json point = {{"branch_step", arm.branch_step},
                    {"share_of_training", share_of_training(c, arm)},
                    {"difference", to_json(arm.evidence.interval)}};
      if (n + 1 < recipe.arms.size())
        point.append("above_the_next", to_json(gap_between(arm, c.arms[recipe.arms[n + 1]], c.options.alpha)));
      points.push_back(std::move(point));
    }
    all.push_back({{"recipe", recipe.recipe}, {"points", points}});
  }
  return all;
}

Json pairs_json(const std::vector<SeedPair>& pairs) {
  Json all = Json::array();
  for (const SeedPair& p : pairs)
    all.push_back({{"seed", p.seed},
                   {"baseline", number(p.baseline)},
                   {"arm", number(p.arm)},
                   {"own", number(p.own)},
                   {"difference", number(p.difference)}});
  return all;
}

Json to_json(const ParityComparison& c, const ArmResult& arm) {
  Json curves = Json::array();
  for (const RunCurve& curve : arm.curves)
    curves.push_back({{"file", curve.file},
                      {"seed", curve.seed},
                      {"validation", to_json(curve.validation)},
                      {"training", to_json(curve.training)}});
  Json json{{"name", arm.name}, {"role", to_text(arm.role)}, {"branch_step", arm.branch_step}, {"scales", arm.scales}};
  json["recipe"] = arm.recipe;
  json["share_of_training"] = share_of_training(c, arm);
  json["at_margin"] = to_json(arm.judgement);
  json["at_inner_margin"] = to_json(arm.inner);
  json["at_outer_margin"] = to_json(arm.outer);
  json["sentence"] = allowed_sentence(c, arm);
  json["difference"] = to_json(arm.evidence.interval);
  json["difference_own_recipe"] = to_json(arm.own);
  json["difference_training"] = to_json(arm.training);
  json["cost"] = to_json(arm.cost);
  json["diverged"] = arm.evidence.diverged;
  json["missing_seeds"] = arm.evidence.missing;
  json["correlation"] = number(arm.correlation);
  json["token_equivalents"] = optional(arm.token_equivalents);
  json["pairs_needed"] = optional(arm.pairs_needed);
  json["visible_gap"] = number(arm.visible_gap);
  json["loss_spikes"] = arm.spikes.loss;
  json["gradient_norm_spikes"] = arm.spikes.gradient_norm;
  json["pairs"] = pairs_json(arm.pairs);
  json["checkpoints"] = intervals_json(arm.checkpoints);
  json["differences"] = intervals_json(arm.differences);
  json["training_curves"] = {{"baseline", to_json(arm.training_curves.baseline)},
                             {"arm", to_json(arm.training_curves.arm)},
                             {"difference", intervals_json(arm.training_curves.difference)}};
  json["observed"] = to_json(arm.observed);
  json["curves"] = curves;
  return json;
}

Json beside_json(const ParityComparison& c) {
  Json all = Json::array();
  for (const ExperimentBeside& other : c.beside) {
    Json gaps = Json::array();
    for (const GapBeside& g : other.gaps)
      gaps.push_back({{"recipe", g.recipe},
                      {"share_of_training", g.share_of_training},
                      {"difference", to_json(g.gap)},
                      {"verdict", to_text(g.verdict)},
                      {"above",
                       {{"mean", number(g.above.mean)},
                        {"freedom", number(g.above.freedom)},
                        {"lower", number(g.above.lower)},
                        {"upper", number(g.above.upper)}}}});
    all.push_back({{"name", other.name},
                   {"corpus", other.corpus},
                   {"parameters", other.parameters},
                   {"tokens", other.tokens},
                   {"gaps", gaps}});
  }
  return all;
}

Json runs_json(const ParityComparison& c) {
  Json all = Json::array();
  for (const ListedRun& r : c.runs)
    all.push_back({{"file", r.file},
                   {"arm", r.arm},
                   {"seed", r.seed},
                   {"started", r.started},
                   {"end", to_text(r.end)},
                   {"endpoint", number(r.endpoint)},
                   {"hours", number(r.hours)},
                   {"engine", r.engine},
                   {"device", r.device},
                   {"mxcheck", r.mxcheck}});
  return all;
}

}  // namespace

std::string comparison_json(const ParityComparison& c) {
  const ComparisonOptions& o = c.options;
  Json json{{"schema", kComparisonSchema}, {"summary", summary_line(c)}, {"exit_code", exit_code(c)}};
  json["options"] = {{"margin", o.margin},
                     {"inner_margin", o.inner_margin.value()},
                     {"outer_margin", o.outer_margin},
                     {"alpha", o.alpha},
                     {"power", o.power},
                     {"spike", o.spike},
                     {"least_pairs", kLeastPairs},
                     {"graded_controls", o.graded}};
  json["experiment"] = {{"parameters", c.parameters},
                        {"tokens", c.tokens},
                        {"steps", c.config.steps},
                        {"validation_tokens", c.validation_tokens},
                        {"corpus", c.corpus}};
  json["baseline"] = {{"mean", number(c.baseline_mean)},
                      {"deviation", number(c.baseline_deviation)},
                      {"margin_in_deviations", number(o.margin / c.baseline_deviation)}};
  json["unmet_conditions"] = Json::array();
  for (const auto& [step, s] : c.sensitivities) {
    for (const std::string& why : {s.without_repeat, s.without_control}) {
      if (!why.empty()) json["unmet_conditions"].push_back(why + branch_words(c, step));
    }
  }
  json["arms"] = Json::array();
  for (const ArmResult& arm : c.arms) json["arms"].push_back(to_json(c, arm));
  json["ranking"] = Json::array();
  for (const std::size_t i : ranking(c)) json["ranking"].push_back(c.arms[i].name);
  json["by_branch_point"] = dependence_json(c);
  json["beside"] = beside_json(c);
  json["runs"] = runs_json(c);
  return to_text(json);
}

}  // namespace mxcheck
