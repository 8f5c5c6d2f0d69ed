#include "trainer/report/html.h"

#include <vector>

#include <fmt/format.h>

#include "trainer/report/charts.h"
#include "trainer/report/forest.h"
#include "trainer/report/style.h"
#include "trainer/report/svg.h"
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

const char* colour_of(int code) { return code == 0 ? "good" : code == 1 ? "bad" : "open"; }

std::string outcome(const ParityComparison& c) {
  const int code = exit_code(c);
  const char* word = code == 0 ? "Parity shown" : code == 1 ? "No parity" : "Inconclusive";
  return fmt::format("<div class=\"outcome {0}\"><strong class=\"{0}\">{1}</strong> - {2}</div>\n", colour_of(code),
                     word, escaped_xml(summary_line(c)));
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

}  // namespace mxcheck
