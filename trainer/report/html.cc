#include "trainer/report/html.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "goldens/json/json.h"
#include "numerics/text.h"
#include "trainer/report/charts.h"
#include "trainer/report/forest.h"
#include "trainer/report/json.h"
#include "trainer/report/style.h"
#include "trainer/report/svg.h"
#include "trainer/report/text.h"
#include "trainer/report/words.h"

namespace mxcheck {
namespace {

// A cell begins with '<' for the left-aligned ones, which are text.
using Row = std::vector<std::string>;

std::string table(const Row& head, const std::vector<Row>& rows) {
  const auto cells = [](const Row& row, const char* tag) {
    std::string out = "<tr>";
    for (const std::string& cell : row) {
      const bool left = cell.starts_with('<');
      out +=
          fmt::format("<{}{}>{}</{}>", tag, left ? " class=\"l\"" : "", escaped_xml(left ? cell.substr(1) : cell), tag);
    }
    return out + "</tr>\n";
  };
  std::string out = "<div class=\"wide\"><table>\n<thead>" + cells(head, "th") + "</thead>\n<tbody>\n";
  for (const Row& row : rows) out += cells(row, "td");
  return out + "</tbody></table></div>\n";
}

std::string section(const std::string& heading, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return "<section><h2>" + escaped_xml(heading) + "</h2>\n" +
         (note.empty() ? "" : "<p class=\"soft\">" + escaped_xml(note) + "</p>\n") + body + "</section>\n";
}

std::string charts(const std::string& svgs) {
  return svgs.empty() ? "" : "<div class=\"charts\">\n" + svgs + "</div>\n";
}

const char* html_colour_of(int code) { return code == 0 ? "good" : code == 1 ? "bad" : "open"; }

std::string outcome(const ParityComparison& c) {
  const int code = exit_code(c);
  const char* word = code == 0 ? "Parity shown" : code == 1 ? "No parity" : "Inconclusive";
  return fmt::format("<div class=\"outcome {0}\"><strong class=\"{0}\">{1}</strong> - {2}</div>\n",
                     html_colour_of(code), word, escaped_xml(summary_line(c)));
}

std::string key(const ParityComparison& c) {
  std::string out = "<div class=\"key\">";
  for (std::size_t i = 0; i < c.arms.size(); ++i)
    out += fmt::format("<span><i class=\"{}\"></i>{}</span>", series_class(i), escaped_xml(c.arms[i].name));
  return out + "</div>\n";
}

std::string sentences(const ParityComparison& c) {
  std::string out;
  for (const ArmResult& arm : c.arms) {
    const std::string sentence = allowed_sentence(c, arm);
    if (!sentence.empty()) out += "<blockquote>" + escaped_xml(sentence) + "</blockquote>\n";
  }
  return out.empty() ? "<p>Nothing: no judged arm is non-inferior.</p>\n" : out;
}

std::string verdict_table(const ParityComparison& c) {
  std::vector<Row> rows;
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    const PairedInterval& i = arm.evidence.interval;
    rows.push_back({"<" + arm.name, std::to_string(i.pairs), signed_percent(i.mean), limits(i),
                    signed_percent(arm.own.mean), "<" + std::string(to_text(arm.judgement.verdict)),
                    "<" + std::string(to_text(arm.outer.verdict))});
  }
  const std::string interval = fmt::format("{:.3g} % interval", 100 * (1 - 2 * c.options.alpha));
  return table(
      {"<arm", "pairs", "mean d", interval, "own recipe", "<verdict", "<at " + share_text(c.options.outer_margin)},
      rows);
}

std::string reasons(const ParityComparison& c) {
  std::string out = "<ul>\n";
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::baseline)
      out += fmt::format("<li>{}: {}: {}</li>\n", escaped_xml(arm.name), to_text(arm.judgement.verdict),
                         escaped_xml(arm.judgement.reason));
  }
  return out + "</ul>\n";
}

