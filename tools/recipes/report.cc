#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {
namespace {

constexpr const char* kRow = "{:>4}  {:<20} {:<7} {:<8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}  {}\n";
constexpr const char* kMatmulRow = "{:>4}  {:<20} {:<7} {:<8} {:>8} {:>10} {:>10}\n";

std::string to_text(const TensorReport& t, std::size_t top) {
  std::string out = fmt::format("{}: {} x {} {}, {} zeros, {} NaN, {} infinities, magnitudes {} to {}\n", t.name,
                                t.rows, t.cols, spec(t.dtype).name, t.facts.zeros, t.facts.nan, t.facts.infinite,
                                figure(t.facts.smallest), figure(t.facts.largest));
  out += fmt::format(kRow, "rank", "recipe", "format", "block", "SQNR dB", "median", "max rel", "zeroed", "saturated",
                     "dead", "scales", "bytes");
  out += fmt::format(kRow, "-", "bf16", "bf16", "-", decibels(t.bf16.sqnr_db), figure(t.bf16.median_relative),
                     figure(t.bf16.max_relative), t.bf16.flushed, t.bf16.saturated, "-", "-", "-");
  const std::size_t shown = top == 0 ? t.lines.size() : std::min(top, t.lines.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [what, s] = t.lines[i];
    out += fmt::format(kRow, i + 1, what.recipe.name, spec(what.format).name, to_text(what.block),
                       decibels(s.error.sqnr_db), figure(s.error.median_relative), figure(s.error.max_relative),
                       percent(s.zeroed_share), percent(s.error.saturated_share), s.dead_blocks, s.distinct_scales,
                       scale_range(s));
  }
  if (shown < t.lines.size()) out += fmt::format("      ... {} more\n", t.lines.size() - shown);
  return out + "\n";
}

std::string to_text(const MatmulReport& p, std::size_t top) {
  std::string out = fmt::format("{} x {}: {} x {} x {} (M x N x K), weights {}\n", p.activations, p.weights, p.m, p.n,
                                p.k, p.layout == WeightsLayout::nk ? "nk" : "kn");
  out += fmt::format(kMatmulRow, "rank", "recipe", "format", "block", "SQNR dB", "norm", "max/rms");
  out += fmt::format(kMatmulRow, "-", "bf16", "bf16", "-", decibels(p.bf16.sqnr_db), figure(p.bf16.frobenius),
                     figure(p.bf16.max_over_rms));
  const std::size_t shown = top == 0 ? p.lines.size() : std::min(top, p.lines.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [what, e] = p.lines[i];
    out += fmt::format(kMatmulRow, i + 1, what.recipe.name, spec(what.format).name, to_text(what.block),
                       decibels(e.sqnr_db), figure(e.frobenius), figure(e.max_over_rms));
  }
  if (shown < p.lines.size()) out += fmt::format("      ... {} more\n", p.lines.size() - shown);
  return out + "\n";
}

Json to_json(const ErrorMeasures& e) {
  return {{"sqnr_db", json_number(e.sqnr_db)},
          {"median_relative", json_number(e.median_relative)},
          {"max_relative", json_number(e.max_relative)},
          {"flushed", e.flushed},
          {"saturated", e.saturated},
          {"saturated_share", e.saturated_share},
          {"nan_in_both", e.nan_in_both},
          {"nan_introduced", e.nan_introduced},
          {"nan_lost", e.nan_lost},
          {"infinity_lost", e.infinity_lost}};
}

Json ranked_json(std::size_t rank, const Combination& what) {
  return {
      {"rank", rank}, {"recipe", what.recipe.name}, {"format", spec(what.format).name}, {"block", to_text(what.block)}};
}

Json to_json(const TensorReport& t) {
  Json json{{"name", t.name},
            {"dtype", spec(t.dtype).dtype_name},
            {"rows", t.rows},
            {"cols", t.cols},
            {"zeros", t.facts.zeros},
            {"nan", t.facts.nan},
            {"infinite", t.facts.infinite},
            {"smallest", t.facts.smallest},
            {"largest", t.facts.largest},
            {"bf16", to_json(t.bf16)}};
  json["recipes"] = Json::array();
  for (const auto& [what, s] : t.lines) {
    Json line = ranked_json(json["recipes"].size() + 1, what);
    line.update(to_json(s.error));
    line["zeroed_share"] = s.zeroed_share;
    line["blocks"] = s.blocks;
    line["zero_blocks"] = s.zero_blocks;
    line["dead_blocks"] = s.dead_blocks;
    line["clamped_blocks"] = s.clamped_blocks;
    line["amax_lowest"] = json_number(s.amax_lowest);
    line["amax_highest"] = json_number(s.amax_highest);
    line["scale_kind"] = what.recipe.rule == ScaleRule::fp32 ? "fp32" : "e8m0";
    line["distinct_scales"] = s.distinct_scales;
    line["scale_bytes"] = Json::object();
    for (std::size_t byte = 0; byte < s.scales.size(); ++byte) {
      if (s.scales[byte] != 0) line["scale_bytes"][std::to_string(byte)] = s.scales[byte];
    }
    json["recipes"].push_back(std::move(line));
  }
  return json;
}

Json to_json(const MatmulError& e) {
  return {{"sqnr_db", json_number(e.sqnr_db)},
          {"frobenius", json_number(e.frobenius)},
          {"max_over_rms", json_number(e.max_over_rms)}};
}

}  // namespace

