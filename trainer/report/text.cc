#include "trainer/report/report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "trainer/report/tables.h"

namespace mxcheck {
namespace {

// Columns as wide as their widest entry.
std::string text_table(const ReportTable& t) {
  std::vector<std::size_t> widths;
  for (const TableColumn& column : t.columns) widths.push_back(column.head.size());
  for (const auto& row : t.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto line = [&](const auto& cell_of) {
    std::string out;
    for (std::size_t i = 0; i < t.columns.size(); ++i) {
      const std::string padding(widths[i] - cell_of(i).size(), ' ');
      out += "  " + (t.columns[i].is_text ? cell_of(i) + padding : padding + cell_of(i));
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  std::string out = line([&](std::size_t i) -> const std::string& { return t.columns[i].head; });
  for (const auto& row : t.rows) out += line([&](std::size_t i) -> const std::string& { return row[i]; });
  return out;
}

// Without a table where it has no rows.
std::string part(const std::string& heading, const ReportTable& t) {
  return t.rows.empty() ? "" : "\n" + heading + "\n" + text_table(t);
}

std::string indented(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "  " + line + "\n";
  return out;
}

std::string text_sentences(const ParityComparison& c) {
  std::vector<std::string> lines;
  for (const ArmResult& arm : c.arms) {
    const std::string sentence = allowed_sentence(c, arm);
    if (!sentence.empty()) lines.push_back(sentence);
  }
  return lines.empty() ? "  none\n" : indented(lines);
}

}  // namespace

std::string comparison_text(const ParityComparison& c) {
  const ComparisonOptions& o = c.options;
  std::string out = fmt::format("loss parity with BF16: {}\n{}\n", summary_line(c), experiment_line(c));
  out += part("recipes", recipe_table(c)) + "\n" + indented(reason_lines(c));
  out += part("recipes by branch point", dependence_table(c));
  out += part("beside other experiments", beside_table(c));
  if (!c.beside.empty()) out += "  " + beside_note() + "\n";
  out += part("A/A and controls", conditions_table(c));
  out += "\nwhat may be said\n" + text_sentences(c);
  out += part(fmt::format("noise and power (visible gap of these pairs, pairs needed for the margin, both at {:.3g} % "
                          "power)",
                          100 * o.power),
              power_table(c));
  out += part(fmt::format("spikes (z > {:.3g} over {} steps)", o.spike, kSpikeWindow), spike_table(c));
  out +=
      part(fmt::format("differences at checkpoints (one-sided limits at {:.3g} % / {})", 100 * o.alpha, kCheckpoints),
           checkpoint_table(c));
  out += part("routes and loads at the last observation", routing_table(c));
  out += part("operands at the last observation", operand_table(c));
  out += part("runs", run_table(c));
  out += "\nhow it was decided\n" + indented(decision_lines(c));
  return out + "\nthe table of recipes\n  " + recipe_note() + "\n";
}

}  // namespace mxcheck