std::string power_table(const ParityComparison& c) {
  std::vector<Row> rows;
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    rows.push_back({"<" + arm.name, share_text(arm.evidence.interval.deviation), decimal(arm.correlation, 3),
                    arm.token_equivalents ? amount(*arm.token_equivalents) : "-", share_text(arm.visible_gap),
                    arm.pairs_needed ? std::to_string(*arm.pairs_needed) : "-", signed_percent(arm.training.mean),
                    share_text(arm.training.deviation)});
  }
  return table(
      {"<arm", "SD of d", "correlation", "token equivalents", "visible gap", "pairs needed", "training d", "its SD"},
      rows);
}

std::string spike_table(const ParityComparison& c) {
  std::vector<Row> rows;
  for (const ArmResult& arm : c.arms)
    rows.push_back({"<" + arm.name, std::to_string(arm.curves.size()), std::to_string(arm.evidence.diverged),
                    std::to_string(arm.spikes.loss), std::to_string(arm.spikes.gradient_norm)});
  return table({"<arm", "runs", "diverged", "loss spikes", "gradient norm spikes"}, rows);
}

std::string operand_section(const ParityComparison& c) {
  std::string out;
  for (const ArmResult& arm : c.arms) {
    if (!arm.observed.operands.empty()) out += "<h3>" + escaped_xml(arm.name) + "</h3>\n" + charts(operand_charts(arm));
  }
  if (out.empty()) return "";
  return "<div class=\"key\"><span><i class=\"saturated\"></i>saturated</span><span><i class=\"flushed\"></i>flushed "
         "to "
         "zero (dashed)</span></div>\n" +
         out;
}

std::string pair_table(const ParityComparison& c) {
  std::vector<Row> rows;
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    for (const SeedPair& p : arm.pairs)
      rows.push_back({"<" + arm.name, std::to_string(p.seed), decimal(p.baseline, 5), decimal(p.arm, 5),
                      decimal(p.own, 5), signed_percent(p.difference)});
  }
  return table({"<arm", "seed", "L_bf16", "L_arm", "own recipe", "d"}, rows);
}

std::string run_table(const ParityComparison& c) {
  std::vector<Row> rows;
  for (const ListedRun& r : c.runs)
    rows.push_back({"<" + r.started, "<" + r.arm, std::to_string(r.seed), decimal(r.endpoint, 5),
                    "<" + std::string(to_text(r.end)), decimal(r.hours, 2), "<" + r.engine + ", " + r.device,
                    "<" + r.mxcheck, "<" + r.file});
  return table({"<started", "<arm", "seed", "endpoint", "<end", "hours", "<computed on", "<mxcheck", "<file"}, rows);
}