std::string percent(double share) {
  if (share == 0) return "0 %";
  if (share < 1e-4) return "<0.01 %";
  if (share < 1 && share > 0.9999) return ">99.99 %";
  return share == 1 ? "100 %" : fmt::format("{:.2f} %", share * 100);
}

std::string figure(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.3g}", value); }

std::string decibels(double sqnr_db) {
  return std::isfinite(sqnr_db) ? fmt::format("{:.2f}", sqnr_db) : figure(sqnr_db);
}

std::string scale_range(const Study& study) {
  const auto used = [](std::uint64_t n) { return n != 0; };
  const auto first = std::find_if(study.scales.begin(), study.scales.end(), used) - study.scales.begin();
  const auto last = 255 - (std::find_if(study.scales.rbegin(), study.scales.rend(), used) - study.scales.rbegin());
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

std::string to_text(const RecipesReport& report, std::size_t top) {
  std::string out;
  for (const TensorReport& t : report.tensors) out += to_text(t, top);
  for (const MatmulReport& p : report.matmuls) out += to_text(p, top);
  if (report.findings.empty()) return out + "Findings: none\n";
  out += "Findings\n";
  const std::string* where = nullptr;
  for (const RecipeFinding& f : report.findings) {
    if (where == nullptr || *where != f.where) out += "  " + f.where + "\n";
    where = &f.where;
    out += "    " + f.text + "\n";
  }
  return out;
}

Json to_json(const RecipesReport& report) {
  Json json;
  json["tensors"] = Json::array();
  for (const TensorReport& t : report.tensors) json["tensors"].push_back(to_json(t));
  json["products"] = Json::array();
  for (const MatmulReport& p : report.matmuls) {
    Json item{{"activations", p.activations},
              {"weights", p.weights},
              {"weights_layout", p.layout == WeightsLayout::nk ? "nk" : "kn"},
              {"m", p.m},
              {"n", p.n},
              {"k", p.k},
              {"gamma", p.gamma},
              {"bf16", to_json(p.bf16)}};
    item["recipes"] = Json::array();
    for (const auto& [what, error] : p.lines) {
      Json line = ranked_json(item["recipes"].size() + 1, what);
      line.update(to_json(error));
      item["recipes"].push_back(std::move(line));
    }
    json["products"].push_back(std::move(item));
  }
  json["findings"] = Json::array();
  for (const RecipeFinding& f : report.findings) {
    json["findings"].push_back({{"where", f.where}, {"kind", f.kind}, {"text", f.text}});
  }
  return json;
}

namespace {

// Below these shares and distances there is no finding; docs/recipes.md repeats them.
constexpr double kErased = 0.01;      // of the finite nonzero elements
constexpr double kClamped = 0.1;      // of the blocks with data: then the clamp is named as the cause
constexpr double kSaturated = 0.001;  // of all elements
constexpr double kBehindDb = 3;       // below the best recipe of the same format, block and kind of scale

struct Remark {
  std::string kind, text;
};

std::string clamp_text(const StudyLine& line) {
  const Study& s = line.study;
  const double blocks = static_cast<double>(s.blocks - s.zero_blocks);
  if (static_cast<double>(s.clamped_blocks) < kClamped * blocks || s.clamped_blocks == 0) return "";
  const std::string clamp = decimal(line.what.recipe.amax_min);
  if (s.clamped_blocks == s.blocks - s.zero_blocks) return ": every block's amax lies below the clamp of " + clamp;
  return fmt::format(": {} of the blocks have an amax below the clamp of {}",
                     percent(static_cast<double>(s.clamped_blocks) / blocks), clamp);
}

bool same_place(const Combination& a, const Combination& b) { return a.format == b.format && a.block == b.block; }

// The norm's figure beside another recipe's.
const StudyLine* norm_of(const TensorReport& t, const StudyLine& line) {
  const auto found = std::find_if(t.lines.begin(), t.lines.end(), [&](const StudyLine& other) {
    return same_place(other.what, line.what) && other.what.recipe.name == "rceil";
  });
  return found == t.lines.end() ? nullptr : &*found;
}

bool has_fp32_scales(const StudyLine& line) { return line.what.recipe.rule == ScaleRule::fp32; }

double best_of(const TensorReport& t, const StudyLine& line) {
  double best = -INFINITY;
  for (const StudyLine& other : t.lines) {
    if (same_place(other.what, line.what) && has_fp32_scales(other) == has_fp32_scales(line))
      best = std::fmax(best, other.study.error.sqnr_db);
  }
  return best;
}

std::vector<Remark> remarks_of(const TensorReport& t, const StudyLine& line) {
  const Study& s = line.study;
  std::vector<Remark> remarks;
  const std::string clamp = clamp_text(line);
  if (s.zeroed_share >= kErased || !clamp.empty()) {
    remarks.push_back({s.zeroed_share >= kErased ? "erased" : "clamped",
                       percent(s.zeroed_share) + " of the nonzero elements become zero" + clamp});
  }
  if (s.dead_blocks != 0) {
    remarks.push_back({"dead_blocks", fmt::format("{} of {} blocks with data become all zero", s.dead_blocks,
                                                  s.blocks - s.zero_blocks)});
  }
  // A float scale that was rounded down leaves the block's largest element an ulp outside: counted, but nothing is
  // lost.
  if (s.error.saturated_share >= kSaturated && !has_fp32_scales(line)) {
    const StudyLine* norm = norm_of(t, line);
    std::string text = percent(s.error.saturated_share) + " of the elements saturate";
    if (norm != nullptr && norm != &line) {
      text += ", where rceil saturates " +
              (norm->study.error.saturated == 0 ? "none" : percent(norm->study.error.saturated_share));
    }
    remarks.push_back({"saturated", text});
  }
  const double behind = best_of(t, line) - s.error.sqnr_db;
  if (std::isfinite(behind) && behind >= kBehindDb) {
    remarks.push_back({"behind", fmt::format("{:.1f} dB below the best recipe with {} scales", behind,
                                             has_fp32_scales(line) ? "FP32" : "E8M0")});
  }
  const ErrorMeasures& e = s.error;
  if (e.nan_introduced + e.nan_lost + e.infinity_lost != 0) {
    remarks.push_back(
        {"not_finite", fmt::format("{} numbers become NaN, {} NaN become numbers, {} infinities are lost: "
                                   "no error can be stated",
                                   e.nan_introduced, e.nan_lost, e.infinity_lost)});
  }
  return remarks;
}

// Recipes that do the same share one sentence.
void add_lines(std::vector<RecipeFinding>& out, const TensorReport& t) {
  struct Group {
    Remark remark;
    Combination what;
    std::string recipes;
  };
  std::vector<Group> groups;
  for (const StudyLine& line : t.lines) {
    for (const Remark& remark : remarks_of(t, line)) {
      const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
        return same_place(g.what, line.what) && g.remark.kind == remark.kind && g.remark.text == remark.text;
      });
      if (found == groups.end()) {
        groups.push_back({remark, line.what, line.what.recipe.name});
      } else {
        found->recipes += ", " + line.what.recipe.name;
      }
    }
  }
  for (const char* kind : {"not_finite", "erased", "dead_blocks", "clamped", "saturated", "behind"}) {
    for (const Group& g : groups) {
      if (g.remark.kind != kind) continue;
      out.push_back(
          {t.name, kind,
           fmt::format("{} ({} {}): {}", g.recipes, spec(g.what.format).name, to_text(g.what.block), g.remark.text)});
    }
  }
}

}  // namespace

