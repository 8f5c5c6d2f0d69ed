// mxcheck recipes: what each recipe does to a tensor, beside BF16, and to the product of two.

#include "tools/recipes/recipes.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "goldens/data/embedded.h"
#include "goldens/format/quantized_file.h"
#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "reference/common/parallel.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"
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
                      progress.now(fmt::format("{}: recipe {} of {}", what, i + 1, count),
                                   static_cast<double>(i) / static_cast<double>(count));
                      body(i);
                    }
                  });
}

// The part of the run that each tensor is, by its elements. One that cannot be read is refused when its turn comes.
std::vector<PartOfRun> parts_of_run(const Options& o, const std::vector<std::string>& inputs) {
  std::vector<double> sizes;
  double all = 0;
  for (const std::string& input : inputs) {
    try {
      const MatrixPanels matrix({input, o.index, ""});
      sizes.push_back(std::max(1.0, static_cast<double>(matrix.head().rows) * static_cast<double>(matrix.head().cols)));
    } catch (const Error&) {
      sizes.push_back(1);
    }
    all += sizes.back();
  }
  std::vector<PartOfRun> parts;
  double before = 0;
  for (const double size : sizes) parts.push_back({before / all, size / all}), before += size;
  return parts;
}

TensorReport ranked_report(const Options& o, const std::string& location, const std::vector<Combination>& all,
                           Progress& progress, PartOfRun part) {
  if (part.begin == 0) progress.now("reading " + printable(location));
  TensorReport report = study_tensor({location, o.index, ""}, all, o.threads, progress, part);
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
  if (inputs.empty() && o.pair.empty())
    refuse_usage("no tensor given: name files, real:NAME, or --pair ACTIVATIONS WEIGHTS");
  if (!o.pair.empty() && o.selection.direction != "row")
    refuse_usage("--pair takes blocks along K; --direction is for tensors alone");
  const bool is_html = o.html.ends_with(".html") || o.html.ends_with(".htm");
  if (!o.html.empty() && !is_html) refuse_usage("--html " + o.html + ": name the page FILE.html");
  // Opened first: a path that cannot be written is known before the work, and nothing is there until commit.
  std::optional<AtomicFile> page;
  if (!o.html.empty()) page.emplace(o.html);

  RecipesReport report;
  std::optional<Progress> progress(std::in_place, "starting");
  const std::vector<PartOfRun> parts = parts_of_run(o, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    report.tensors.push_back(ranked_report(o, inputs[i], all, *progress, parts[i]));
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
  sub.option("--format", o->selection.formats,
             std::string("Formats of the elements, separated by commas (default: ") + kDefaultFormats +
                 "); of recipes of two levels e2m1 alone")
      .completes(names_of(kQuantizedFormats))
      .comma_separated();
  sub.option("--block", o->selection.blocks,
             "Block shapes, separated by commas: 1x32, 1x128, 32x32, 128x128, row; of recipes of two levels 16x16, "
             "else 1x16")
      .completes(names_in(kBlockShapes))
      .comma_separated()
      .shows_default();
  sub.option("--direction", o->selection.direction, "Blocks as given (row), turned (col: 1x32 becomes 32x1), or both")
      .one_of({"row", "col", "both"})
      .shows_default();
  sub.option("--recipe,--rule", o->selection.recipes,
             std::string("Recipes, separated by commas, with * and ?; all for every one. Default: ") + kDefaultRecipes)
      .completes(recipe_names())
      .comma_separated();
  sub.option("--pair", o->pair, "ACTIVATIONS WEIGHTS: the error of their product; activations are M x K").exactly(2);
  sub.option("--weights-layout", o->weights_layout, "Weights are N x K (nk: Y = X W^T) or K x N (kn: Y = X W)")
      .one_of({"nk", "kn"})
      .shows_default();
  sub.option("--index", o->index, "Which matrix of a tensor with three dimensions");
  sub.option("--sort", o->sort, "What the table is ranked by")
      .one_of({"sqnr", "median", "max", "zeroed", "saturated", "dead"})
      .shows_default();
  sub.option("--top", o->top, "Print the first N lines of each table; 0 for all").between(0, 1 << 20).shows_default();
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
      "  mxcheck recipes x.npy --recipe 'rceil,nvfp4*'       what NVFP4 costs beside MXFP8\n"
      "  mxcheck recipes g.safetensors:dw --recipe 'deepgemm*,rceil' --direction both --sort zeroed\n"
      "  mxcheck recipes --pair x.npy w.npy --block 1x128 --format e4m3");
  sub.runs([o] { return run(*o); });
}

namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Recipes of one level of scales and of two.
std::vector<Recipe> every_recipe() {
  std::vector<Recipe> all(all_recipes().begin(), all_recipes().end());
  all.insert(all.end(), two_level_recipes().begin(), two_level_recipes().end());
  return all;
}

std::vector<Recipe> chosen_recipes(const RecipeSelection& o) {
  std::vector<std::string> patterns = o.recipes;
  if (patterns.empty()) {
    for (const std::string_view name : split(kDefaultRecipes, ',')) patterns.emplace_back(name);
  }
  std::vector<Recipe> out;
  const auto add = [&](const Recipe& recipe) {
    const auto same = [&](const Recipe& r) { return r.name == recipe.name; };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(recipe);
  };
  for (const std::string& pattern : patterns) {
    const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
    if (!is_glob && pattern != "all") {
      add(any_recipe_named(pattern));
      continue;
    }
    bool any = false;
    for (const Recipe& recipe : every_recipe()) {
      if (pattern != "all" && !matches(pattern, recipe.name)) continue;
      add(recipe);
      any = true;
    }
    if (!any) refuse_usage("--recipe '" + pattern + "' matches no recipe; mxcheck scale --list");
  }
  return out;
}

std::vector<BlockShape> chosen_blocks(const RecipeSelection& o) {
  std::vector<BlockShape> out;
  const auto add = [&](BlockShape shape) {
    if (std::find(out.begin(), out.end(), shape) == out.end()) out.push_back(shape);
  };
  for (const std::string& name : o.blocks) {
    const BlockShape shape = block_shape_named(name);
    if (o.direction != "col") add(shape);
    if (o.direction != "row") add(shape.transposed());
  }
  return out;
}

// Recipes of two levels of scales.
std::vector<BlockShape> blocks_of_16(const RecipeSelection& o, const std::vector<BlockShape>& blocks) {
  std::vector<BlockShape> out;
  for (const BlockShape block : blocks) {
    if (block == BlockShape{1, 16} || block == BlockShape{16, 1} || block == BlockShape{16, 16}) out.push_back(block);
  }
  if (!out.empty()) return out;
  RecipeSelection usual = o;
  usual.blocks = {"1x16"};
  return chosen_blocks(usual);
}

}  // namespace

std::vector<Combination> combinations(const RecipeSelection& o) {
  std::vector<Combination> out;
  const std::vector<Recipe> recipes = chosen_recipes(o);
  std::vector<Format> formats;
  const auto add = [&](std::string_view name) {
    const Format f = element_format_named(std::string(name));
    if (std::find(formats.begin(), formats.end(), f) == formats.end()) formats.push_back(f);
  };
  for (const std::string& name : o.formats) add(name);
  if (formats.empty()) {
    for (const std::string_view name : split(kDefaultFormats, ',')) add(name);
  }
  const std::vector<BlockShape> blocks = chosen_blocks(o);
  for (const Format format : formats) {
    for (const BlockShape block : blocks) {
      for (const Recipe& recipe : recipes) {
        if (!recipe.has_two_levels()) out.push_back({format, block, recipe});
      }
    }
  }
  const bool is_left_out = o.recipes.empty() && !o.formats.empty() && std::ranges::count(formats, Format::e2m1) == 0;
  if (is_left_out) return out;
  for (const BlockShape block : blocks_of_16(o, blocks)) {
    for (const Recipe& recipe : recipes) {
      if (recipe.has_two_levels()) out.push_back({Format::e2m1, block, recipe});
    }
  }
  return out;
}

