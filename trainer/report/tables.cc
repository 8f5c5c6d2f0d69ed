#include "trainer/report/tables.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "trainer/report/words.h"

namespace mxcheck {
namespace {

std::string interval_head(const ParityComparison& c) {
  return fmt::format("{:.3g} % interval", 100 * (1 - 2 * c.options.alpha));
}

// One number where two are the same.
std::string bits_text(double first, double second) {
  return first == second ? fmt::format("{:.4g}", first) : fmt::format("{:.4g}, {:.4g}", first, second);
}

// The arm, what was seen of it, and what it takes.
std::vector<std::string> recipe_row(const ParityComparison& c, const ArmResult& arm) {
  const PairedInterval& d = arm.evidence.interval;
  const RecipeCost& cost = arm.cost;
  std::vector<std::string> row{arm.recipe, branch_point(arm.branch_step, c.config.steps)};
  if (arm.role == ArmRole::graded) row.front() += " (graded control)";
  if (arm.role == ArmRole::baseline) {
    for (const char* cell : {"-", "-", "-", "-", "baseline", ""}) row.emplace_back(cell);
  } else {
    row.push_back(std::to_string(d.pairs));
    row.push_back(signed_percent(d.mean));
    row.push_back(limits(d));
    row.push_back(share_text(d.deviation));
    row.emplace_back(to_text(arm.judgement.verdict));
    row.emplace_back(to_text(arm.inner.verdict));
  }
  row.push_back(amount(cost.tokens_a_second));
  row.push_back(bits_text(cost.x_bits, cost.w1_bits));
  row.push_back(bits_text(cost.dy_bits, cost.w2_bits));
  row.push_back(bits_text(cost.kept_x_bits, cost.kept_h_bits));
  row.push_back(std::to_string(cost.optimizer_bytes));
  return row;
}

double last_of(const StepCurve& curve) {
  return curve.empty() ? std::numeric_limits<double>::quiet_NaN() : curve.back().value;
}

}  // namespace

ReportTable recipe_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"recipe", true},
               {"from", true},
               {"pairs"},
               {"mean d"},
               {interval_head(c)},
               {"SD of d"},
               {"at " + share_text(c.options.margin), true},
               {"at " + share_text(c.options.inner_margin.value()), true},
               {"tokens/s"},
               {"forward bits"},
               {"backward bits"},
               {"kept bits"},
               {"optimizer B"}};
  t.rows.push_back(recipe_row(c, c.arms.front()));
  for (const std::size_t i : ranking(c)) t.rows.push_back(recipe_row(c, c.arms[i]));
  return t;
}

std::string recipe_note() {
  return "By mean d at each branch point: a ranking, not a verdict; of twenty arms that are truly at the margin one "
         "passes by chance. Tokens/s: of a run's steps, beside as many others as there were at that time; evaluations "
         "are left out. "
         "Bits an element, with its share of the scales: forward, of X and W1 as the GEMM up multiplies them; "
         "backward, "
         "of dY and W2 as d_down does; kept for the backward pass: X, H. Optimizer: bytes a parameter.";
}

ReportTable conditions_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true},      {"role", true}, {"pairs"},        {"mean d"},
               {interval_head(c)}, {"SD of d"},    {"verdict", true}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::repeat && arm.role != ArmRole::control) continue;
    const PairedInterval& d = arm.evidence.interval;
    t.rows.push_back({arm.name, std::string(to_text(arm.role)), std::to_string(d.pairs), signed_percent(d.mean),
                      limits(d), share_text(d.deviation), std::string(to_text(arm.judgement.verdict))});
  }
  return t;
}

ReportTable dependence_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"recipe", true},   {"from", true}, {"share of training"}, {"mean d"},
               {interval_head(c)}, {"SD of d"},    {"above the next"},    {interval_head(c)}};
  for (const RecipeByBranchPoint& recipe : by_branch_point(c)) {
    for (std::size_t n = 0; n < recipe.arms.size(); ++n) {
      const ArmResult& arm = c.arms[recipe.arms[n]];
      std::vector<std::string> row{arm.recipe,
                                   branch_point(arm.branch_step, c.config.steps),
                                   fmt::format("{:.4g} %", 100 * share_of_training(c, arm)),
                                   signed_percent(arm.evidence.interval.mean),
                                   limits(arm.evidence.interval),
                                   share_text(arm.evidence.interval.deviation),
                                   "-",
                                   "-"};
      if (n + 1 < recipe.arms.size()) {
        const PairedInterval above = gap_between(arm, c.arms[recipe.arms[n + 1]], c.options.alpha);
        row[6] = signed_percent(above.mean), row[7] = limits(above);
      }
      t.rows.push_back(std::move(row));
    }
  }
  return t;
}

namespace {

// "25 %": the share of an experiment's steps before an arm branched off.
std::string from_text(double share_of_training) {
  return share_of_training == 1 ? "scratch" : fmt::format("{:.4g} %", 100 * (1 - share_of_training));
}

}  // namespace