std::string decided(const ParityComparison& c) {
  std::string out = "<ul>\n";
  for (const std::string& line : decision_lines(c)) out += "<li>" + escaped_xml(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string noise_note(const ParityComparison& c) {
  return fmt::format(
      "Token equivalents: what BF16 trains for to lose as much. Visible gap: the distance from the margin that so many "
      "pairs show with {0:.3g} % power; pairs needed: for a true difference of 0 at the margin, with the same power. "
      "Training d: of the mean training loss of the last tenth of the steps, the same data for both runs of a pair.",
      100 * c.options.power);
}

}  // namespace

std::string comparison_html(const ParityComparison& c) {
  const std::string about =
      fmt::format("{} parameters, {} tokens a run, {} runs, corpus {}", amount(static_cast<double>(c.parameters)),
                  amount(static_cast<double>(c.tokens)), c.runs.size(), c.corpus);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Loss parity with "
      "BF16</title>\n<style>" +
      std::string(kReportStyle) + "</style></head>\n<body>\n<h1>Loss parity with BF16</h1>\n<p class=\"soft\">" +
      escaped_xml(about) + "</p>\n" + outcome(c);
  out += section(
      "Verdicts",
      "Dot and bar: mean difference and its interval; small dots: the pairs, one a seed; shaded: inside the margin.",
      "<div class=\"wide\">" + forest_svg(c) + "</div>\n" + verdict_table(c) + reasons(c));
  out += section("What may be said", "", sentences(c));
  out += section("Losses", "Every run, whatever its end.", key(c) + charts(loss_charts(c)));
  out += section("Differences over training",
                 fmt::format("Bands: one-sided limits at {:.3g} % / {} for each of at most as many checkpoints.",
                             100 * c.options.alpha, kCheckpoints),
                 charts(difference_charts(c)));
  out += section("Noise and power", noise_note(c), power_table(c));
  out += section("Spikes and divergence",
                 fmt::format("Steps whose z-score over {} steps is above {:.3g}, and those that are not finite.",
                             kSpikeWindow, c.options.spike),
                 spike_table(c));
  out += section("Saturation and underflow", "Shares of elements of each quantized operand; 0 is drawn at the bottom.",
                 operand_section(c));
  out += section("Routes and experts", "", charts(routing_charts(c)));
  out += section("How it was decided", "", decided(c));
  out += section("Pairs", "", pair_table(c));
  out += section("Runs", "By the time at which they started.", run_table(c));
  return out + "</body>\n</html>\n";
}

namespace {

// Columns as wide as their widest entry; the first to the left, numbers to the right, the last as it is.
std::string text_table(const std::vector<Row>& rows) {
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
  return text_table(rows) + "\n" + reasons;
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
  return text_table(rows);
}

std::string trajectory(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "runs", "diverged", "loss spikes", "gradient norm spikes"}};
  for (const ArmResult& arm : c.arms) {
    rows.push_back({arm.name, std::to_string(arm.curves.size()), std::to_string(arm.evidence.diverged),
                    std::to_string(arm.spikes.loss), std::to_string(arm.spikes.gradient_norm)});
  }
  return text_table(rows);
}

std::string checkpoints(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "step", "mean d", "limits"}};
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::baseline) continue;
    for (const CheckpointInterval& p : arm.checkpoints)
      rows.push_back({arm.name, std::to_string(p.step), signed_percent(p.interval.mean), limits(p.interval)});
  }
  return text_table(rows);
}

double last_of(const StepCurve& curve) {
  return curve.empty() ? std::numeric_limits<double>::quiet_NaN() : curve.back().value;
}

std::string observations(const ParityComparison& c) {
  std::vector<Row> rows{{"arm", "equal routes", "load entropy"}};
  for (const ArmResult& arm : c.arms)
    rows.push_back(
        {arm.name, share_text(last_of(arm.observed.equal_routes)), decimal(last_of(arm.observed.load_entropy), 4)});
  std::string out = text_table(rows);
  std::vector<Row> shares{{"arm", "operand", "saturated", "flushed"}};
  for (const ArmResult& arm : c.arms) {
    for (const OperandShares& o : arm.observed.operands)
      shares.push_back({arm.name, o.operand, share_text(last_of(o.saturated)), share_text(last_of(o.flushed))});
  }
  return shares.size() > 1 ? out + "\n" + text_table(shares) : out;
}

std::string runs(const ParityComparison& c) {
  std::vector<Row> rows{{"started", "seed", "endpoint", "end", "hours", "arm", "engine, machine, version, file"}};
  for (const ListedRun& r : c.runs)
    rows.push_back({r.started, std::to_string(r.seed), decimal(r.endpoint, 5), std::string(to_text(r.end)),
                    decimal(r.hours, 2), r.arm, fmt::format("{}, {}, {}, {}", r.engine, r.device, r.mxcheck, r.file)});
  return text_table(rows);
}

