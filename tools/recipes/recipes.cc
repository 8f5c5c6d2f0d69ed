// mxcheck recipes: what each recipe does to a tensor, beside BF16, and to the product of two.

#include "tools/recipes/recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>

#include "goldens/io/atomic_file.h"
#include "goldens/make/embedded.h"
#include "numerics/error.h"
#include "reference/common/parallel.h"
#include "tools/common/json.h"
#include "tools/common/matrix_input.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/recipes/selection.h"
#include "tools/recipes/tensor_study.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMemory = std::int64_t{8} << 30;  // what the products of several recipes at once may take
constexpr std::int64_t kBytesOfAnElement = 32;           // in one product: codes, values as doubles, the result

struct Options {
  std::vector<std::string> inputs;
  RecipeSelection selection;
  std::vector<std::string> pair;
  std::string weights_layout = "nk";
  std::string against = "bf16";
  std::string sort = "sqnr";
  std::optional<std::int64_t> index;
  std::size_t top = 0;
  int threads = 0;
  std::string html;
  bool json = false;
};

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

std::string printable(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return name;
}

// Lower is better; NaN is last.
double rank_key(const std::string& sort, const Study& s) {
  const double key = sort == "median"      ? s.error.median_relative
                     : sort == "max"       ? s.error.max_relative
                     : sort == "zeroed"    ? s.zeroed_share
                     : sort == "saturated" ? s.error.saturated_share
                     : sort == "dead"      ? static_cast<double>(s.dead_blocks)
                                           : -s.error.sqnr_db;
  return std::isnan(key) ? INFINITY : key;
}

// Each combination on one thread, several at once: the order of the sums in a product does not depend on threads.
template <class Body>
void over_combinations(std::size_t count, std::int64_t work, int threads, Progress& progress, const std::string& what,
                       Body body) {
  std::atomic<std::size_t> next{0};
  const auto workers = std::min<std::int64_t>(
      thread_count(threads),
      std::max<std::int64_t>(1, kMemory / (kBytesOfAnElement * std::max<std::int64_t>(1, work))));
  parallel_ranges(workers, work * static_cast<std::int64_t>(count), static_cast<int>(workers),
                  [&](std::int64_t, std::int64_t) {
                    for (std::size_t i = next++; i < count; i = next++) {
                      progress.now(fmt::format("{}: recipe {} of {}", what, i + 1, count));
                      body(i);
                    }
                  });
}

TensorReport ranked_report(const Options& o, const std::string& location, const std::vector<Combination>& all,
                           Progress& progress) {
  progress.now("reading " + printable(location));
  TensorReport report = study_tensor({location, o.index, ""}, all, o.threads, progress);
  report.name = printable(location);
  std::stable_sort(report.lines.begin(), report.lines.end(), [&](const StudyLine& a, const StudyLine& b) {
    return rank_key(o.sort, a.study) < rank_key(o.sort, b.study);
  });
  return report;
}

MatmulReport study_matmul(const Options& o, const std::vector<Combination>& all, Progress& progress) {
  MatmulReport report;
  report.activations = printable(o.pair[0]);
  report.weights = printable(o.pair[1]);
  report.layout = o.weights_layout == "nk" ? WeightsLayout::nk : WeightsLayout::kn;
  progress.now("reading " + report.activations);
  const Tensor x = tensor_at(o.pair[0]);
  const Tensor w = tensor_at(o.pair[1]);
  const auto index_of = [&](const Tensor& t) { return t.shape.size() == 3 ? o.index : std::nullopt; };
  const MatrixView x_view = matrix_of({o.pair[0], index_of(x), ""}, x);
  const MatrixView w_view = matrix_of({o.pair[1], index_of(w), ""}, w);
  in_place(o.pair[0] + " and " + o.pair[1], [&] {
    progress.now("the exact product");
    const MatmulErrorMeter product(x_view, w_view, report.layout);
    report.m = product.m();
    report.n = product.n();
    report.k = product.k();
    report.gamma = product.gamma();
    report.bf16 = product.error_of_bf16();
    report.lines.resize(all.size());
    const std::int64_t work = report.m * report.k + report.n * report.k + report.m * report.n;
    over_combinations(all.size(), work, o.threads, progress, "product", [&](std::size_t i) {
      report.lines[i] = {all[i], product.error(all[i].format, all[i].block, all[i].recipe)};
    });
  });
  const auto key = [](const MatmulLine& l) { return std::isnan(l.error.sqnr_db) ? -INFINITY : l.error.sqnr_db; };
  std::stable_sort(report.lines.begin(), report.lines.end(),
                   [&](const MatmulLine& a, const MatmulLine& b) { return key(a) > key(b); });
  return report;
}

