#include "properties/report/page/pictures.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "properties/core/check.h"
#include "properties/core/notation.h"
#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/page/coverage_map.h"
#include "properties/report/page/grid.h"
#include "properties/report/page/states.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostColumns = 128;
constexpr std::int64_t kMostRows = 64;
constexpr std::int64_t kMostElements = 64;  // whose bits are shown
constexpr std::int64_t kElementsOfRow = 32;

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t width, std::int64_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + static_cast<std::size_t>(index) * width, width);
  return word;
}

// One element, as a tensor of its own.
std::optional<Difference> difference_at(const DifferingTensor& t, std::int64_t row, std::int64_t col) {
  const std::size_t width = bytes_of_element(t.info);
  const std::size_t at = static_cast<std::size_t>(row * t.info.cols + col) * width;
  TensorInfo one = t.info;
  one.rows = one.cols = 1;
  return compare(one, t.expected.subspan(at, width), t.observed.subspan(at, width), kPoisons[0]);
}

struct Cells {
  std::int64_t rows = 0, cols = 0;  // of the picture
  std::int64_t high = 1, wide = 1;  // elements of one cell
  std::vector<std::int64_t> wrong;  // by cell
  [[nodiscard]] std::int64_t elements(const TensorInfo& info, std::int64_t row, std::int64_t col) const {
    return std::min(high, info.rows - row * high) * std::min(wide, info.cols - col * wide);
  }
};

Cells cells_of(const DifferingTensor& t) {
  Cells cells;
  cells.high = (t.info.rows + kMostRows - 1) / kMostRows, cells.wide = (t.info.cols + kMostColumns - 1) / kMostColumns;
  cells.rows = (t.info.rows + cells.high - 1) / cells.high, cells.cols = (t.info.cols + cells.wide - 1) / cells.wide;
  cells.wrong.resize(static_cast<std::size_t>(cells.rows * cells.cols));
  const std::size_t width = bytes_of_element(t.info);
  for (std::int64_t i = 0; i < t.info.rows * t.info.cols; ++i) {
    if (word_at(t.expected, width, i) == word_at(t.observed, width, i)) continue;
    const std::int64_t row = i / t.info.cols, col = i % t.info.cols;
    if (t.info.any_nan_is_equal && !difference_at(t, row, col)) continue;
    ++cells.wrong[static_cast<std::size_t>(row / cells.high * cells.cols + col / cells.wide)];
  }
  return cells;
}

// Edges of blocks, where they are at least four pixels apart.
std::string block_edges(const TensorInfo& info, const Cells& cells, double step) {
  std::string out;
  const double width = step * static_cast<double>(cells.cols), height = step * static_cast<double>(cells.rows);
  const auto edges = [&](std::int64_t block, std::int64_t total, std::int64_t in_cell, bool vertical) {
    const double apart = step * static_cast<double>(block) / static_cast<double>(in_cell);
    if (block <= 0 || apart < 4 || (block == 1 && in_cell == 1)) return;
    for (std::int64_t at = block; at < total; at += block) {
      const double p = step * static_cast<double>(at) / static_cast<double>(in_cell);
      out += vertical ? fmt::format("<path class=\"blocks\" d=\"M{:.1f} 0V{:.1f}\"/>", p, height)
                      : fmt::format("<path class=\"blocks\" d=\"M0 {:.1f}H{:.1f}\"/>", p, width);
    }
  };
  edges(info.block_cols, info.cols, cells.wide, true);
  edges(info.block_rows, info.rows, cells.high, false);
  return out;
}

struct Place {
  std::int64_t row, col;
};

