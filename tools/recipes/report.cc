#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tools/common/output.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {
namespace {

constexpr const char* kRow = "{:>4}  {:<{}} {:<7} {:<8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}  {}\n";
constexpr const char* kMatmulRow = "{:>4}  {:<{}} {:<7} {:<8} {:>8} {:>10} {:>10}\n";

// Width of the column of names: 20, or the longest name's.
std::size_t name_width(const auto& lines) {
  std::size_t width = 20;
  for (const auto& line : lines) width = std::max(width, line.what.recipe.name.size());
  return width;
}

std::string to_text(const TensorReport& t, std::size_t top) {
  const std::size_t wide = name_width(t.lines);
  std::string out = fmt::format("{}: {} x {} {}, {} zeros, {} NaN, {} infinities, magnitudes {} to {}\n", t.name,
                                t.rows, t.cols, spec(t.dtype).name, t.facts.zeros, t.facts.nan, t.facts.infinite,
                                figure(t.facts.smallest), figure(t.facts.largest));
  out += fmt::format(kRow, "rank", "recipe", wide, "format", "block", "SQNR dB", "median", "max rel", "zeroed",
                     "saturated", "dead", "scales", "bytes");
  out += fmt::format(kRow, "-", "bf16", wide, "bf16", "-", decibels(t.bf16.sqnr_db), figure(t.bf16.median_relative),
                     figure(t.bf16.max_relative), t.bf16.flushed, t.bf16.saturated, "-", "-", "-");
  const std::size_t shown = top == 0 ? t.lines.size() : std::min(top, t.lines.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [what, s] = t.lines[i];
    out += fmt::format(kRow, i + 1, what.recipe.name, wide, spec(what.format).name, to_text(what.block),
                       decibels(s.error.sqnr_db), figure(s.error.median_relative), figure(s.error.max_relative),
                       percent(s.zeroed_share), percent(s.error.saturated_share), s.dead_blocks, s.distinct_scales,
                       scale_range(s));
  }
  if (shown < t.lines.size()) out += fmt::format("      ... {} more\n", t.lines.size() - shown);
  return out + "\n";
}

std::string to_text(const MatmulReport& p, std::size_t top) {
  const std::size_t wide = name_width(p.lines);
  std::string out = fmt::format("{} x {}: {} x {} x {} (M x N x K), weights {}\n", p.activations, p.weights, p.m, p.n,
                                p.k, p.layout == WeightsLayout::nk ? "nk" : "kn");
  out += fmt::format(kMatmulRow, "rank", "recipe", wide, "format", "block", "SQNR dB", "norm", "max/rms");
  out += fmt::format(kMatmulRow, "-", "bf16", wide, "bf16", "-", decibels(p.bf16.sqnr_db), figure(p.bf16.frobenius),
                     figure(p.bf16.max_over_rms));
  const std::size_t shown = top == 0 ? p.lines.size() : std::min(top, p.lines.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [what, e] = p.lines[i];
    out += fmt::format(kMatmulRow, i + 1, what.recipe.name, wide, spec(what.format).name, to_text(what.block),
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
    line["scale_kind"] = spec(what.recipe.scale_format()).name;
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

std::string scale_kind(const Recipe& recipe) {
  const Format scales = recipe.scale_format();
  return scales == Format::fp32 ? "FP32" : scales == Format::e4m3 ? "E4M3" : "E8M0";
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
  return choices_of(report).empty() ? out + why_no_choice(report) + "\n" : out;
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
constexpr double kProduct = 0.1;      // of the product's norm
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

bool same_scales(const Combination& a, const Combination& b) {
  return a.recipe.scale_format() == b.recipe.scale_format();
}

double best_of(const TensorReport& t, const StudyLine& line) {
  double best = -INFINITY;
  for (const StudyLine& other : t.lines) {
    if (same_place(other.what, line.what) && same_scales(other.what, line.what))
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
  // A scale in FP32 or E4M3 that was rounded down leaves the block's largest element an ulp outside: counted, but
  // nothing is lost.
  if (s.error.saturated_share >= kSaturated && line.what.recipe.has_e8m0_scales()) {
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
                                             scale_kind(line.what.recipe))});
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

// A tensor's or a product's figure of a recipe.
struct Scored {
  Combination what;
  double sqnr_db;
  bool noteworthy;
};

std::vector<std::vector<Scored>> scores_of(const RecipesReport& report) {
  std::vector<std::vector<Scored>> places;
  for (const TensorReport& t : report.tensors) {
    std::vector<Scored>& place = places.emplace_back();
    for (const StudyLine& line : t.lines) {
      const std::vector<std::string> kinds = finding_kinds(t, line);
      place.push_back({line.what, line.study.error.sqnr_db,
                       std::ranges::any_of(kinds, [](const std::string& kind) { return kind != "behind"; })});
    }
  }
  for (const MatmulReport& p : report.matmuls) {
    std::vector<Scored>& place = places.emplace_back();
    for (const MatmulLine& line : p.lines)
      place.push_back({line.what, line.error.sqnr_db, !(line.error.frobenius <= kProduct)});
  }
  return places;
}

bool is_all_zero(const RecipesReport& report) {
  const auto is_zero = [](const TensorReport& t) { return t.facts.count == t.facts.zeros; };
  return !report.tensors.empty() && std::ranges::all_of(report.tensors, is_zero);
}

// Bits of an element, its share of the block's scale among them.
double bits_of(const Combination& what, std::int64_t rows, std::int64_t cols) {
  const auto block = static_cast<double>(what.block.height(rows) * what.block.width(cols));
  return spec(what.format).bits + spec(what.recipe.scale_format()).bits / block;
}

// By the figure that is shown; a norm beside others of the same.
bool is_better(const Scored& one, const Scored& than) {
  if (decibels(one.sqnr_db) != decibels(than.sqnr_db)) return one.sqnr_db > than.sqnr_db;
  const bool is_norm = one.what.recipe.name == "rceil" || one.what.recipe.name == "nvfp4";
  return is_norm && same_place(one.what, than.what);
}

// The cost of two levels of scales: the best such recipe beside the best one with E8M0 scales of every format and block
// (with FP32 scales, where none has E8M0). Of equal figures the norm has the word. Nothing where there is only one
// kind.
std::string cost_text(const std::vector<Scored>& place, std::int64_t rows, std::int64_t cols) {
  const bool has_e8m0 = std::ranges::any_of(place, [](const Scored& s) { return s.what.recipe.has_e8m0_scales(); });
  std::vector<const Scored*> best;  // first that of two levels
  for (const Scored& one : place) {
    const bool is_left_out = has_e8m0 && one.what.recipe.scale_format() == Format::fp32;
    if (is_left_out || !std::isfinite(one.sqnr_db)) continue;
    const auto found = std::ranges::find_if(best, [&](const Scored* other) {
      const bool two = one.what.recipe.has_two_levels();
      return two == other->what.recipe.has_two_levels() && (two || same_place(other->what, one.what));
    });
    if (found == best.end()) {
      best.push_back(&one);
    } else if (is_better(one, **found)) {
      *found = &one;
    }
  }
  const auto two = std::ranges::find_if(best, [](const Scored* one) { return one->what.recipe.has_two_levels(); });
  if (two == best.end() || best.size() == 1) return "";
  std::rotate(best.begin(), two, two + 1);
  return join(best, "; ", [&](const Scored* one) {
    return fmt::format("{} ({} {}): {} dB with {:.4g} bits{}", one->what.recipe.name, spec(one->what.format).name,
                       to_text(one->what.block), decibels(one->sqnr_db), bits_of(one->what, rows, cols),
                       one == best.front() ? " an element" : "");
  });
}

void add_cost(std::vector<RecipeFinding>& out, const std::string& where, const std::string& text) {
  if (!text.empty()) out.push_back({where, "cost", text});
}

// A recipe over all places: nothing where a finding is about it.
struct Standing {
  RecipeChoice choice;
  std::vector<std::string> figures;
  double distance = 0;
};

std::optional<Standing> standing_of(const std::vector<std::vector<Scored>>& places, const Combination& what) {
  Standing s{{what, "", {}}, {}, 0};
  double lowest = INFINITY;
  for (const std::vector<Scored>& place : places) {
    double best = -INFINITY;
    const Scored* own = nullptr;
    for (const Scored& other : place) {
      if (same_scales(other.what, what)) best = std::fmax(best, other.sqnr_db);
      if (same_place(other.what, what) && other.what.recipe.name == what.recipe.name) own = &other;
    }
    if (own == nullptr || own->noteworthy || std::isnan(own->sqnr_db)) return std::nullopt;
    s.figures.push_back(decibels(own->sqnr_db));
    const double behind = best - own->sqnr_db;
    s.distance = std::max(s.distance, std::isfinite(behind) ? behind : 0);
    lowest = std::fmin(lowest, own->sqnr_db);
  }
  s.choice.sqnr = decibels(lowest);
  return s;
}

}  // namespace

std::vector<std::string> finding_kinds(const TensorReport& t, const StudyLine& line) {
  std::vector<std::string> kinds;
  for (const Remark& remark : remarks_of(t, line)) kinds.push_back(remark.kind);
  return kinds;
}

std::vector<RecipeChoice> choices_of(const RecipesReport& report) {
  if (is_all_zero(report)) return {};  // every recipe is exact
  const std::vector<std::vector<Scored>> places = scores_of(report);
  std::vector<RecipeChoice> choices;
  for (const Format scales : {Format::fp32, Format::e8m0, Format::e4m3}) {
    std::optional<Standing> best;
    for (const Scored& one : places.empty() ? std::vector<Scored>{} : places.front()) {
      if (one.what.recipe.scale_format() != scales) continue;
      std::optional<Standing> s = standing_of(places, one.what);
      if (!s) continue;
      if (best && same_place(best->choice.what, one.what) && best->figures == s->figures) {
        best->choice.equal.push_back(one.what.recipe.name);
      } else if (!best || s->distance < best->distance) {
        best = std::move(s);
      }
    }
    if (best) choices.push_back(best->choice);
  }
  return choices;
}

std::string why_no_choice(const RecipesReport& report) {
  const std::string none = "No recipe can be recommended: ";
  if (is_all_zero(report))
    return none + "every element is zero, every recipe gives zeros back, and none is better than another.";
  for (const TensorReport& t : report.tensors) {
    if (t.facts.nan + t.facts.infinite == 0) continue;
    return fmt::format(
        "{}{} holds {} NaN and {} infinities, and no recipe keeps them and all numbers beside them. The findings say "
        "what each recipe makes of them; without them there is an error to compare.",
        none, t.name, t.facts.nan, t.facts.infinite);
  }
  return none + "a finding is about every one of them. See which of the findings matters to you.";
}

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
    add_cost(out, t.name, cost_text(scores_of({{t}, {}, {}}).front(), t.rows, t.cols));
  }
  for (const MatmulReport& p : report.matmuls) {
    add_cost(out, p.activations + " x " + p.weights, cost_text(scores_of({{}, {p}, {}}).front(), p.m, p.k));
    for (const MatmulLine& line : p.lines) {
      if (!(line.error.frobenius <= kProduct)) {  // NaN too
        out.push_back(
            {p.activations + " x " + p.weights, "product",
             fmt::format("{} ({} {}): the product is off by {} of its own norm", line.what.recipe.name,
                         spec(line.what.format).name, to_text(line.what.block), percent(line.error.frobenius))});
      }
    }
  }
  return out;
}

}  // namespace mxcheck