ReportTable beside_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"experiment", true}, {"corpus", true},   {"parameters"},    {"tokens a run"},   {"recipe", true},
               {"from", true},       {"pairs"},          {"mean d"},        {interval_head(c)}, {"SD of d"},
               {"verdict", true},    {"above this one"}, {interval_head(c)}};
  for (const ExperimentBeside& other : c.beside) {
    for (const GapBeside& g : other.gaps)
      t.rows.push_back({other.name, other.corpus, amount(static_cast<double>(other.parameters)),
                        amount(static_cast<double>(other.tokens)), g.recipe, from_text(g.share_of_training),
                        std::to_string(g.gap.pairs), signed_percent(g.gap.mean), limits(g.gap),
                        share_text(g.gap.deviation), std::string(to_text(g.verdict)), signed_percent(g.above.mean),
                        limits(g.above)});
  }
  return t;
}

std::string beside_note() {
  return "Gaps of other experiments, of each recipe and branch point that both have; the verdict is at the margin, by "
         "that "
         "experiment's own A/A and control. Above this one: its mean d less that of this experiment, with Welch's "
         "interval, "
         "for which both are independent.";
}

ReportTable power_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true},    {"correlation"}, {"token equivalents"}, {"visible gap"},
               {"pairs needed"}, {"own recipe"},  {"training d"},        {"its SD"}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    t.rows.push_back({arm.name, decimal(arm.correlation, 3),
                      arm.token_equivalents ? amount(*arm.token_equivalents) : "-", share_text(arm.visible_gap),
                      arm.pairs_needed ? std::to_string(*arm.pairs_needed) : "-", signed_percent(arm.own.mean),
                      signed_percent(arm.training.mean), share_text(arm.training.deviation)});
  }
  return t;
}

std::string power_note(const ParityComparison& c) {
  return fmt::format(
      "Token equivalents: what BF16 trains for to lose as much. Visible gap: the distance from the margin that so many "
      "pairs show with {0:.3g} % power; pairs needed: for a true difference of 0 at the margin, with the same power. "
      "Own "
      "recipe: d of the weights under the arm's recipe. Training d: of the mean training loss of the last tenth of the "
      "steps, the same data for both runs of a pair.",
      100 * c.options.power);
}

ReportTable spike_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true}, {"runs"}, {"diverged"}, {"loss spikes"}, {"gradient norm spikes"}};
  for (const ArmResult& arm : c.arms)
    t.rows.push_back({arm.name, std::to_string(arm.curves.size()), std::to_string(arm.evidence.diverged),
                      std::to_string(arm.spikes.loss), std::to_string(arm.spikes.gradient_norm)});
  return t;
}

ReportTable checkpoint_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true}, {"step"}, {"mean d"}, {"limits"}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    for (const CheckpointInterval& p : arm.checkpoints)
      t.rows.push_back({arm.name, std::to_string(p.step), signed_percent(p.interval.mean), limits(p.interval)});
  }
  return t;
}

ReportTable routing_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true}, {"equal routes"}, {"load entropy"}};
  for (const ArmResult& arm : c.arms)
    t.rows.push_back(
        {arm.name, share_text(last_of(arm.observed.equal_routes)), decimal(last_of(arm.observed.load_entropy), 4)});
  return t;
}

ReportTable operand_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true}, {"operand", true}, {"saturated"}, {"flushed"}};
  for (const ArmResult& arm : c.arms) {
    for (const OperandShares& o : arm.observed.operands)
      t.rows.push_back({arm.name, o.operand, share_text(last_of(o.saturated)), share_text(last_of(o.flushed))});
  }
  return t;
}

ReportTable pair_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"arm", true}, {"seed"}, {"L_bf16"}, {"L_arm"}, {"own recipe"}, {"d"}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    for (const SeedPair& p : arm.pairs)
      t.rows.push_back({arm.name, std::to_string(p.seed), decimal(p.baseline, 5), decimal(p.arm, 5), decimal(p.own, 5),
                        signed_percent(p.difference)});
  }
  return t;
}

ReportTable run_table(const ParityComparison& c) {
  ReportTable t;
  t.columns = {{"started", true}, {"arm", true},         {"seed"},          {"endpoint"},  {"end", true},
               {"hours"},         {"computed on", true}, {"mxcheck", true}, {"file", true}};
  for (const ListedRun& r : c.runs)
    t.rows.push_back({r.started, r.arm, std::to_string(r.seed), decimal(r.endpoint, 5), std::string(to_text(r.end)),
                      decimal(r.hours, 2), r.engine + ", " + r.device, r.mxcheck, r.file});
  return t;
}

std::vector<std::string> reason_lines(const ParityComparison& c) {
  std::vector<std::string> lines;
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::baseline)
      lines.push_back(fmt::format("{}{}: {}: {}; at {}: {}", arm.name,
                                  arm.role == ArmRole::graded ? " (graded control)" : "",
                                  to_text(arm.judgement.verdict), arm.judgement.reason,
                                  share_text(c.options.outer_margin), to_text(arm.outer.verdict)));
  }
  return lines;
}

std::string experiment_line(const ParityComparison& c) {
  return fmt::format("{} parameters, {} tokens a run, {} runs, corpus {}", amount(static_cast<double>(c.parameters)),
                     amount(static_cast<double>(c.tokens)), c.runs.size(), c.corpus);
}

}  // namespace mxcheck