std::vector<RecipeFinding> findings_of(const RecipesReport& report) {
  std::vector<RecipeFinding> out;
  for (const TensorReport& t : report.tensors) {
    if (t.facts.nan + t.facts.infinite != 0) {
      out.push_back({t.name, "not_finite",
                     fmt::format("the tensor itself holds {} NaN and {} infinities", t.facts.nan, t.facts.infinite)});
    }
    if (t.facts.count == t.facts.zeros) out.push_back({t.name, "zero", "every element is zero"});
    if (t.dtype == Format::bf16) {
      out.push_back({t.name, "bf16", "the tensor is BF16 already: rounding to BF16 changes nothing"});
    }
    add_lines(out, t);
  }
  for (const MatmulReport& p : report.matmuls) {
    for (const MatmulLine& line : p.lines) {
      if (!(line.error.frobenius <= kErased * 10)) {  // NaN too
        out.push_back(
            {p.activations + " x " + p.weights, "product",
             fmt::format("{} ({} {}): the product is off by {} of its own norm", line.what.recipe.name,
                         spec(line.what.format).name, to_text(line.what.block), percent(line.error.frobenius))});
      }
    }
  }
  return out;
}

// The report as one XHTML-compatible page: inline SVG and CSS, no script, nothing fetched. Every plot has its figures
// in a table beside it.

namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1c2330; --muted: #5b6473; --line: #d9dee6; --bar: #2f6fb5;
  --soft: #f3f6fa; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181f; --fg: #e6eaf0; --muted: #a0a9b8; --line: #333b48;
  --bar: #6fa8e8; --soft: #1c222c; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 74rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; } .muted { color: var(--muted); }
.findings { background: var(--soft); border-left: 4px solid var(--bad); padding: .75rem 1rem; }
.findings h3 { margin: .75rem 0 .25rem; } .findings ul { margin: 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: .25rem 0; }
table { font-size: 13.5px; } th, td { padding: .25rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } thead th { white-space: normal; vertical-align: bottom; } .name { text-align: left; } tr.base { background: var(--soft); }
td.bad { color: var(--bad); font-weight: 600; }
svg { display: block; } svg text { fill: var(--fg); font: 12px system-ui, sans-serif; }
svg .small { fill: var(--muted); font-size: 11px; } svg rect { fill: var(--bar); } svg rect.bad { fill: var(--bad); }
svg line { stroke: var(--line); }
.chart { min-width: 34rem; max-width: 52rem; width: 100%; height: auto; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: 1rem; }
.grid figure { margin: 0; padding: .75rem; border: 1px solid var(--line); border-radius: 6px; min-width: 0; }
.grid svg { width: 100%; height: auto; } figcaption { font-size: 13px; margin-bottom: .5rem; overflow-wrap: anywhere; }
details { font-size: 13px; } summary { cursor: pointer; color: var(--muted); }
)";

