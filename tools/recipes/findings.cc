#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/common/text.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {
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

}  // namespace mxcheck
