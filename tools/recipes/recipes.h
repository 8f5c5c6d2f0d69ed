#pragma once
// The pieces of mxcheck recipes: what is compared and measured (recipes.cc), what it means in words and how it is shown
// on the terminal and as JSON (report.cc), and as a page (page.cc).

#include <string>
#include <vector>

#include "reference/error/input_facts.h"
#include "reference/error/matmul_error.h"
#include "reference/error/study.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"

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
  std::string kind;  // "bf16", "zero", "not_finite", "erased", "dead_blocks", "clamped", "saturated", "behind", "cost",
                     // "product"
  std::string text;
};

struct RecipesReport {
  std::vector<TensorReport> tensors;
  std::vector<MatmulReport> matmuls;  // none or one
  std::vector<RecipeFinding> findings;
};

std::vector<RecipeFinding> findings_of(const RecipesReport& report);
// The kinds of the findings that a line of a tensor gives.
std::vector<std::string> finding_kinds(const TensorReport& t, const StudyLine& line);

// The recipe to try first, one of each kind of scale. No finding is about it, except that another recipe is better
// somewhere. Its largest distance from the best SQNR, over all tensors and products, is the smallest.
struct RecipeChoice {
  Combination what;
  std::string sqnr;                // the lowest, in dB
  std::vector<std::string> equal;  // others of the same format and block with the same figures
};
std::vector<RecipeChoice> choices_of(const RecipesReport& report);  // FP32, E8M0, E4M3: at most three
// A sentence for a report without a choice: that there is none, and the reason.
std::string why_no_choice(const RecipesReport& report);

// The first `top` lines of each table; 0 for all.
std::string to_text(const RecipesReport& report, std::size_t top);
Json to_json(const RecipesReport& report);
std::string to_page(const RecipesReport& report);

std::string percent(double share);             // "0 %", "<0.01 %", "3.12 %", ">99.99 %", "100 %"
std::string figure(double value);              // three significant digits
std::string decibels(double sqnr_db);          // "31.42", "inf"
std::string scale_range(const Study& study);   // "118-121": the lowest and the highest byte; "120" for one
std::string scale_kind(const Recipe& recipe);  // "E8M0", "FP32", "E4M3" of two levels

// The comparison that mxcheck recipes makes: the product of formats, blocks and recipes, and the tensors, from what the
// command line names.

// One of each family that writes other bytes; docs/recipes.md lists them.
inline constexpr const char* kDefaultRecipes =
    "rceil,floor,ceil,even,fp32,deepgemm_host,deepgemm_fp32,dsv3,microxcaling_python,thunderkittens,nvfp4,nvfp4_46";
inline constexpr const char* kDefaultFormats = "e4m3,e5m2";

// Recipes of two levels of scales are measured in e2m1, in those of the blocks that have 16 rows or columns, else in
// 1x16. The default ones are left out where formats are named and e2m1 is none of them.
struct RecipeSelection {
  std::vector<std::string> formats;  // empty: the default ones
  std::vector<std::string> blocks{"1x32"};
  std::vector<std::string> recipes;  // names, globs and "all"; empty: the default ones
  std::string direction = "row";     // blocks as named; "col": turned; "both"
};

// Each once, by format, block and recipe, in the order in which they are named. Error{usage} for a name that is none,
// and for a glob that matches nothing.
std::vector<Combination> combinations(const RecipeSelection& selection);

// real:GLOB stands for each embedded tensor that matches; other inputs for themselves. Error{usage} when none does.
std::vector<std::string> expanded(const std::vector<std::string>& inputs);

// Studies every recipe on one tensor. Medians need two or three passes over it. It is read in panels, so that memory
// does not grow with it, except for blocks as high as the matrix. The report, its lines in the order of `all`. Threads
// (0: the machine's) change nothing but the time. Errors: those of reading, of study() and of PanelQuantizer, with the
// tensor's location; Error{input} for a file that changes meanwhile. part: of the whole run, for the share that is
// shown.
struct PartOfRun {
  double begin = 0, width = 1;
};
TensorReport study_tensor(const MatrixInput& input, const std::vector<Combination>& all, int threads,
                          Progress& progress, PartOfRun part = {});

// The share of a study that is done in pass 1, 2, 3 ... at this share of the pass. The second looks for medians alone,
// and the third for the few that it did not find.
double share_of_passes(int pass, double share);

}  // namespace mxcheck