// Names come from users: the five characters of markup are escaped, and bytes that are no UTF-8 are replaced.
std::string escape(const std::string& text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string label(const Combination& what) {
  return fmt::format("{} {} {}", what.recipe.name, spec(what.format).name, to_text(what.block));
}

struct Bar {
  std::string label;
  double value = 0;
  std::string text;
};

Bar sqnr_bar(const std::string& label, double sqnr_db) { return {label, sqnr_db, decibels(sqnr_db)}; }

// Horizontal bars; what is not a positive number has its figure alone.
std::string chart(const std::vector<Bar>& bars, const std::string& title, const std::string& unit, bool bad = false) {
  constexpr double kLeft = 230, kWidth = 420, kStep = 22;
  double largest = 1;
  for (const Bar& bar : bars) {
    if (std::isfinite(bar.value)) largest = std::max(largest, bar.value);
  }
  const double height = kStep * static_cast<double>(bars.size()) + 30;
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><svg class=\"chart\" role=\"img\" "
      "aria-label=\"{0}\" viewBox=\"0 0 720 {1:.0f}\"><title>{0}</title>\n",
      title, height);
  const double tick = largest > 60 ? 20 : largest > 12 ? 10 : 5;
  for (double at = 0; at <= largest; at += tick) {
    const double x = kLeft + kWidth * at / largest;
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"0\" x2=\"{0:.1f}\" y2=\"{1:.0f}\"/><text class=\"small\" "
        "text-anchor=\"middle\" x=\"{0:.1f}\" y=\"{2:.0f}\">{3:.0f} {4}</text>\n",
        x, height - 26, height - 10, at, unit);
  }
  double y = 2;
  for (const Bar& bar : bars) {
    const bool drawn = std::isfinite(bar.value) && bar.value > 0;
    const double width = drawn ? kWidth * bar.value / largest : 0;
    out += fmt::format("<text text-anchor=\"end\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", kLeft - 8, y + 13, bar.label);
    if (drawn) {
      out += fmt::format("<rect{} x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\" rx=\"2\"/>",
                         bad ? " class=\"bad\"" : "", kLeft, y, width);
    }
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kLeft + width + 6, y + 13, escape(bar.text));
    y += kStep;
  }
  return out + "</svg></div>\n";
}

std::string cell(const std::string& text, bool bad = false) {
  return (bad ? "<td class=\"bad\">" : "<td>") + escape(text) + "</td>";
}

std::string head(const std::vector<std::string>& names) {
  std::string out = "<thead><tr>";
  for (const std::string& name : names) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", name == "recipe" ? " class=\"name\"" : "", name);
  }
  return out + "</tr></thead>\n";
}