std::vector<std::string> expanded(const std::vector<std::string>& inputs) {
  std::vector<std::string> out;
  for (const std::string& input : inputs) {
    if (!input.starts_with(kRealPrefix) || input.find_first_of("*?[") == std::string::npos) {
      out.push_back(input);
      continue;
    }
    const std::size_t before = out.size();
    for (const Tensor& t : real_tensors().tensors) {
      const std::string name = std::string(kRealPrefix) + t.name;
      if (matches(input, name)) out.push_back(name);
    }
    if (out.size() == before) refuse_usage("'" + input + "' matches no real tensor; 'real:*' takes all of them");
  }
  return out;
}

namespace {

constexpr std::int64_t kElements = 1 << 19;  // of a panel: what a core works on, within its caches

// Parts that threads finish in any order, taken in the order of their numbers.
template <class Part>
class InOrder {
 public:
  template <class Take>
  void add(std::size_t number, Part part, const Take& take) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(number, std::move(part));
    for (; !waiting_.empty() && waiting_.begin()->first == next_; ++next_) {
      take(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, Part> waiting_;
  std::size_t next_ = 0;
};

// One recipe on the tensor.
struct Line {
  Line(Format source, const Combination& what)
      : quantizer(source, what.format, what.block, what.recipe),
        meter(what.format, what.block, what.recipe),
        block(what.block),
        has_two_levels(what.recipe.has_two_levels()) {}

  void quantize_panel(const MatrixView& panel, QuantizedTensor& q) const {
    std::vector<std::int64_t> starts = block_row_starts(panel.rows, block.rows, {});
    for (std::int64_t& start : starts) start += panel.first_row;
    const auto number = static_cast<std::size_t>(panel.first_row / block.height(panel.rows));
    quantizer.quantize(panel, starts, number, {}, 1, q);
  }

  // The median of one panel is usually close to the tensor's.
  void expect_median_of(const MatrixView& panel, QuantizedTensor& q) {
    quantize_panel(panel, q);
    StudyMeter sample = meter;
    do {
      sample.add(sample.measure(panel, q));
    } while (!sample.finish_pass());
    meter.expect_median(sample.study().error.median_relative);
  }

  PanelQuantizer quantizer;
  StudyMeter meter;
  BlockShape block;
  bool has_two_levels;
  bool is_complete = false;
};

class TensorStudy {
 public:
  TensorStudy(const MatrixInput& input, const std::vector<Combination>& all, int threads, Progress& progress,
              PartOfRun part)
      : matrix_(input), head_(matrix_.head()), threads_(thread_count(threads)), progress_(progress), part_(part) {
    check_has_elements(head_.rows, head_.cols);
    std::int64_t height = 1;  // of which every panel but the last is a multiple
    for (const Combination& what : all) {
      lines_.emplace_back(head_.dtype, what);
      height = std::lcm(height, what.block.height(head_.rows));
    }
    panel_rows_ = std::max<std::int64_t>(1, kElements / head_.cols / height) * height;
    if (head_.dtype == Format::bf16) bf16_.expect_median(0);
  }

  void run() {
    find_magnitudes();
    for (int pass = 1;; ++pass) {
      one_pass(pass);
      if (finish_pass()) return;
      matrix_.rewind();
    }
  }

  void write_to(TensorReport& report) const {
    report.dtype = head_.dtype, report.rows = head_.rows, report.cols = head_.cols;
    report.facts = facts_;
    report.bf16 = bf16_.measures();
    for (std::size_t i = 0; i < lines_.size(); ++i) report.lines[i].study = lines_[i].meter.study();
  }

 private:
  // A pass of its own before all others: the scale of the tensor comes before those of its blocks.
  void find_magnitudes() {
    if (std::ranges::none_of(lines_, &Line::has_two_levels)) return;
    Magnitudes whole;
    std::vector<std::byte> buffer;
    for (std::int64_t row = 0; row < head_.rows; row += panel_rows_) {
      whole.add(
          magnitudes_of(matrix_.next(std::min(panel_rows_, head_.rows - row), buffer), static_cast<int>(threads_)));
      progress_.now(fmt::format("largest magnitude of {} x {}", head_.rows, head_.cols), part_.begin);
    }
    for (Line& line : lines_) {
      if (line.has_two_levels) line.quantizer.set_magnitudes(whole);
    }
    matrix_.rewind();
  }

  bool finish_pass() {
    bf16_is_complete_ = bf16_is_complete_ || bf16_.finish_pass();
    bool all = bf16_is_complete_;
    for (Line& line : lines_) {
      line.is_complete = line.is_complete || line.meter.finish_pass();
      all = all && line.is_complete;
    }
    return all;
  }

  void one_pass(int pass) {
    std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads_));
    for (std::int64_t row = 0; row < head_.rows;) {
      std::vector<MatrixView> panels;
      for (std::size_t i = 0; i < buffers.size() && row < head_.rows; ++i) {
        const std::int64_t rows = std::min(panel_rows_, head_.rows - row);
        panels.push_back(matrix_.next(rows, buffers[i]));
        row += rows;
      }
      if (pass == 1 && row > panel_rows_ && panels[0].first_row == 0) expect_medians(panels[0]);
      measure(panels);
      const double share = share_of_passes(pass, static_cast<double>(row) / static_cast<double>(head_.rows));
      progress_.now(fmt::format("pass {} over {} x {}", pass, head_.rows, head_.cols),
                    part_.begin + part_.width * share);
    }
  }

