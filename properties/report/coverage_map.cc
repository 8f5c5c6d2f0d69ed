// The coverage of the operations' domains as a map.

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "pages/html.h"
#include "pages/svg.h"
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

// A bin, from the best to the worst. left: a statement ended early, and may not have tried it.
enum class BinState { met, few, refused, left, unmet };
struct BinLook {
  const char* css;
  const char* word;
};
constexpr std::array<BinLook, 5> kBinLooks{{{"met", "met"},
                                            {"few", "by less than 1 % of the cases"},
                                            {"refused", "refused, or nothing is said"},
                                            {"left", "not reached"},
                                            {"unmet", "not met"}}};

// can_be_few: not of an axis on which few cases are to be.
BinState state_of(const BinCount& bin, std::int64_t cases, bool ended_early, bool can_be_few) {
  if (bin.checked > 0) {
    const bool is_few = static_cast<double>(bin.checked) < kFewCases * static_cast<double>(cases);
    return is_few && can_be_few ? BinState::few : BinState::met;
  }
  if (bin.refused + bin.not_applicable > 0) return BinState::refused;
  return ended_early ? BinState::left : BinState::unmet;
}

std::string cell(const BinCount& bin, std::int64_t cases, BinState state) {
  const double share = cases > 0 ? static_cast<double>(bin.checked) / static_cast<double>(cases) : 0;
  const int shade = bin.checked == 0    ? 0
                    : share < kFewCases ? 1
                    : share < 0.03      ? 2
                    : share < 0.1       ? 3
                    : share < 0.3       ? 4
                                        : 5;
  std::string more = fmt::format("{:.2g} % of the cases", 100 * share);
  if (bin.refused > 0) more += fmt::format(", {} refused", html::grouped(bin.refused));
  if (bin.not_applicable > 0) more += fmt::format(", {} that nothing is said about", html::grouped(bin.not_applicable));
  const BinLook& look = kBinLooks[static_cast<std::size_t>(state)];
  return fmt::format("<i class=\"h{}{}\" title=\"{}\">{}<b>{}</b></i>", shade,
                     state == BinState::met ? "" : std::string(" ") + look.css, more, html::escaped(bin.label),
                     bin.checked > 0                                 ? html::grouped(bin.checked)
                     : state == BinState::unmet                      ? "not met"
                     : state == BinState::refused && bin.refused > 0 ? "refused"
                                                                     : "");
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

html::Row tuples(const char* what, const TupleCounts& n) {
  html::Row row{{html::name(what)}, ""};
  for (const std::int64_t count : {n.possible, n.checked, n.refused, n.excluded})
    row.cells.push_back(html::text(html::grouped(static_cast<std::int64_t>(count)), "n"));
  return row;
}

std::string tuple_table(const OperationMap& map) {
  html::Table table{.head = {html::text(""), html::text("all", "n"), html::text("met", "n"),
                             html::text("refused, or nothing said", "n"), html::text("exclude one another", "n")}};
  if (map.pairs.possible > 0) table.rows.push_back(tuples("pairs of bins", map.pairs));
  if (map.triples.possible > 0) table.rows.push_back(tuples("triples", map.triples));
  if (map.uses.possible > 0) table.rows.push_back(tuples("uses of layers", map.uses));
  return table.rows.empty() ? "" : html::wide(html::table(table));
}

struct DrawnMap {
  std::string bar;   // a line of the picture of all operations
  std::string bins;  // all bins, closed
};

DrawnMap drawn(const OperationMap& map) {
  const std::int64_t cases = cases_of(map);
  std::array<std::int64_t, kBinLooks.size()> counts{};
  std::int64_t bins = 0;
  std::string rows;
  for (const AxisCount& axis : map.axes) {
    std::string cells;
    const bool layers = axis.name == "layers";  // a case or two each
    for (const BinCount& bin : axis.bins) {
      const BinState state = state_of(bin, cases, map.ended_early, !layers);
      ++counts[static_cast<std::size_t>(state)], ++bins;
      cells += cell(bin, cases, state);
    }
    rows += fmt::format("<div class=\"axis\"><span>{}</span><div class=\"cells\">{}</div></div>\n",
                        html::escaped(axis.name), cells);
  }
  svg::Drawing d;
  double x = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double width = 100 * static_cast<double>(counts[i]) / static_cast<double>(std::max<std::int64_t>(1, bins));
    const std::string title = fmt::format("{} {}", counts[i], kBinLooks[i].word);
    if (counts[i] > 0) d.rect(svg::percent(x), 0, svg::percent(width), 14, {.css = kBinLooks[i].css, .title = title});
    x += width;
  }
  const std::string name = html::escaped(map.operation);
  std::string body;
  for (const std::string& missed : map.missed)
    body += "<p class=\"doubt\">not met: " + html::escaped(missed) + "</p>\n";
  if (map.ended_early)
    body += html::note("A statement about it ended at its counterexample: what is empty here may not have been tried.");
  return {
      fmt::format("<b>{}</b>{}<span>{} of {} bins met, {} cases</span>\n", name,
                  d.picture({.title = map.operation, .height = 14, .sizing = svg::Sizing::fluid}),
                  counts[0] + counts[1], bins, html::grouped(cases)),
      html::details(fmt::format("<strong>{}</strong>: {} cases of {} statement{}; {} bins, {} below 1 %, {} not met or "
                                "refused",
                                name, html::grouped(cases), map.statements, map.statements == 1 ? "" : "s", bins,
                                counts[1], bins - counts[0] - counts[1]),
                    body + rows + tuple_table(map), !map.missed.empty())};
}

}  // namespace

std::string coverage_map(const GateReport& report) {
  const std::vector<OperationMap> maps = maps_of(report);
  if (maps.empty()) return "";
  std::string key, bars, bins;
  for (const BinLook& look : kBinLooks) {
    svg::Drawing swatch;
    swatch.rect(0, 0, 22, 14, {.css = look.css});
    key += "<span>" + swatch.picture({.title = "", .width = 22, .height = 14, .sizing = svg::Sizing::of_page}) +
           look.word + "</span>";
  }
  for (const OperationMap& map : maps) {
    const DrawnMap one = drawn(map);
    bars += one.bar, bins += one.bins;
  }
  return html::note("Each axis of an operation's domain is cut into bins; a case meets a bin of every axis.") +
         "<div class=\"key note\">" + key + "</div>\n<div class=\"bars\">\n" + bars +
         "</div>\n<h3>The bins, with the cases that met each</h3>\n<div class=\"key cells\"><i class=\"h1 few\">below "
         "1 "
         "%</i><i class=\"h2\">1 % to 3 %</i><i class=\"h3\">to 10 %</i><i class=\"h4\">to 30 %</i><i "
         "class=\"h5\">more</i><i class=\"h0 refused\">refused</i><i class=\"h0 unmet\">not met</i></div>\n" +
         bins;
}

}  // namespace mxcheck