std::string tensor_table(const TensorReport& t) {
  std::string out =
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"figures\"><table><caption>"
      "Relative errors are of single elements. Zeroed: of the nonzero elements. Dead: blocks of which "
      "nothing is left.</caption>" +
      head({"rank", "recipe", "format", "block", "SQNR dB", "median error", "largest error", "zeroed", "saturated",
            "dead blocks", "zero blocks", "lowest amax", "highest amax", "scales", "bytes"}) +
      "<tbody>\n";
  out += fmt::format(
      "<tr class=\"base\"><td>-</td><th scope=\"row\" class=\"name\">bf16</th><td>bf16</td><td>-</td>"
      "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>{}</tr>\n",
      decibels(t.bf16.sqnr_db), figure(t.bf16.median_relative), figure(t.bf16.max_relative), t.bf16.flushed,
      t.bf16.saturated, "<td>-</td><td>-</td><td>-</td><td>-</td><td>-</td><td>-</td>");
  std::size_t rank = 0;
  for (const auto& [what, s] : t.lines) {
    out += fmt::format("<tr><td>{}</td><th scope=\"row\" class=\"name\">{}</th>", ++rank, what.recipe.name);
    out += cell(std::string(spec(what.format).name)) + cell(to_text(what.block));
    out += cell(decibels(s.error.sqnr_db)) + cell(figure(s.error.median_relative)) + cell(figure(s.error.max_relative));
    out += cell(percent(s.zeroed_share), s.zeroed_share >= 0.01);
    out +=
        cell(percent(s.error.saturated_share), s.error.saturated_share >= 0.001 && what.recipe.rule != ScaleRule::fp32);
    out += cell(std::to_string(s.dead_blocks), s.dead_blocks != 0) + cell(std::to_string(s.zero_blocks));
    out += cell(figure(s.amax_lowest)) + cell(figure(s.amax_highest));
    out += cell(std::to_string(s.distinct_scales)) + cell(scale_range(s)) + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

struct Histogram {
  std::string names;
  const Study* study;
  bool fp32;
};

std::string histogram_figure(const Histogram& h, int low, int high) {
  constexpr double kWidth = 320, kHeight = 110;
  const std::uint64_t most = *std::max_element(h.study->scales.begin(), h.study->scales.end());
  const double step = kWidth / (high - low + 1);
  std::string out = fmt::format(
      "<figure><figcaption>{0}</figcaption><svg role=\"img\" aria-label=\"Scales of {0}\" viewBox=\"0 0 {1:.0f} "
      "{2:.0f}\"><title>Scales of {0}</title><line x1=\"0\" y1=\"{3:.0f}\" x2=\"{1:.0f}\" y2=\"{3:.0f}\"/>",
      h.names, kWidth, kHeight + 20, kHeight);
  std::string rows;
  for (int byte = low; byte <= high; ++byte) {
    const std::uint64_t count = h.study->scales[static_cast<std::size_t>(byte)];
    if (count == 0) continue;
    const double height = std::max(1.0, (kHeight - 6) * static_cast<double>(count) / static_cast<double>(most));
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>byte {}: {} blocks"
        "</title></rect>",
        step * (byte - low) + step * 0.1, kHeight - height, step * 0.8, height, byte, count);
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>", byte, count);
  }
  out += fmt::format(
      "<text class=\"small\" x=\"0\" y=\"{0:.0f}\">{1}</text><text class=\"small\" "
      "text-anchor=\"end\" x=\"{2:.0f}\" y=\"{0:.0f}\">{3}</text></svg>\n",
      kHeight + 15, low, kWidth, high);
  return out +
         fmt::format("<details><summary>Counts{}</summary><table>{}<tbody>{}</tbody></table></details></figure>\n",
                     h.fp32 ? " (FP32 scales by exponent field)" : "", head({"byte", "blocks"}), rows);
}

// One plot for all recipes that write the same numbers of each byte; one axis for all, so that they compare.
std::string histograms(const TensorReport& t) {
  std::vector<Histogram> groups;
  int low = 255, high = 0;
  for (const StudyLine& line : t.lines) {
    const bool fp32 = line.what.recipe.rule == ScaleRule::fp32;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Histogram& h) {
      return h.study->scales == line.study.scales && h.fp32 == fp32;
    });
    for (int byte = 0; byte < 256; ++byte) {
      if (line.study.scales[static_cast<std::size_t>(byte)] == 0) continue;
      low = std::min(low, byte);
      high = std::max(high, byte);
    }
    if (found != groups.end()) {
      found->names += ", " + label(line.what);
    } else {
      groups.push_back({label(line.what), &line.study, fp32});
    }
  }
  std::string out =
      "<h3>Scale bytes</h3><p class=\"muted\">Blocks by scale byte; the scale is 2^(byte - 127). Recipes "
      "with equal counts share a plot, and all plots share an axis.</p><div class=\"grid\">\n";
  for (const Histogram& h : groups) out += histogram_figure(h, low, high);
  return out + "</div>\n";
}

// SQNR is decided by the largest elements, and does not show what happens to the others.
std::string zeroed_chart(const TensorReport& t) {
  std::vector<Bar> bars;
  for (const auto& [what, s] : t.lines) {
    if (s.zeroed_share >= 0.01) bars.push_back({label(what), s.zeroed_share * 100, percent(s.zeroed_share)});
  }
  if (bars.empty()) return "";
  return "<h3>Nonzero elements that become zero: recipes that lose 1 % or more</h3>\n" +
         chart(bars, "Elements lost by recipe", "%", true);
}

