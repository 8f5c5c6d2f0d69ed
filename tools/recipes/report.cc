#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

}  // namespace mxcheck