// Blocks begin at multiples of their size: ends of experts are not known here.
std::vector<Place> places_around(const TensorInfo& info, const Difference::Element& first) {
  const std::int64_t block_rows = info.block_rows > 0 ? std::min(info.block_rows, info.rows) : 1;
  const std::int64_t block_cols = info.block_cols > 0 ? std::min(info.block_cols, info.cols) : kElementsOfRow;
  std::int64_t row = first.row / block_rows * block_rows, rows = block_rows;
  std::int64_t col = first.col / block_cols * block_cols, cols = block_cols;
  if (rows * cols > kMostElements) {
    if (cols == 1) {
      row = std::max<std::int64_t>(row, first.row - kElementsOfRow / 2), rows = kElementsOfRow;
    } else {
      row = first.row, rows = 1;
      if (cols > kElementsOfRow) col = first.col / kElementsOfRow * kElementsOfRow, cols = kElementsOfRow;
    }
  }
  std::vector<Place> places;
  for (std::int64_t i = row; i < std::min(row + rows, info.rows); ++i) {
    for (std::int64_t j = col; j < std::min(col + cols, info.cols); ++j) places.push_back({i, j});
  }
  return places;
}

// Sign, exponent and mantissa apart.
bool ends_field(const TensorInfo& info, int bit) {
  if (info.integer_bits != 0) return bit % 8 == 0;
  const FormatSpec& f = spec(info.format);
  if (f.encoding == Encoding::power_of_two || f.encoding == Encoding::fixed_point) return false;
  return bit == f.bits - 1 || bit == f.mantissa_bits;
}

struct BitGrid {
  int bits = 8;
  double cell = 9;
  [[nodiscard]] double width(const TensorInfo& info) const {
    double gaps = 0;
    for (int bit = bits - 1; bit > 0; --bit) gaps += ends_field(info, bit) ? 3 : 0;
    return cell * bits + gaps;
  }
};

std::string bit_row(const DifferingTensor& t, const BitGrid& grid, std::uint64_t word, std::uint64_t other, double x,
                    double y) {
  std::string out;
  for (int bit = grid.bits - 1; bit >= 0; --bit) {
    const bool set = (word >> bit & 1) != 0;
    const bool differs = ((word ^ other) >> bit & 1) != 0;
    out += fmt::format("<rect class=\"{}{}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"7\" height=\"10\"/>",
                       differs ? "x" : "b", set ? 1 : 0, x, y);
    x += grid.cell + (ends_field(t.info, bit) ? 3 : 0);
  }
  return out;
}

std::string value_text(const TensorInfo& info, std::uint64_t word) {
  if (info.integer_bits != 0)
    return std::to_string(info.integer_bits == 32 ? std::int64_t{static_cast<std::int32_t>(word)}
                                                  : static_cast<std::int64_t>(word));
  return fmt::format("0x{:0{}x}", word, (spec(info.format).bits + 3) / 4);
}

std::string steps_text(const TensorInfo& info, const Difference::Element& e) {
  if (info.integer_bits != 0) return fmt::format("{:+}", e.observed_integer - e.expected_integer);
  if (e.ulps < 0) return "NaN";
  return e.ulps == 0 ? "NaN bits" : fmt::format("{} step{}", e.ulps, e.ulps == 1 ? "" : "s");
}

std::string bit_element(const DifferingTensor& t, const BitGrid& grid, const Place& at, double x, double y) {
  const std::size_t width = bytes_of_element(t.info);
  const std::int64_t index = at.row * t.info.cols + at.col;
  const std::uint64_t want = word_at(t.expected, width, index), got = word_at(t.observed, width, index);
  const std::optional<Difference> difference = difference_at(t, at.row, at.col);
  const std::string title =
      t.info.integer_bits != 0
          ? fmt::format("expected {}, observed {}", value_text(t.info, want), value_text(t.info, got))
          : fmt::format("expected {}, observed {}", notations(t.info.format, static_cast<std::uint32_t>(want)),
                        notations(t.info.format, static_cast<std::uint32_t>(got)));
  std::string out = fmt::format("<g><title>({}, {}): {}</title><text x=\"{:.0f}\" y=\"{:.0f}\">{},{}</text>", at.row,
                                at.col, escaped_markup(title), x, y + 10, at.row, at.col);
  const double right = x + grid.width(t.info) + 3;
  const char* mark = difference ? " class=\"bad\"" : "";
  out += bit_row(t, grid, want, want, x, y + 15) + bit_row(t, grid, got, want, x, y + 28);
  out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", right, y + 24, value_text(t.info, want));
  out += fmt::format("<text{} x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", mark, right, y + 37, value_text(t.info, got));
  if (difference) {
    out += fmt::format("<text class=\"bad\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", x, y + 50,
                       steps_text(t.info, difference->first));
  }
  return out + "</g>\n";
}

}  // namespace