std::string tensor_section(const TensorReport& t) {
  std::vector<Bar> bars{sqnr_bar("bf16", t.bf16.sqnr_db)};
  for (const StudyLine& line : t.lines) bars.push_back(sqnr_bar(label(line.what), line.study.error.sqnr_db));
  return fmt::format(
             "<section><h2>{}</h2><p class=\"muted\">{} x {} {}; {} zeros, {} NaN, {} infinities; magnitudes "
             "{} to {}</p>\n",
             escape(t.name), t.rows, t.cols, spec(t.dtype).name, t.facts.zeros, t.facts.nan, t.facts.infinite,
             figure(t.facts.smallest), figure(t.facts.largest)) +
         "<h3>Signal to quantization noise: longer is better</h3>\n" + chart(bars, "SQNR by recipe", "dB") +
         zeroed_chart(t) + "<h3>Figures</h3>\n" + tensor_table(t) + histograms(t) + "</section>\n";
}

std::string matmul_section(const MatmulReport& p) {
  std::vector<Bar> bars{sqnr_bar("bf16", p.bf16.sqnr_db)};
  for (const MatmulLine& line : p.lines) bars.push_back(sqnr_bar(label(line.what), line.error.sqnr_db));
  std::string out = fmt::format(
      "<section><h2>{} x {}</h2><p class=\"muted\">Product with M = {}, N = {}, K = {}; both "
      "operands quantized along K, against the exact product</p>\n",
      escape(p.activations), escape(p.weights), p.m, p.n, p.k);
  out += chart(bars, "SQNR of the product by recipe", "dB");
  out +=
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"figures of the product\"><table><caption>"
      "Norm: Frobenius norm of the error by that of the product</caption>" +
      head({"rank", "recipe", "format", "block", "SQNR dB", "norm", "largest / rms"}) + "<tbody>\n";
  const auto row = [](const std::string& rank, const std::string& name, const std::string& format,
                      const std::string& block, const MatmulError& e) {
    return fmt::format(
        "<tr><td>{}</td><th scope=\"row\" class=\"name\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}"
        "</td><td>{}</td></tr>\n",
        rank, name, format, block, decibels(e.sqnr_db), figure(e.frobenius), figure(e.max_over_rms));
  };
  out += row("-", "bf16", "bf16", "-", p.bf16);
  std::size_t rank = 0;
  for (const auto& [what, e] : p.lines) {
    out += row(std::to_string(++rank), what.recipe.name, std::string(spec(what.format).name), to_text(what.block), e);
  }
  return out + "</tbody></table></div></section>\n";
}

std::string findings_section(const std::vector<RecipeFinding>& findings) {
  if (findings.empty()) return "<p>No findings.</p>\n";
  std::string out = "<section class=\"findings\" aria-label=\"Findings\"><strong>Findings</strong>\n";
  const std::string* where = nullptr;
  for (const RecipeFinding& f : findings) {
    if (where == nullptr || *where != f.where) {
      out += (where == nullptr ? "<h3>" : "</ul><h3>") + escape(f.where) + "</h3><ul>\n";
    }
    where = &f.where;
    out += "<li>" + escape(f.text) + "</li>\n";
  }
  return out + "</ul></section>\n";
}

}  // namespace

std::string to_page(const RecipesReport& report) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/><title>Quantization recipes</title>\n<style>" +
      std::string(kStyle) + "</style></head>\n<body><main><h1>Quantization recipes</h1>\n" +
      findings_section(report.findings);
  for (const TensorReport& t : report.tensors) out += tensor_section(t);
  for (const MatmulReport& p : report.matmuls) out += matmul_section(p);
  return out + "</main></body></html>\n";
}

}  // namespace mxcheck
