// The report as a page. Every plot has its figures in a table beside it.

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "numerics/text.h"
#include "pages/chart.h"
#include "pages/html.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {
namespace {

// Styles that html::kBaseStyle and svg::kChartStyle lack.
constexpr std::string_view kStyle = R"(
:root { --base: #f3f6fa; } @media (prefers-color-scheme: dark) { :root { --base: #1c222c; } }
section > h2 { padding-top: 16px; border-top: 1px solid var(--rule); } svg { display: block; }
.findings { background: var(--base); border-left: 4px solid var(--doubt); padding: 12px 16px; }
  .findings ul { margin: 0; overflow-wrap: anywhere; }
th, td { white-space: nowrap; padding: 4px 5px; } thead th, thead th.n { white-space: normal; vertical-align: bottom; max-width: 6em; }
  tr.base { background: var(--base); }
td.doubt { font-weight: 600; } svg text { font-size: 12px; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(320px, 100%), 1fr)); gap: 16px; }
.plots figure { padding: 12px; border: 1px solid var(--rule); border-radius: 6px; min-width: 0; }
.plots svg { width: 100%; } figcaption { margin-bottom: 8px; overflow-wrap: anywhere; }
  figure details { font-size: 13px; }
)";

std::string label(const Combination& what) {
  return fmt::format("{} {} {}", what.recipe.name, spec(what.format).name, to_text(what.block));
}

// Bars of a chart. Bars with equal text are joined into one that has all their labels.
class BarGroups {
 public:
  void add(const Combination& what, double value, const std::string& text, bool marked = false) {
    const std::string place = fmt::format("{} {}", spec(what.format).name, to_text(what.block));
    const auto same = std::ranges::find_if(
        groups_, [&](const Group& g) { return g.place == place && g.bar.text == text && g.marked == marked; });
    if (same != groups_.end()) {
      same->bar.label += ", " + what.recipe.name;
    } else {
      groups_.push_back({place, {what.recipe.name, value, text, marked ? "bar doubt" : "bar"}, marked});
    }
  }
  [[nodiscard]] std::vector<svg::Bar> bars() const {
    std::vector<svg::Bar> all;
    for (const Group& g : groups_) all.push_back(g.bar), all.back().label += " " + g.place;
    return all;
  }

 private:
  struct Group {
    std::string place;
    svg::Bar bar;
    bool marked;
  };
  std::vector<Group> groups_;
};

std::string decibel_text(double sqnr_db) { return decibels(sqnr_db) + (std::isfinite(sqnr_db) ? " dB" : ""); }

std::string sqnr_chart(double bf16, const BarGroups& groups, const std::string& title) {
  std::vector<svg::Bar> bars = groups.bars();
  bars.insert(bars.begin(), {"bf16", bf16, decibel_text(bf16)});
  return svg::bar_chart(bars, {.title = title, .unit = "dB", .shows_differences = true});
}

html::Cell number_cell(const std::string& text, bool marked = false) {
  return html::text(text, marked ? "n doubt" : "n");
}

bool has(const std::vector<std::string>& kinds, const char* kind) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

// ", 0.53 % saturated": of the findings about a line, those that its SQNR does not show.
std::string losses_of(const std::vector<std::string>& kinds, const Study& s) {
  std::string text;
  if (has(kinds, "erased")) text += ", " + percent(s.zeroed_share) + " zeroed";
  if (has(kinds, "saturated")) text += ", " + percent(s.error.saturated_share) + " saturated";
  if (has(kinds, "dead_blocks")) text += fmt::format(", {} dead block{}", s.dead_blocks, s.dead_blocks == 1 ? "" : "s");
  return text;
}

// The first cells of a line: rank, recipe, format and block.
html::Row line_row(std::size_t rank, const Combination& what) {
  return {{number_cell(std::to_string(rank)), html::name(what.recipe.name), html::text(spec(what.format).name),
           html::text(to_text(what.block))},
          ""};
}
html::Row bf16_row() { return {{number_cell("-"), html::name("bf16"), html::text("bf16"), html::text("-")}, "base"}; }

void add_numbers(html::Row& row, const std::vector<std::string>& numbers) {
  for (const std::string& number : numbers) row.cells.push_back(number_cell(number));
}

html::Table ranked_table(std::string caption, const std::vector<std::string>& heads) {
  html::Table table{.head = {html::text("rank", "n"), html::text("recipe"), html::text("format"), html::text("block")},
                    .caption = std::move(caption)};
  for (const std::string& head : heads) table.head.push_back(html::text(head, "n"));
  return table;
}