std::string wrong_map(const DifferingTensor& t) {
  const Cells cells = cells_of(t);
  if (std::all_of(cells.wrong.begin(), cells.wrong.end(), [](std::int64_t n) { return n == 0; })) return "";
  const double step = std::clamp(900.0 / static_cast<double>(std::max(cells.cols, cells.rows * 2)), 6.0, 16.0);
  const double width = step * static_cast<double>(cells.cols), height = step * static_cast<double>(cells.rows);
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"-1 -1 {0:.0f} {1:.0f}\"><title>wrong elements "
      "of {2}"
      "</title><rect class=\"cell\" x=\"0\" y=\"0\" width=\"{3:.1f}\" height=\"{4:.1f}\"/>{5}",
      width + 2, height + 2, escaped_markup(t.info.name), width, height, block_edges(t.info, cells, step));
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    for (std::int64_t col = 0; col < cells.cols; ++col) {
      const std::int64_t wrong = cells.wrong[static_cast<std::size_t>(row * cells.cols + col)];
      if (wrong == 0) continue;
      const std::int64_t of = cells.elements(t.info, row, col);
      const std::string place =
          of == 1 ? fmt::format("({}, {})", row, col)
                  : fmt::format("{} of {} from ({}, {})", wrong, of, row * cells.high, col * cells.wide);
      out += fmt::format(
          "<rect class=\"wrong\" opacity=\"{:.2f}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\"><title>{}"
          "</title></rect>",
          0.3 + 0.7 * static_cast<double>(wrong) / static_cast<double>(of), step * static_cast<double>(col),
          step * static_cast<double>(row), step - 0.5, step - 0.5, place);
    }
  }
  return out + fmt::format("<rect class=\"frame\" x=\"0\" y=\"0\" width=\"{:.1f}\" height=\"{:.1f}\"/></svg>\n", width,
                           height);
}

std::string block_bits(const DifferingTensor& t) {
  const std::optional<Difference> difference = compare(t.info, t.expected, t.observed, kPoisons[0]);
  if (!difference) return "";
  const std::vector<Place> places = places_around(t.info, difference->first);
  const BitGrid grid{t.info.integer_bits != 0 ? t.info.integer_bits : spec(t.info.format).bits};
  const int characters = t.info.integer_bits != 0 ? 8 : 2 + (grid.bits + 3) / 4;
  const double text = 8.0 * characters;
  const double step_x = grid.width(t.info) + text + 14, step_y = 62;
  const auto in_row = static_cast<std::int64_t>(std::max(1.0, 1060 / step_x));
  const auto count = static_cast<std::int64_t>(places.size());
  const double width = step_x * static_cast<double>(std::min(in_row, count));
  const std::int64_t rows = (count + in_row - 1) / in_row;
  const double height = step_y * static_cast<double>(rows);
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"-2 0 {0:.0f} {1:.0f}\"><title>bits of {2}: "
      "expected above "
      "observed</title>\n",
      width + 2, height, escaped_markup(t.info.name));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i / in_row, column = i % in_row;
    out += bit_element(t, grid, places[static_cast<std::size_t>(i)], step_x * static_cast<double>(column),
                       step_y * static_cast<double>(row));
  }
  return out + "</svg>\n";
}

std::string step_bars(const Difference& difference) {
  if (difference.histogram.empty()) return "";
  std::int64_t most = 1;
  for (const auto& [name, count] : difference.histogram) most = std::max(most, count);
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"420\" height=\"{0}\" viewBox=\"0 0 420 {0}\"><title>elements by steps off"
      "</title>",
      18 * difference.histogram.size());
  double y = 0;
  for (const auto& [name, count] : difference.histogram) {
    const double width = std::max(2.0, 180 * static_cast<double>(count) / static_cast<double>(most));
    out += fmt::format(
        "<text class=\"ink\" x=\"0\" y=\"{0:.0f}\">{1}</text><rect class=\"wrong\" x=\"150\" y=\"{2:.0f}\" "
        "width=\"{3:.1f}\" height=\"11\"/><text x=\"{4:.1f}\" y=\"{0:.0f}\">{5}</text>",
        y + 12, escaped_markup(name), y + 3, width, 156 + width, grouped(count));
    y += 18;
  }
  return out + "</svg>\n";
}

