#pragma once
// The pieces of mxcheck recipes: what was measured (recipes.cc), what it means in words (findings.cc), and how
// it is shown (report.cc on the terminal and as JSON, page.cc as a page).

#include <string>
#include <vector>

#include "reference/error/input_facts.h"
#include "reference/error/matmul_error.h"
#include "reference/error/study.h"
#include "tools/common/json.h"

namespace mxcheck {

struct Combination {
  Format format = Format::e4m3;
  BlockShape block;
  Recipe recipe;
};

struct StudyLine {
  Combination what;
  Study study;
};

struct TensorReport {
  std::string name;  // as the user gave it, unprintable characters replaced
  Format dtype = Format::bf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  InputFacts facts;
  ErrorMeasures bf16;
  std::vector<StudyLine> lines;  // ranked
};

struct MatmulLine {
  Combination what;  // block: that of the activations
  MatmulError error;
};

struct MatmulReport {
  std::string activations, weights;
  WeightsLayout layout = WeightsLayout::nk;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double gamma = 0;
  MatmulError bf16;
  std::vector<MatmulLine> lines;  // ranked by SQNR
};

// A sentence that follows from the figures by the thresholds of findings.cc.
struct RecipeFinding {
  std::string where;  // the tensor's name, or "A x W"
  std::string
      kind;  // "bf16", "zero", "not_finite", "erased", "dead_blocks", "clamped", "saturated", "behind", "product"
  std::string text;
};

struct RecipesReport {
  std::vector<TensorReport> tensors;
  std::vector<MatmulReport> matmuls;  // none or one
  std::vector<RecipeFinding> findings;
};

std::vector<RecipeFinding> findings_of(const RecipesReport& report);

// The first `top` lines of each table; 0 for all.
std::string to_text(const RecipesReport& report, std::size_t top);
Json to_json(const RecipesReport& report);
std::string to_page(const RecipesReport& report);

std::string percent(double share);            // "0 %", "<0.01 %", "3.12 %", ">99.99 %", "100 %"
std::string figure(double value);             // three significant digits
std::string decibels(double sqnr_db);         // "31.42", "inf"
std::string scale_range(const Study& study);  // "118-121": the lowest and the highest byte; "120" for one

}  // namespace mxcheck