std::string tensor_table(const TensorReport& t) {
  html::Table table = ranked_table(
      "Relative errors are of single elements. Zeroed: of the nonzero elements. Dead: blocks of which nothing is left.",
      {"SQNR dB", "median error", "largest error", "zeroed", "saturated", "dead blocks", "zero blocks", "lowest amax",
       "highest amax", "scales", "bytes"});
  html::Row& bf16 = table.rows.emplace_back(bf16_row());
  add_numbers(bf16, {decibels(t.bf16.sqnr_db), figure(t.bf16.median_relative), figure(t.bf16.max_relative),
                     std::to_string(t.bf16.flushed), std::to_string(t.bf16.saturated), "-", "-", "-", "-", "-", "-"});
  for (const StudyLine& line : t.lines) {
    const Study& s = line.study;
    const std::vector<std::string> kinds = finding_kinds(t, line);
    html::Row row = line_row(table.rows.size(), line.what);
    add_numbers(row, {decibels(s.error.sqnr_db), figure(s.error.median_relative), figure(s.error.max_relative)});
    row.cells.push_back(number_cell(percent(s.zeroed_share), has(kinds, "erased")));
    row.cells.push_back(number_cell(percent(s.error.saturated_share), has(kinds, "saturated")));
    row.cells.push_back(number_cell(std::to_string(s.dead_blocks), has(kinds, "dead_blocks")));
    add_numbers(row, {std::to_string(s.zero_blocks), figure(s.amax_lowest), figure(s.amax_highest),
                      std::to_string(s.distinct_scales), scale_range(s)});
    table.rows.push_back(std::move(row));
  }
  return html::wide(html::table(table), "figures");
}

struct Histogram {
  std::string names;
  const Study* study;
  Format scales;
};

std::string histogram_figure(const Histogram& h, int low, int high) {
  constexpr double kWidth = 320, kHeight = 110;
  const std::uint64_t most = *std::max_element(h.study->scales.begin(), h.study->scales.end());
  const double step = kWidth / (high - low + 1);
  svg::Drawing d;
  d.line(0, kHeight, kWidth, kHeight, {.css = "axis"});
  html::Table table{.head = {html::text("byte", "n"), html::text("blocks", "n")}};
  for (int byte = low; byte <= high; ++byte) {
    const std::uint64_t count = h.study->scales[static_cast<std::size_t>(byte)];
    if (count == 0) continue;
    const double height = std::max(1.0, (kHeight - 6) * static_cast<double>(count) / static_cast<double>(most));
    d.rect(step * (byte - low) + step * 0.1, kHeight - height, step * 0.8, height,
           {.css = "bar", .title = fmt::format("byte {}: {} blocks", byte, count)});
    table.rows.push_back({{number_cell(std::to_string(byte)), number_cell(std::to_string(count))}, ""});
  }
  d.text(0, kHeight + 15, std::to_string(low));
  d.text(kWidth, kHeight + 15, std::to_string(high), {.anchor = "end"});
  const svg::Picture picture{
      .title = "Scales of " + h.names, .width = kWidth, .height = kHeight + 20, .sizing = svg::Sizing::of_page};
  return fmt::format("<figure><figcaption>{}</figcaption>{}{}</figure>\n", html::escaped(h.names), d.picture(picture),
                     html::details(h.scales == Format::fp32 ? "Counts (FP32 scales by exponent field)" : "Counts",
                                   html::table(table)));
}

// One plot for all recipes that write the same numbers of each byte; one axis for all, so that they compare. E4M3's
// bytes have plots apart, since the scale of a byte is another one.
std::string histograms_of(const TensorReport& t, bool of_e4m3) {
  std::vector<Histogram> groups;
  int low = 255, high = 0;
  for (const StudyLine& line : t.lines) {
    const Format scales = line.what.recipe.scale_format();
    if ((scales == Format::e4m3) != of_e4m3) continue;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Histogram& h) {
      return h.study->scales == line.study.scales && h.scales == scales;
    });
    for (int byte = 0; byte < 256; ++byte) {
      if (line.study.scales[static_cast<std::size_t>(byte)] == 0) continue;
      low = std::min(low, byte);
      high = std::max(high, byte);
    }
    if (found != groups.end()) {
      found->names += ", " + label(line.what);
    } else {
      groups.push_back({label(line.what), &line.study, scales});
    }
  }
  std::string out;
  for (const Histogram& h : groups) out += histogram_figure(h, low, high);
  return out;
}

std::string histograms(const TensorReport& t) {
  const auto section = [](const std::string& title, const std::string& meaning, const std::string& plots) {
    if (plots.empty()) return std::string();
    return fmt::format(
        "<h3>{}</h3><p class=\"soft\">{} Recipes with equal counts share a plot, and all plots share an axis.</p><div "
        "class=\"plots\">\n{}</div>\n",
        title, meaning, plots);
  };
  return section("Scale bytes", "Blocks by scale byte; the scale is 2^(byte - 127).", histograms_of(t, false)) +
         section("Scale bytes in E4M3",
                 "Blocks by the E4M3 byte of their scale, below the scale of the tensor; 126 is "
                 "448, and eight bytes are a factor of 2.",
                 histograms_of(t, true));
}