namespace {

constexpr std::array<Verdict, 4> kVerdicts{Verdict::held, Verdict::failed, Verdict::inconclusive, Verdict::not_offered};
constexpr std::array<VariantState, 5> kStates{VariantState::held, VariantState::failed, VariantState::not_reached,
                                              VariantState::not_offered, VariantState::not_drawn};
constexpr double kStripWidth = 132;
constexpr double kLeastWidth = 2.5;  // of the stroke of a variant that failed, among thousands

struct Strip {
  std::string operation;
  std::vector<VariantState> states;
  std::int64_t cases = 0;
};

std::vector<Strip> strips_of(const GateReport& report, const StatementResult& r) {
  std::vector<Strip> strips;
  for (const VariantCount& v : r.by_variant) {
    const std::string& operation = report.variants.at(v.variant).operation;
    if (strips.empty() || strips.back().operation != operation) strips.push_back({operation, {}, 0});
    strips.back().states.push_back(state_of(report, r, v));
    strips.back().cases += v.checked;
  }
  return strips;
}

std::string count_text(const Strip& strip) {
  std::string text;
  for (const VariantState state : kStates) {
    const auto n = std::count(strip.states.begin(), strip.states.end(), state);
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(n), look_of(state).word);
  }
  return text;
}

// Neighbours of one state are one rectangle. A failure is drawn last, and never too narrow to be seen.
std::string strip_svg(const Strip& strip) {
  const double step = kStripWidth / static_cast<double>(strip.states.size());
  const double gap = step >= 4 ? 1 : 0;
  std::string runs, failed;
  for (std::size_t from = 0; from < strip.states.size();) {
    std::size_t to = from + 1;
    while (gap == 0 && to < strip.states.size() && strip.states[to] == strip.states[from]) ++to;
    const VariantState state = strip.states[from];
    double width = step * static_cast<double>(to - from) - gap;
    double x = step * static_cast<double>(from);
    if (state == VariantState::failed && width < kLeastWidth) {
      width = kLeastWidth;
      x = std::min(x, kStripWidth - width);
    }
    (state == VariantState::failed ? failed : runs) +=
        fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>", look_of(state).css, x,
                    state == VariantState::failed ? 0 : 2, width, state == VariantState::failed ? 14 : 10);
    from = to;
  }
  const std::string title = fmt::format("{}: {} variants: {}", strip.operation,
                                        grouped(static_cast<std::int64_t>(strip.states.size())), count_text(strip));
  return fmt::format("<svg role=\"img\" viewBox=\"0 0 {:.0f} 14\"><title>{}</title>{}{}</svg>", kStripWidth,
                     escaped_markup(title), runs, failed);
}

std::string strip_cell(const Strip& strip) {
  return fmt::format("<div class=\"strip\">{}<span>{}: {}; {} case{}</span></div>", strip_svg(strip),
                     escaped_markup(strip.operation), count_text(strip), grouped(strip.cases),
                     strip.cases == 1 ? "" : "s");
}

std::string row(const GateReport& report, const StatementResult& r) {
  std::string said = r.counterexample ? escaped_markup(r.counterexample->finding.summary) : escaped_markup(r.reason);
  for (const std::string& line : not_offered(r)) said += (said.empty() ? "" : "<br/>") + escaped_markup(line);
  std::string strips;
  for (const Strip& strip : strips_of(report, r)) strips += strip_cell(strip);
  const std::string name = r.counterexample ? fmt::format("<a href=\"#{}\">{}</a>", escaped_markup(r.statement->name),
                                                          breakable(r.statement->name))
                                            : breakable(r.statement->name);
  return fmt::format(
      "<tr><td>{}</td><td class=\"name\"><span class=\"mono\">{}</span>{}</td><td "
      "class=\"n\">{}</td><td>{}</td></tr>\n",
      badge(r.verdict), name, said.empty() ? "" : "<div class=\"note\">" + said + "</div>", grouped(r.cases), strips);
}

}  // namespace