std::string text_sentences(const ParityComparison& c) {
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
  out += "\nwhat may be said\n" + text_sentences(c);
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

namespace {

// Versions and engines that computed an arm and the baseline.
std::string computed_by(const ParityComparison& c, const std::string& arm) {
  std::set<std::string> all;
  for (const ListedRun& run : c.runs) {
    if (run.arm == arm || run.arm == c.arms.front().name) all.insert(run.mxcheck + ", engine " + run.engine);
  }
  return join(all, "; ");
}

std::string control_text(const ParityComparison& c) {
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::control) continue;
    if (arm.evidence.diverged > 0) return "negative control diverged and was rejected";
    return fmt::format("negative control gap {} was rejected", signed_percent(arm.evidence.interval.mean));
  }
  return "";
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
  if (step != 0)
    return fmt::format(" from {:.4g} %", 100 * static_cast<double>(step) / static_cast<double>(c.config.steps));
  return c.sensitivities.size() > 1 ? " from scratch" : "";
}

std::string decimal(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string signed_percent(double share) { return std::isfinite(share) ? fmt::format("{:+.4f} %", 100 * share) : "-"; }

std::string share_text(double share) {
  if (!std::isfinite(share)) return "-";
  return share < 0.01 ? fmt::format("{:.4f} %", 100 * share) : fmt::format("{:.2f} %", 100 * share);
}

std::string limits(const PairedInterval& i) {
  if (!std::isfinite(i.lower) || !std::isfinite(i.upper)) return "-";
  return fmt::format("[{:+.4f}, {:+.4f}] %", 100 * i.lower, 100 * i.upper);
}

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
      100 * (1 - c.options.alpha), signed_percent(i.upper), share_text(c.options.margin), control_text(c));
}

std::string summary_line(const ParityComparison& c) {
  std::map<ArmVerdict, int> counts;
  int judged = 0;
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::judged) continue;
    ++judged;
    ++counts[arm.judgement.verdict];
  }
  if (judged == 0) return "inconclusive: no arm but BF16, A/A and the negative control";
  const auto text = [](const auto& entry) { return fmt::format("{} {}", entry.second, to_text(entry.first)); };
  return fmt::format("{} judged {}: {}", judged, judged == 1 ? "arm" : "arms", join(counts, ", ", text));
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
      fmt::format("Outer bar: the same rule at {}; it does not decide.", share_text(o.outer_margin)),
  };
  for (const auto& [step, s] : c.sensitivities) {
    const std::string where = branch_words(c, step);
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
  Json checkpoints = Json::array();
  for (const CheckpointInterval& p : arm.checkpoints)
    checkpoints.push_back({{"step", p.step}, {"interval", to_json(p.interval)}});
  Json curves = Json::array();
  for (const RunCurve& curve : arm.curves)
    curves.push_back({{"file", curve.file},
                      {"seed", curve.seed},
                      {"validation", to_json(curve.validation)},
                      {"training", to_json(curve.training)}});
  Json json{{"name", arm.name}, {"role", to_text(arm.role)}, {"branch_step", arm.branch_step}, {"scales", arm.scales}};
  json["at_margin"] = to_json(arm.judgement);
  json["at_outer_margin"] = to_json(arm.outer);
  json["sentence"] = allowed_sentence(c, arm);
  json["difference"] = to_json(arm.evidence.interval);
  json["difference_own_recipe"] = to_json(arm.own);
  json["difference_training"] = to_json(arm.training);
  json["diverged"] = arm.evidence.diverged;
  json["missing_seeds"] = arm.evidence.missing;
  json["correlation"] = number(arm.correlation);
  json["token_equivalents"] = optional(arm.token_equivalents);
  json["pairs_needed"] = optional(arm.pairs_needed);
  json["visible_gap"] = number(arm.visible_gap);
  json["loss_spikes"] = arm.spikes.loss;
  json["gradient_norm_spikes"] = arm.spikes.gradient_norm;
  json["pairs"] = pairs_json(arm.pairs);
  json["checkpoints"] = checkpoints;
  json["observed"] = to_json(arm.observed);
  json["curves"] = curves;
  return json;
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
  json["options"] = {{"margin", o.margin}, {"outer_margin", o.outer_margin}, {"alpha", o.alpha}, {"power", o.power},
                     {"spike", o.spike},   {"least_pairs", kLeastPairs}};
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
  json["runs"] = runs_json(c);
  return to_text(json);
}

}  // namespace mxcheck