// SQNR is decided by the largest elements, and does not show what happens to the others.
std::string zeroed_chart(const TensorReport& t) {
  BarGroups groups;
  for (const StudyLine& line : t.lines) {
    const double share = line.study.zeroed_share;
    if (has(finding_kinds(t, line), "erased")) groups.add(line.what, 100 * share, percent(share), true);
  }
  if (groups.bars().empty()) return "";
  return "<h3>Nonzero elements that become zero: recipes that lose 1 % or more</h3>\n" +
         svg::bar_chart(groups.bars(), {.title = "Elements lost by recipe", .unit = "%"});
}

std::string tensor_section(const TensorReport& t) {
  BarGroups groups;
  for (const StudyLine& line : t.lines) {
    const std::string losses = losses_of(finding_kinds(t, line), line.study);
    const double sqnr = line.study.error.sqnr_db;
    groups.add(line.what, sqnr, decibel_text(sqnr) + losses, !losses.empty());
  }
  return html::section(t.name,
                       fmt::format("{} x {} {}; {} zeros, {} NaN, {} infinities; magnitudes {} to {}", t.rows, t.cols,
                                   spec(t.dtype).name, t.facts.zeros, t.facts.nan, t.facts.infinite,
                                   figure(t.facts.smallest), figure(t.facts.largest)),
                       "<h3>Signal to quantization noise: longer is better</h3>\n" +
                           html::note("Recipes with the same figure share a bar. The axis begins where they differ. " +
                                      std::string("Another colour: elements are lost that SQNR does not show.")) +
                           sqnr_chart(t.bf16.sqnr_db, groups, "SQNR by recipe") + zeroed_chart(t) +
                           "<h3>Figures</h3>\n" + tensor_table(t) + histograms(t));
}

std::string matmul_section(const MatmulReport& p) {
  BarGroups groups;
  html::Table table =
      ranked_table("Norm: Frobenius norm of the error by that of the product", {"SQNR dB", "norm", "largest / rms"});
  const auto add = [&](html::Row row, const MatmulError& e) {
    add_numbers(row, {decibels(e.sqnr_db), figure(e.frobenius), figure(e.max_over_rms)});
    table.rows.push_back(std::move(row));
  };
  add(bf16_row(), p.bf16);
  for (const auto& [what, error] : p.lines) {
    groups.add(what, error.sqnr_db, decibel_text(error.sqnr_db));
    add(line_row(table.rows.size(), what), error);
  }
  return html::section(p.activations + " x " + p.weights,
                       fmt::format("Product with M = {}, N = {}, K = {}; both operands quantized along K, against the "
                                   "exact product",
                                   p.m, p.n, p.k),
                       sqnr_chart(p.bf16.sqnr_db, groups, "SQNR of the product by recipe") +
                           html::wide(html::table(table), "figures of the product"));
}

std::string findings_section(const std::vector<RecipeFinding>& findings) {
  if (findings.empty()) return "<p>No findings.</p>\n";
  std::string out = "<section class=\"findings\" aria-label=\"Findings\"><strong>Findings</strong>\n";
  const std::string* where = nullptr;
  for (const RecipeFinding& f : findings) {
    if (where == nullptr || *where != f.where) {
      out += (where == nullptr ? "<h3>" : "</ul><h3>") + html::escaped(f.where) + "</h3><ul>\n";
    }
    where = &f.where;
    out += "<li>" + html::escaped(f.text) + "</li>\n";
  }
  return out + "</ul></section>\n";
}

// The answer, in the page's first line.
std::string answer(const RecipesReport& report) {
  const std::vector<RecipeChoice> choices = choices_of(report);
  if (choices.empty()) return html::verdict("doubt", "None", why_no_choice(report));
  const bool of_several = report.tensors.size() + report.matmuls.size() > 1;
  const auto reason = [&](const RecipeChoice& c) {
    const std::string scales = scale_kind(c.what.recipe);
    return fmt::format("{}{} dB{}: the least error with {} scales, and no finding is about it{}",
                       of_several ? "at least " : "", c.sqnr, of_several ? " everywhere" : "", scales,
                       c.equal.empty() ? "" : "; " + join(c.equal) + (c.equal.size() == 1 ? " is" : " are") + " equal");
  };
  std::string more;
  for (const RecipeChoice& c : std::span(choices).subspan(1)) {
    more += fmt::format("<p><strong>{}</strong> {}</p>\n", html::escaped(label(c.what)), html::escaped(reason(c)));
  }
  return html::verdict("good", label(choices[0].what), reason(choices[0]), more);
}

}  // namespace

std::string to_page(const RecipesReport& report) {
  std::string out = answer(report) + findings_section(report.findings);
  for (const TensorReport& t : report.tensors) out += tensor_section(t);
  for (const MatmulReport& p : report.matmuls) out += matmul_section(p);
  return html::page("Quantization recipes", std::string(svg::kChartStyle) + std::string(kStyle), out);
}

}  // namespace mxcheck