std::string statement_grid(const GateReport& report) {
  std::string rows, left_out;
  std::int64_t without = 0;
  for (const StatementResult& r : report.statements) {
    if (r.verdict != Verdict::not_offered) {
      rows += row(report, r);
      continue;
    }
    ++without;
    left_out += fmt::format("<tr><td>{}</td><td class=\"name\"><span class=\"mono\">{}</span></td><td>{}</td></tr>\n",
                            badge(r.verdict), breakable(r.statement->name), escaped_markup(r.reason));
  }
  std::string out = "<p class=\"note\">A stroke is a variant of the operation: format, recipe, block, layout ...</p>\n";
  if (!rows.empty()) {
    out +=
        "<div class=\"wide\"><table>\n<thead><tr><th>state</th><th>statement</th><th class=\"n\">cases</th>"
        "<th>variants by operation</th></tr></thead>\n<tbody>\n" +
        rows + "</tbody></table></div>\n";
  }
  if (without == 0) return out;
  return out + fmt::format(
                   "<details><summary>{} statement{} not offered</summary><div class=\"wide\"><table><tbody>\n{}"
                   "</tbody></table></div></details>\n",
                   without, without == 1 ? "" : "s", left_out);
}

std::string share_bar(const GateReport& report) {
  const auto total = static_cast<double>(std::max<std::size_t>(1, report.statements.size()));
  std::string bars, key;
  double x = 0;
  for (const Verdict verdict : kVerdicts) {
    const auto n = std::count_if(report.statements.begin(), report.statements.end(),
                                 [&](const StatementResult& r) { return r.verdict == verdict; });
    const double width = 1000 * static_cast<double>(n) / total;
    if (n > 0) {
      bars += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"0\" width=\"{:.1f}\" height=\"18\"/>",
                          look_of(verdict).css, x, std::max(2.0, width - 2));
    }
    x += width;
    key += fmt::format("<span>{} {}</span>", badge(verdict), n);
  }
  return "<svg class=\"share\" role=\"img\" viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\"><title>statements by "
         "state</title>" +
         bars + "</svg>\n<div class=\"key\">" + key + "</div>\n";
}

namespace {

struct OperationMap {
  std::string operation;
  std::int64_t statements = 0;
  std::vector<AxisCount> axes;
  TupleCounts pairs, triples, uses;
  std::vector<std::string> missed;
  bool ended_early = false;  // a statement: at its counterexample
};

void add(BinCount& to, const BinCount& from) {
  to.checked += from.checked, to.refused += from.refused, to.nothing_claimed += from.nothing_claimed;
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
  const bool unmet = bin.checked + bin.refused + bin.nothing_claimed == 0;
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
  if (bin.refused > 0) more += fmt::format(", {} refused", grouped(bin.refused));
  if (bin.nothing_claimed > 0) more += fmt::format(", {} that nothing is said about", grouped(bin.nothing_claimed));
  return fmt::format("<i class=\"h{}{}\" title=\"{}\">{}<b>{}</b></i>", shade, mark, more, escaped_markup(bin.label),
                     unmet     ? (ended_early ? "" : "not met")
                     : refused ? "refused"
                               : grouped(bin.checked));
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
                     grouped(n.checked), grouped(n.possible), grouped(n.refused), grouped(n.excluded));
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
                        escaped_markup(axis.name), cells);
  }
  std::string out = fmt::format(
      "<details{}><summary><strong>{}</strong>: {} cases of {} statement{}; {} bins, {} below 1 %, {} not met or "
      "refused{}</summary>\n",
      open ? " open=\"open\"" : "", escaped_markup(map.operation), grouped(cases), map.statements,
      map.statements == 1 ? "" : "s", bins, few, unmet,
      tuples("pairs of bins", map.pairs) + tuples("triples", map.triples) + tuples("uses of layers", map.uses));
  for (const std::string& missed : map.missed) out += "<p class=\"bad\">not met: " + escaped_markup(missed) + "</p>\n";
  if (map.ended_early) {
    out +=
        "<p class=\"note\">A statement about it ended at its counterexample: what is empty here may not have been "
        "tried."
        "</p>\n";
  }
  return out + rows + "</details>\n";
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
