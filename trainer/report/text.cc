#include "trainer/report/text.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "trainer/report/words.h"

namespace mxcheck {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest entry; the first to the left, numbers to the right, the last as it is.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == 0)
        line += fmt::format("  {:<{}}", row[i], widths[i]);
      else if (i + 1 < row.size())
        line += fmt::format("  {:>{}}", row[i], widths[i]);
      else
        line += "  " + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string verdicts(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "pairs", "mean d", fmt::format("{:.3g} % interval", 100 * (1 - 2 * c.options.alpha)),
                         "own recipe", fmt::format("at {}", share_text(c.options.outer_margin)), "verdict"}};
  std::string reasons;
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    const std::string role = arm.role == ArmRole::judged ? "" : fmt::format(" ({})", to_text(arm.role));
    rows.push_back({arm.name + role, std::to_string(arm.evidence.interval.pairs),
                    signed_percent(arm.evidence.interval.mean), limits(arm.evidence.interval),
                    signed_percent(arm.own.mean), std::string(to_text(arm.outer.verdict)),
                    std::string(to_text(arm.judgement.verdict))});
    reasons += fmt::format("  {}: {}: {}\n", arm.name, to_text(arm.judgement.verdict), arm.judgement.reason);
  }
  return table(rows) + "\n" + reasons;
}

std::string power(const ParityComparison& c) {
  std::vector<Row> rows{
      {"arm", "SD of d", "correlation", "token equivalents", "visible gap", "pairs needed", "training d", "its SD"}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    rows.push_back({arm.name, share_text(arm.evidence.interval.deviation), decimal(arm.correlation, 3),
                    arm.token_equivalents ? amount(*arm.token_equivalents) : "-", share_text(arm.visible_gap),
                    arm.pairs_needed ? std::to_string(*arm.pairs_needed) : "-", signed_percent(arm.training.mean),
                    share_text(arm.training.deviation)});
  }
  return table(rows);
}

std::string trajectory(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "runs", "diverged", "loss spikes", "gradient norm spikes"}};
  for (const ArmResult& arm : c.arms) {
    rows.push_back({arm.name, std::to_string(arm.curves.size()), std::to_string(arm.evidence.diverged),
                    std::to_string(arm.spikes.loss), std::to_string(arm.spikes.gradient_norm)});
  }
  return table(rows);
}

std::string checkpoints(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "step", "mean d", "limits"}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    for (const CheckpointInterval& p : arm.checkpoints)
      rows.push_back({arm.name, std::to_string(p.step), signed_percent(p.interval.mean), limits(p.interval)});
  }
  return table(rows);
}

double last_of(const StepCurve& curve) {
  return curve.empty() ? std::numeric_limits<double>::quiet_NaN() : curve.back().value;
}

std::string observations(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "equal routes", "load entropy"}};
  for (const ArmResult& arm : c.arms)
    rows.push_back(
        {arm.name, share_text(last_of(arm.observed.equal_routes)), decimal(last_of(arm.observed.load_entropy), 4)});
  std::string out = table(rows);
  std::vector<Row> shares{{"arm", "operand", "saturated", "flushed"}};
  for (const ArmResult& arm : c.arms) {
    for (const OperandShares& o : arm.observed.operands)
      shares.push_back({arm.name, o.operand, share_text(last_of(o.saturated)), share_text(last_of(o.flushed))});
  }
  return shares.size() > 1 ? out + "\n" + table(shares) : out;
}

std::string runs(const ParityComparison& c) {
  std::vector<Row> rows{{"started", "seed", "endpoint", "end", "hours", "arm", "engine, machine, version, file"}};
  for (const ListedRun& r : c.runs)
    rows.push_back({r.started, std::to_string(r.seed), decimal(r.endpoint, 5), std::string(to_text(r.end)),
                    decimal(r.hours, 2), r.arm, fmt::format("{}, {}, {}, {}", r.engine, r.device, r.mxcheck, r.file)});
  return table(rows);
}

std::string sentences(const ParityComparison& c) {
  std::string out;
  for (const ArmResult& arm : c.arms) {
    const std::string sentence = allowed_sentence(c, arm);
    if (!sentence.empty()) out += "  " + sentence + "\n";
  }
  return out.empty() ? "  none\n" : out;
}

}  // namespace

std::string comparison_text(const ParityComparison& c) {
  std::string out = fmt::format("loss parity with BF16: {}\n", summary_line(c));
  out +=
      fmt::format("{} parameters, {} tokens a run, {} runs, corpus {}\n\n", amount(static_cast<double>(c.parameters)),
                  amount(static_cast<double>(c.tokens)), c.runs.size(), c.corpus);
  out += "verdicts\n" + verdicts(c);
  out += "\nwhat may be said\n" + sentences(c);
  out += fmt::format(
             "\nnoise and power (visible gap of these pairs, pairs needed for the margin, both at {:.3g} % power)\n",
             100 * c.options.power) +
         power(c);
  out += fmt::format("\nspikes (z > {:.3g} over {} steps)\n", c.options.spike, kSpikeWindow) + trajectory(c);
  out += fmt::format("\ndifferences at checkpoints (one-sided limits at {:.3g} % / {})\n", 100 * c.options.alpha,
                     kCheckpoints) +
         checkpoints(c);
  out += "\nat the last observation\n" + observations(c);
  out += "\nruns\n" + runs(c);
  out += "\nhow it was decided\n";
  for (const std::string& line : decision_lines(c)) out += "  " + line + "\n";
  return out;
}

}  // namespace mxcheck
