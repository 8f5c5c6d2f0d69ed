#include "properties/report/coverage_text.h"

#include <fmt/format.h>

#include "numerics/text.h"

namespace mxcheck {
namespace {

bool is_refused(const BinCount& bin) { return bin.checked + bin.nothing_claimed == 0 && bin.refused > 0; }

std::string bin_text(const BinCount& bin) {
  std::string text = fmt::format("{}: {}", bin.label, bin.checked);
  if (bin.refused > 0) text += fmt::format(" (+{} refused)", bin.refused);
  if (bin.checked + bin.refused == 0) text += bin.nothing_claimed > 0 ? " (nothing claimed)" : " (not met)";
  return text;
}

std::string counts_text(const char* what, const TupleCounts& n) {
  if (n.possible + n.excluded == 0) return "";
  return fmt::format(
      "  {}: {} of {} checked, {} refused or not claimed; {} more exclude one another or are too large for the suite\n",
      what, n.checked, n.possible, n.refused, n.excluded);
}

std::string layers_text(const CoverageReport& r) {
  if (r.layer_uses.checked + r.layer_uses.refused == 0) return "";
  return fmt::format("  layers: {}\n", join(r.layers.bins, ", ", bin_text)) +
         counts_text("uses of layers", r.layer_uses);
}

}  // namespace

std::vector<std::string> not_offered(const StatementResult& result) {
  std::vector<std::string> lines;
  for (const CoverageReport& r : result.coverage) {
    for (const AxisCount& axis : r.axes) {
      std::vector<std::string> bins;
      std::int64_t calls = 0;
      for (const BinCount& bin : axis.bins) {
        if (is_refused(bin)) bins.push_back(bin.label), calls += bin.refused;
      }
      if (bins.size() > 4) bins = {bins.front(), "...", fmt::format("{} ({} bins)", bins.back(), bins.size())};
      if (!bins.empty())
        lines.push_back(fmt::format("not offered by {}: {} {}; all {} calls with {} were refused", r.operation,
                                    axis.name, join(bins), calls, bins.size() == 1 ? "it" : "these"));
    }
  }
  return lines;
}

std::string coverage_text(const GateReport& report) {
  std::string out = "\ncoverage: cases that met each bin of each axis\n";
  for (const StatementResult& s : report.statements) {
    for (const CoverageReport& r : s.coverage) {
      out += fmt::format("\n{}, of {}\n", s.statement->name, r.operation);
      for (const AxisCount& axis : r.axes) out += fmt::format("  {}: {}\n", axis.name, join(axis.bins, ", ", bin_text));
      out += counts_text("pairs of bins", r.pairs) + counts_text("triples of bins", r.triples) + layers_text(r);
      for (const std::string& missed : r.missed) out += "  not met: " + missed + "\n";
    }
  }
  return out;
}

}  // namespace mxcheck
