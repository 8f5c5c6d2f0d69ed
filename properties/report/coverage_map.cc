// The coverage of the operations' domains as a map.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "pages/html.h"
#include "properties/report/pictures.h"

namespace mxcheck {
namespace {

// A bin that fewer than this share of the operation's cases met is marked.
constexpr double kFewCases = 0.01;

struct OperationMap {
  std::string operation;
  std::int64_t statements = 0;
  std::vector<AxisCount> axes;
  TupleCounts pairs, triples, uses;
  std::vector<std::string> missed;
  bool ended_early = false;  // a statement: at its counterexample
};

void add(BinCount& to, const BinCount& from) {
  to.checked += from.checked, to.refused += from.refused, to.not_applicable += from.not_applicable;
}

void add(TupleCounts& to, const TupleCounts& from) {
  to.possible += from.possible, to.checked += from.checked, to.refused += from.refused, to.excluded += from.excluded;
}

// Bins in the order of the statement that has most of them; a statement about less leaves some out.
void add(std::vector<AxisCount>& axes, const AxisCount& from) {
  if (from.bins.empty()) return;
  auto axis = std::find_if(axes.begin(), axes.end(), [&](const AxisCount& a) { return a.name == from.name; });
  if (axis == axes.end()) axis = axes.insert(axis, {from.name, {}});
  for (std::size_t i = 0; i < from.bins.size(); ++i) {
    auto bin = std::find_if(axis->bins.begin(), axis->bins.end(),
                            [&](const BinCount& b) { return b.label == from.bins[i].label; });
    if (bin == axis->bins.end()) {
      const auto at = static_cast<std::ptrdiff_t>(std::min(i, axis->bins.size()));
      bin = axis->bins.insert(axis->bins.begin() + at, {from.bins[i].label});
    }
    add(*bin, from.bins[i]);
  }
}

std::vector<OperationMap> maps_of(const GateReport& report) {
  std::vector<OperationMap> maps;
  for (const StatementResult& r : report.statements) {
    for (const CoverageReport& c : r.coverage) {
      auto map =
          std::find_if(maps.begin(), maps.end(), [&](const OperationMap& m) { return m.operation == c.operation; });
      if (map == maps.end()) map = maps.insert(map, OperationMap{c.operation, 0, {}, {}, {}, {}, {}, false});
      ++map->statements;
      for (const AxisCount& axis : c.axes) add(map->axes, axis);
      add(map->axes, c.layers);
      add(map->pairs, c.pairs), add(map->triples, c.triples), add(map->uses, c.layer_uses);
      map->ended_early = map->ended_early || r.counterexample;
      for (const std::string& missed : r.counterexample ? std::vector<std::string>{} : c.missed)
        map->missed.push_back(std::string(r.statement->name) + ": " + missed);
    }
  }
  return maps;
}

// one_of_few: of an axis on which few cases are to be.
std::string cell(const BinCount& bin, std::int64_t cases, bool ended_early, bool one_of_few) {
  const double share = cases > 0 ? static_cast<double>(bin.checked) / static_cast<double>(cases) : 0;
  const bool refused = bin.checked == 0 && bin.refused > 0;
  const bool unmet = bin.checked + bin.refused + bin.not_applicable == 0;
  const int shade = bin.checked == 0    ? 0
                    : share < kFewCases ? 1
                    : share < 0.03      ? 2
                    : share < 0.1       ? 3
                    : share < 0.3       ? 4
                                        : 5;
  const char* mark = unmet                                                 ? (ended_early ? " left" : " unmet")
                     : refused                                             ? " refused"
                     : bin.checked > 0 && share < kFewCases && !one_of_few ? " few"
                                                                           : "";
  std::string more = fmt::format("{:.2g} % of the cases", 100 * share);
  if (bin.refused > 0) more += fmt::format(", {} refused", html::grouped(bin.refused));
  if (bin.not_applicable > 0) more += fmt::format(", {} that nothing is said about", html::grouped(bin.not_applicable));
  return fmt::format("<i class=\"h{}{}\" title=\"{}\">{}<b>{}</b></i>", shade, mark, more, html::escaped(bin.label),
                     unmet     ? (ended_early ? "" : "not met")
                     : refused ? "refused"
                               : html::grouped(bin.checked));
}

// Every case is in one bin of an axis at most: that with most counts them all.
std::int64_t cases_of(const OperationMap& map) {
  std::int64_t most = 0;
  for (const AxisCount& axis : map.axes) {
    std::int64_t sum = 0;
    for (const BinCount& bin : axis.bins) sum += bin.checked;
    most = std::max(most, sum);
  }
  return most;
}

std::string tuples(const char* what, const TupleCounts& n) {
  if (n.possible == 0) return "";
  return fmt::format("; {}: {} of {} met, {} refused or nothing said, {} exclude one another or are too large", what,
                     html::grouped(n.checked), html::grouped(n.possible), html::grouped(n.refused),
                     html::grouped(n.excluded));
}

std::string map_section(const OperationMap& map, bool open) {
  const std::int64_t cases = cases_of(map);
  std::int64_t bins = 0, few = 0, unmet = 0;
  std::string rows;
  for (const AxisCount& axis : map.axes) {
    std::string cells;
    const bool layers = axis.name == "layers";  // a case or two each
    for (const BinCount& bin : axis.bins) {
      ++bins;
      few += !layers && bin.checked > 0 && static_cast<double>(bin.checked) < kFewCases * static_cast<double>(cases)
                 ? 1
                 : 0;
      unmet += bin.checked == 0 ? 1 : 0;
      cells += cell(bin, cases, map.ended_early, layers);
    }
    rows += fmt::format("<div class=\"axis\"><span>{}</span><div class=\"cells\">{}</div></div>\n",
                        html::escaped(axis.name), cells);
  }
  const std::string summary = fmt::format(
      "<strong>{}</strong>: {} cases of {} statement{}; {} bins, {} below 1 %, {} not met or refused{}",
      html::escaped(map.operation), html::grouped(cases), map.statements, map.statements == 1 ? "" : "s", bins, few,
      unmet, tuples("pairs of bins", map.pairs) + tuples("triples", map.triples) + tuples("uses of layers", map.uses));
  std::string out;
  for (const std::string& missed : map.missed) out += "<p class=\"bad\">not met: " + html::escaped(missed) + "</p>\n";
  if (map.ended_early) {
    out += html::note("A statement about it ended at its counterexample: what is empty here may not have been tried.");
  }
  return html::details(summary, out + rows, open);
}

}  // namespace

std::string coverage_map(const GateReport& report) {
  const std::vector<OperationMap> maps = maps_of(report);
  if (maps.empty()) return "";
  std::string out =
      "<p class=\"note\">Each axis of an operation's domain, cut into bins; a bin with the number of checked cases "
      "that met "
      "it, over all statements.</p>\n<div class=\"key cells\"><i class=\"h1 few\">below 1 %</i><i class=\"h2\">1 % to "
      "3 "
      "%</i><i class=\"h3\">to 10 %</i><i class=\"h4\">to 30 %</i><i class=\"h5\">more</i><i class=\"h0 refused\">"
      "refused</i><i class=\"h0 unmet\">not met</i></div>\n";
  for (std::size_t i = 0; i < maps.size(); ++i) out += map_section(maps[i], i == 0 || !maps[i].missed.empty());
  return out;
}

}  // namespace mxcheck
