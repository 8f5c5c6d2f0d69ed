#include "trainer/report/tables.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "numerics/text.h"

namespace mxcheck {
namespace {

// Versions and engines that computed an arm and the baseline.
std::string computed_by(const ParityComparison& c, const std::string& arm) {
  std::set<std::string> all;
  for (const ListedRun& run : c.runs) {
    if (run.arm == arm || run.arm == c.arms.front().name) all.insert(run.mxcheck + ", engine " + run.engine);
  }
  return join(all, "; ");
}

// The result of the negative control at the branch point of the arm that is spoken of; empty: there is no control.
std::string control_text(const ParityComparison& c, std::int64_t branch_step) {
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::control || arm.branch_step != branch_step) continue;
    if (arm.evidence.diverged > 0) return "negative control diverged and was rejected";
    return fmt::format("negative control gap {} was rejected", signed_percent(arm.evidence.interval.mean));
  }
  return "";
}

// Seeds are those of any arm of the branch point: those of BF16 that none has are seen here alone.
std::string seeds_text(const ParityComparison& c, std::int64_t branch_step, const std::string& where) {
  std::set<std::uint64_t> seeds;
  for (const ArmResult& arm : c.arms) {
    if (arm.branch_step != branch_step || arm.role == ArmRole::baseline) continue;
    for (const SeedPair& pair : arm.pairs) seeds.insert(pair.seed);
  }
  return fmt::format("Seeds{}: {} of the {} of BF16.", where, seeds.size(), c.arms.front().pairs.size());
}

std::string noise_text(const ParityComparison& c) {
  return fmt::format(
      "Noise: the standard deviation of BF16's endpoint over seeds is {} of its mean {}; the margin is {} such "
      "deviations.",
      share_text(c.baseline_deviation), decimal(c.baseline_mean, 4),
      decimal(c.options.margin / c.baseline_deviation, 2));
}

}  // namespace

std::string branch_words(const ParityComparison& c, std::int64_t step) {
  const bool is_alone = step == 0 && c.sensitivities.size() <= 1;
  return is_alone ? "" : " from " + branch_point(step, c.config.steps);
}

std::string decimal(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string signed_percent(double share) { return std::isfinite(share) ? fmt::format("{:+.4f} %", 100 * share) : "-"; }

std::string share_text(double share) {
  if (!std::isfinite(share)) return "-";
  return share < 0.01 ? fmt::format("{:.4f} %", 100 * share) : fmt::format("{:.2f} %", 100 * share);
}

namespace {

std::string limits(double lower, double upper) {
  if (!std::isfinite(lower) || !std::isfinite(upper)) return "-";
  return fmt::format("[{:+.4f}, {:+.4f}] %", 100 * lower, 100 * upper);
}

}  // namespace

std::string limits(const PairedInterval& i) { return limits(i.lower, i.upper); }
std::string limits(const UnpairedInterval& i) { return limits(i.lower, i.upper); }

std::string amount(double count) {
  if (!std::isfinite(count)) return "-";
  if (std::abs(count) >= 1e9) return fmt::format("{:.3g} G", count / 1e9);
  if (std::abs(count) >= 1e6) return fmt::format("{:.3g} M", count / 1e6);
  if (std::abs(count) >= 1e3) return fmt::format("{:.3g} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string allowed_sentence(const ParityComparison& c, const ArmResult& arm) {
  const ArmVerdict v = arm.judgement.verdict;
  if (arm.role != ArmRole::judged || (v != ArmVerdict::non_inferior && v != ArmVerdict::equivalent)) return "";
  const PairedInterval& i = arm.evidence.interval;
  return fmt::format(
      "At {} parameters, {} tokens, {} seeds per arm, {} ({}{}) is non-inferior to BF16{}: mean relative loss gap {}, "
      "one-sided {:.3g} % upper limit {} < margin {}; {}.",
      amount(static_cast<double>(c.parameters)), amount(static_cast<double>(c.tokens)), i.pairs, arm.name,
      arm.scales.empty() ? "" : arm.scales + "; ", computed_by(c, arm.name),
      v == ArmVerdict::equivalent ? ", and equivalent within the margin" : "", signed_percent(i.mean),
      100 * (1 - c.options.alpha), signed_percent(i.upper), share_text(c.options.margin),
      control_text(c, arm.branch_step));
}

std::string summary_line(const ParityComparison& c) {
  std::map<ArmVerdict, int> counts;
  int judged = 0;
  int graded = 0;
  for (const ArmResult& arm : c.arms) {
    graded += arm.role == ArmRole::graded ? 1 : 0;
    if (arm.role != ArmRole::judged) continue;
    ++judged;
    ++counts[arm.judgement.verdict];
  }
  if (judged == 0) return "inconclusive: no arm but BF16, A/A and controls";
  const auto text = [](const auto& entry) { return fmt::format("{} {}", entry.second, to_text(entry.first)); };
  const std::string beside =
      graded == 0 ? "" : fmt::format("; beside {} graded control{}", graded, graded == 1 ? "" : "s");
  return fmt::format("{} judged {}: {}{}", judged, judged == 1 ? "arm" : "arms", join(counts, ", ", text), beside);
}

std::vector<std::string> decision_lines(const ParityComparison& c) {
  const ComparisonOptions& o = c.options;
  std::vector<std::string> lines{
      fmt::format("Endpoint: mean loss of the last {} evaluations, {} validation tokens each; the weights of every arm "
                  "are evaluated under BF16.",
                  kEndpointEvaluations, amount(static_cast<double>(c.validation_tokens))),
      "Unit: the seed, which fixes initial weights and the order of data. d = (L_arm - L_bf16) / L_bf16 of two runs "
      "that share it; a paired t interval, whatever the correlation.",
      fmt::format("Non-inferior: the one-sided {:.3g} % upper limit of mean d is below the margin {}, with {} pairs or "
                  "more, the negative control rejected and A/A equivalent.",
                  100 * (1 - o.alpha), share_text(o.margin), kLeastPairs),
      fmt::format("Inner and outer bar: the same rule at {} and at {}; they do not decide.",
                  share_text(o.inner_margin.value()), share_text(o.outer_margin)),
  };
  if (!o.graded.empty())
    lines.push_back(
        fmt::format("Graded controls, named by whoever compared: {}. Their gaps are known roughly; their "
                    "verdicts decide nothing. The rule asks that they are named before the runs.",
                    join(o.graded, ", ")));
  for (const auto& [step, s] : c.sensitivities) {
    const std::string where = branch_words(c, step);
    lines.push_back(seeds_text(c, step, where));
    lines.push_back(s.without_control.empty() ? fmt::format("Negative control{}: rejected, as it must be.", where)
                                              : fmt::format("Condition not met{}: {}.", where, s.without_control));
    lines.push_back(s.without_repeat.empty() ? fmt::format("A/A{}: equivalent, as it must be.", where)
                                             : fmt::format("Condition not met{}: {}.", where, s.without_repeat));
  }
  lines.push_back(noise_text(c));
  lines.emplace_back(
      "A run that diverged is never dropped: it decides before any interval. All runs that were given are listed.");
  lines.emplace_back(
      "A verdict holds at this scale: differences of low precision were seen to appear late in long runs.");
  return lines;
}

// The tables.

namespace {

std::string interval_head(const ParityComparison& c) {
  return fmt::format("{:.3g} % interval", 100 * (1 - 2 * c.options.alpha));
}

// Two numbers as text; one if they are the same.
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