  void expect_medians(const MatrixView& panel) {
    const auto count = static_cast<std::int64_t>(lines_.size());
    parallel_ranges(count, count * kElements, static_cast<int>(threads_), [&](std::int64_t begin, std::int64_t end) {
      QuantizedTensor q;
      for (std::int64_t i = begin; i < end; ++i) lines_[static_cast<std::size_t>(i)].expect_median_of(panel, q);
    });
  }

  // Measures incomplete lines on some panels: each thread takes what is next, a recipe's panels one after the other.
  void measure(const std::vector<MatrixView>& panels) {
    std::vector<Line*> lines;
    for (Line& line : lines_) {
      if (!line.is_complete) lines.push_back(&line);
    }
    std::vector<InOrder<StudyMeter::Part>> parts(lines.size());
    InOrder<ErrorMeter::Part> bf16;
    InOrder<InputFacts> facts;
    const std::size_t count = (lines.size() + (bf16_is_complete_ ? 0 : 1)) * panels.size();
    std::atomic<std::size_t> next{0};
    const auto work = [&](std::int64_t, std::int64_t) {
      QuantizedTensor q;
      for (std::size_t i = next++; i < count; i = next++) {
        const std::size_t of = i / panels.size(), number = i % panels.size();
        const MatrixView& panel = panels[number];
        if (of == lines.size()) {
          if (bf16_.is_first_pass()) facts.add(number, input_facts(panel), [&](const auto& f) { facts_.add(f); });
          bf16.add(number, measure_bf16(bf16_, panel), [&](const auto& part) { bf16_.add(part); });
          continue;
        }
        Line& line = *lines[of];
        line.quantize_panel(panel, q);
        parts[of].add(number, line.meter.measure(panel, q), [&](const auto& part) { line.meter.add(part); });
      }
    };
    parallel_ranges(threads_, static_cast<std::int64_t>(count) * kElements, static_cast<int>(threads_), work);
  }

  MatrixPanels matrix_;
  MatrixHead head_;
  std::int64_t threads_;
  Progress& progress_;
  PartOfRun part_;
  std::vector<Line> lines_;
  std::int64_t panel_rows_ = 1;
  ErrorMeter bf16_;
  bool bf16_is_complete_ = false;
  InputFacts facts_;
};

}  // namespace

double share_of_passes(int pass, double share) {
  constexpr std::array kSeconds{1.0, 0.65, 0.15};  // of each pass, as measured for the default recipes
  double before = 0, all = 0;
  for (std::size_t i = 0; i < kSeconds.size(); ++i) {
    if (static_cast<int>(i) + 1 < pass) before += kSeconds[i];
    if (static_cast<int>(i) + 1 == pass) before += kSeconds[i] * share;
    all += kSeconds[i];
  }
  return before / all;
}

TensorReport study_tensor(const MatrixInput& input, const std::vector<Combination>& all, int threads,
                          Progress& progress, PartOfRun part) {
  TensorReport report;
  for (const Combination& what : all) report.lines.push_back({what, {}});
  in_place_of_input(input.location, input.location, [&] {
    TensorStudy study(input, all, threads, progress, part);
    study.run();
    study.write_to(report);
  });
  return report;
}

}  // namespace mxcheck