int run(const Options& o) {
  const std::vector<Combination> all = combinations(o.selection);
  const std::vector<std::string> inputs = expanded(o.inputs);
  if (inputs.empty() && o.pair.empty()) refuse("no tensor given: name files, real:NAME, or --pair ACTIVATIONS WEIGHTS");
  if (!o.pair.empty() && o.selection.direction != "row")
    refuse("--pair takes blocks along K; --direction is for tensors alone");
  const bool is_html = o.html.ends_with(".html") || o.html.ends_with(".htm");
  if (!o.html.empty() && !is_html) refuse("--html " + o.html + ": name the page FILE.html");
  // Opened first: a path that cannot be written is known before the work, and nothing is there until commit.
  std::optional<AtomicFile> page;
  if (!o.html.empty()) page.emplace(o.html);

  RecipesReport report;
  std::optional<Progress> progress(std::in_place, "starting");
  for (const std::string& input : inputs) report.tensors.push_back(ranked_report(o, input, all, *progress));
  if (!o.pair.empty()) report.matmuls.push_back(study_matmul(o, all, *progress));
  report.findings = findings_of(report);
  progress.reset();
  const std::string answer = o.json ? to_text(to_json(report)) + "\n" : to_text(report, o.top);
  if (!page) {
    print(answer);
    return 0;
  }
  page->write(to_page(report));
  page->commit([&] { print_at_once(answer); });
  return 0;
}

}  // namespace

void add_recipes(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("recipes", "Compare quantization recipes on tensors, next to BF16");
  sub.option("IN", o->inputs,
             "FILE.npy, FILE.safetensors:TENSOR, FILE.h5:/DATASET, or real:NAME for an embedded tensor (real:*.dO)");
  sub.option("--against", o->against, "What the recipes are compared with").one_of({"bf16"}).shows_default();
  sub.option("--format", o->selection.formats, "Formats of the elements, separated by commas")
      .comma_separated()
      .shows_default();
  sub.option("--block", o->selection.blocks, "Block shapes, separated by commas: 1x32, 1x128, 32x32, 128x128, row")
      .comma_separated()
      .shows_default();
  sub.option("--direction", o->selection.direction, "Blocks as given (row), turned (col: 1x32 becomes 32x1), or both")
      .one_of({"row", "col", "both"})
      .shows_default();
  sub.option("--recipe", o->selection.recipes,
             std::string("Recipes, separated by commas, with * and ?; all for every one. Default: ") + kDefaultRecipes)
      .comma_separated();
  sub.option("--pair", o->pair, "ACTIVATIONS WEIGHTS: the error of their product; activations are M x K").exactly(2);
  sub.option("--weights-layout", o->weights_layout, "Weights are N x K (nk: Y = X W^T) or K x N (kn: Y = X W)")
      .one_of({"nk", "kn"})
      .shows_default();
  sub.option("--index", o->index, "Which matrix of a tensor with three dimensions");
  sub.option("--sort", o->sort, "What the table is ranked by")
      .one_of({"sqnr", "median", "max", "zeroed", "saturated", "dead"})
      .shows_default();
  sub.option("--top", o->top, "Print the first N lines of each table; 0 for all").shows_default();
  sub.option("--threads", o->threads, "Threads; 0 for the machine's. Changes nothing but the time")
      .between(0, 1024)
      .shows_default();
  sub.option("--html", o->html, "Also write FILE.html: one page with plots that needs nothing else").not_empty();
  sub.flag("--json", o->json, "Print JSON; NaN and infinities are strings");
  sub.footer(
      "docs/recipes.md says what each column means and when a finding is stated.\n\n"
      "Examples:\n"
      "  mxcheck recipes real:layer0.dO                      gradients that a clamp of 1e-4 erases\n"
      "  mxcheck recipes x.npy --recipe all --html x.html    every recipe, and a page\n"
      "  mxcheck recipes g.safetensors:dw --recipe 'deepgemm*,rceil' --direction both --sort zeroed\n"
      "  mxcheck recipes --pair x.npy w.npy --block 1x128 --format e4m3");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
