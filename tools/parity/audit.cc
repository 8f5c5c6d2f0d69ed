// mxcheck parity audit: one step of a recorded run, computed again.

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/parity/parity.h"
#include "trainer/audit/audit.h"
#include "trainer/compare/comparison.h"
#include "trainer/config/config.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/run_file.h"
#include "trainer/report/report.h"
#include "trainer/run/branch.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

struct Options {
  std::string file, checkpoint, data, trunk;
  std::int64_t step = 0;
  int threads = 0;
  bool evaluates = false, json = false;
};

// The checkpoint that is given, or the nearest kept one at or before the step that lies beside the run; none: the
// initial state.
std::string checkpoint_for(const Options& o, const RunRecord& run) {
  if (!o.checkpoint.empty()) return o.checkpoint;
  std::string nearest;
  for (const std::int64_t step : run.plan.kept) {
    const std::string path = kept_checkpoint_of(o.file, step);
    if (step <= o.step && path_exists(path)) nearest = path;
  }
  return nearest;
}

std::string result_text(const Options& o, const RunRecord& run, const AuditResult& result, const std::string& from) {
  std::string text = fmt::format("{}: {}, step {}, computed from {}\n", o.file, run_title(run), o.step,
                                 !from.empty() ? from
                                 : run.branch  ? "its trunk " + run.branch->file
                                               : "the initial state");
  std::size_t width = 0, differ = 0;
  for (const AuditLine& line : result.lines) {
    width = std::max(width, line.what.size());
    differ += line.equal() ? 0 : 1;
  }
  for (const AuditLine& line : result.lines) {
    const std::string place = line.step == o.step ? "" : fmt::format("step {}: ", line.step);
    text += fmt::format("  {:<{}}  {}\n", place + line.what, width,
                        line.equal() ? line.recorded + "  equal"
                                     : fmt::format("recorded {}, computed {}  DIFFERS", line.recorded, line.computed));
  }
  if (!result.has_witness) text += "  no digests of tensors and layers were recorded for this step\n";
  text += fmt::format("{}: {} of {} recorded facts match, {} step{} recomputed in {:.1f} s\n",
                      result.passed() ? "equal" : "DIFFERENT", result.lines.size() - differ, result.lines.size(),
                      o.step - result.first + 1, o.step == result.first ? "" : "s", result.seconds);
  return text;
}

Json result_json(const Options& o, const AuditResult& result, const std::string& from) {
  Json json{{"file", o.file},
            {"step", o.step},
            {"from", from},
            {"first_step", result.first},
            {"equal", result.passed()},
            {"has_witness", result.has_witness},
            {"seconds", result.seconds}};
  json["facts"] = Json::array();
  for (const AuditLine& line : result.lines) {
    json["facts"].push_back({{"step", line.step},
                             {"what", line.what},
                             {"recorded", line.recorded},
                             {"computed", line.computed},
                             {"equal", line.equal()}});
  }
  return json;
}

int run(const Options& o) {
  const RunRecord run = read_run(o.file);
  const std::string from = checkpoint_for(o, run);
  require_memory(run.config, o.evaluates ? run.plan.validation_sequences : 1);
  AuditRequest request;
  request.run = &run;
  request.step = o.step;
  request.evaluates = o.evaluates;
  if (!from.empty()) {
    Checkpoint checkpoint = read_checkpoint(from);
    check_belongs(checkpoint, run, from);
    request.checkpoint = std::move(checkpoint.state);
  }
  std::optional<Trunk> trunk;
  if (run.branch) trunk = trunk_beside(run, o.file, o.trunk);
  const Corpus corpus = corpus_of(o.data, run.training_sha256);
  request.corpus = &corpus;
  const std::unique_ptr<TrainingEngine> engine = cpu_engine(run.config, o.threads);
  AuditResult result;
  {
    Progress progress("auditing");
    if (trunk && !request.checkpoint) {
      const auto make = [&](const TrainingConfig& config) { return cpu_engine(config, o.threads); };
      request.trunk = state_of(*trunk, run.branch->step, corpus, make, [&](std::int64_t step) {
        progress.now(fmt::format("computing step {} of the trunk's {}", step, run.branch->step));
      });
    }
    in_place(o.file, [&] {
      result = audit_step(std::move(request), *engine, [&](std::int64_t step) {
        progress.now(fmt::format("computing step {} of {}", step, o.step));
      });
    });
  }
  if (o.json) {
    print_json(result_json(o, result, from));
  } else {
    print(result_text(o, run, result, from));
  }
  return result.passed() ? 0 : 1;
}

}  // namespace

void add_parity_audit(Command& parity) {
  auto o = std::make_shared<Options>();
  Command sub = parity.subcommand("audit", "Compute a recorded step again on the CPU: every bit must agree");
  sub.option("RUN", o->file, "The run's file").required();
  sub.option("--step", o->step, "Which step, from 0").required().between(0, std::int64_t{1} << 40);
  sub.option("--checkpoint", o->checkpoint,
             "State to begin with (default: the nearest kept one beside RUN, or the start)")
      .not_empty();
  sub.option("--trunk", o->trunk, "Of a branch: the run that it branched off from (default: its name, beside RUN)")
      .not_empty();
  sub.option("--data", o->data, "What the run was trained on (default: that of the known texts which it says)")
      .not_empty();
  sub.option("--threads", o->threads, "0: all; they change no bit").between(0, 1024);
  sub.flag("--evaluations", o->evaluates, "Compute the evaluation before the step, too, and the one after the last");
  sub.flag("--json", o->json, "As JSON");
  sub.exits({{0, "every recorded fact of the step matches its recomputation"}, {1, "one does not match"}});
  sub.runs([o] { return run(*o); });
}

// mxcheck parity compare: the verdict on recipes from runs with several seeds.

namespace {

struct CompareOptions {
  std::vector<std::string> files;
  std::vector<std::string> beside;  // folders
  std::string html;
  ComparisonOptions rule;
  bool json = false;
};

void check_html(const CompareOptions& o) {
  const bool is_html = o.html.ends_with(".html") || o.html.ends_with(".htm");
  if (!o.html.empty() && !is_html) throw Error(ErrorKind::usage, "--html " + o.html + ": name the page FILE.html");
}

// Kept checkpoints lie beside runs: RUN.step1000.h5.
bool is_checkpoint(const std::filesystem::path& path) {
  constexpr std::string_view kStep = ".step";
  const std::string last = path.stem().extension().string();
  return last.starts_with(kStep) && last.size() > kStep.size() &&
         last.find_first_not_of("0123456789", kStep.size()) == std::string::npos;
}

std::vector<NamedRun> runs_in(const std::vector<std::string>& files, Progress& progress) {
  std::vector<NamedRun> runs;
  for (const std::string& file : files) {
    if (is_checkpoint(file)) continue;
    progress.now("reading " + file);
    runs.push_back({file, read_run(file)});
  }
  return runs;
}

std::vector<std::string> files_of_runs(const std::string& folder) {
  if (!is_folder(folder))
    throw Error(ErrorKind::usage, "--beside " + folder + ": there is no such folder; it takes folders of runs");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".h5" && !is_checkpoint(path)) files.push_back(path);
  }
  if (files.empty())
    throw Error(ErrorKind::input, folder + ": has no runs, files that end in .h5 (folders in it are not looked at)");
  std::sort(files.begin(), files.end());
  return files;
}

ParityComparison comparison_in(const std::string& folder, const ComparisonOptions& rule, Progress& progress) {
  const std::vector<NamedRun> runs = runs_in(files_of_runs(folder), progress);
  try {
    return compare_runs(runs, rule);
  } catch (const Error& e) {
    throw Error(e.kind(), "--beside " + folder + ": " + e.what());
  }
}

int compare_run(const CompareOptions& o) {
  check_html(o);
  std::optional<AtomicFile> page;
  if (!o.html.empty()) page.emplace(o.html);
  ParityComparison comparison;
  {
    Progress progress("reading runs");
    comparison = compare_runs(runs_in(o.files, progress), o.rule);
    ComparisonOptions rule = o.rule;
    rule.graded.clear();
    for (const std::string& folder : o.beside) {
      const ParityComparison other = comparison_in(folder, rule, progress);
      comparison.beside.push_back(beside(comparison, other, folder));
      if (comparison.beside.back().gaps.empty())
        throw Error(ErrorKind::input,
                    folder + ": no judged arm of a recipe and share of training that the others have");
    }
  }
  if (page) {
    page->write(comparison_html(comparison));
    page->complete();
  }
  print_at_once(o.json ? comparison_json(comparison) : comparison_text(comparison));
  if (page) page->commit();
  return exit_code(comparison);
}

}  // namespace

void add_parity_compare(Command& parity) {
  auto o = std::make_shared<CompareOptions>();
  Command sub =
      parity.subcommand("compare", "Is training under a recipe as good as under BF16? From runs with several seeds");
  sub.option("RUNS", o->files,
             "Files of runs: bf16, bf16 with --perturb (A/A), broken (negative control), and others; kept "
             "checkpoints, RUN.step1000.h5, are left out")
      .required();
  sub.option("--margin", o->rule.margin, "Relative loss that decides").shows_default();
  sub.option("--inner-margin", o->rule.inner_margin,
             "Of a verdict beside the first, at a smaller gap (default 0.0005, at most the margin)");
  sub.option("--outer-margin", o->rule.outer_margin, "Of a verdict beside the first, at a larger gap").shows_default();
  sub.option("--graded-control", o->rule.graded,
             "Recipes of arms that are controls, separated by commas: in the tables, and their verdicts decide nothing")
      .comma_separated();
  sub.option("--beside", o->beside,
             "Folders of other experiments' runs, separated by commas: how their gaps differ, recipe by recipe")
      .comma_separated()
      .not_empty();
  sub.option("--html", o->html, "Also write FILE.html: one page with charts that needs nothing else").not_empty();
  sub.flag("--json", o->json, "Every number as JSON");
  sub.footer("docs/parity_rule.md has the rule.");
  sub.exits({{0, "every judged arm is non-inferior or equivalent"},
             {1, "one is inferior, diverged, or better by more than the margin"},
             {4, "inconclusive, which is no success"}});
  sub.runs([o] { return compare_run(*o); });
}

// mxcheck parity verify: whether runs and their checkpoints are whole, and what they say.

namespace {

struct VerifyOptions {
  std::vector<std::string> files;
  bool json = false;
};

// Everything that is said of a run is computed here from what it recorded.
struct Facts {
  std::string file;
  RunRecord run;
  std::vector<std::int64_t> checkpoints;  // kept ones that lie beside it and belong to it
  std::string trunk;                      // of a branch: its file, where it lies beside it and is the one
  std::int64_t not_finite = 0;            // steps with a loss or norm of NaN or Inf
  std::int64_t not_updated = 0;
  double first_loss = NAN, last_loss = NAN;  // means of the first and the last 100 steps, or of what there is
};

double mean_loss(const RunRecord& run, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += double{std::bit_cast<float>(run.steps[i].loss)};
  return begin == end ? NAN : sum / static_cast<double>(end - begin);
}

Facts facts_of(const std::string& file) {
  Facts f;
  f.file = file;
  f.run = read_run(file);
  for (const std::int64_t step : f.run.plan.kept) {
    const std::string path = kept_checkpoint_of(file, step);
    if (!path_exists(path)) continue;
    check_belongs(read_checkpoint(path), f.run, path);
    f.checkpoints.push_back(step);
  }
  if (f.run.branch && path_exists((std::filesystem::path(file).parent_path() / f.run.branch->file).string()))
    f.trunk = trunk_beside(f.run, file, "").file;
  for (const RecordedStep& step : f.run.steps) {
    f.not_finite +=
        !std::isfinite(std::bit_cast<float>(step.loss)) || !std::isfinite(std::bit_cast<float>(step.gradient_norm));
    f.not_updated += step.skipped != 0;
  }
  const std::size_t part = std::min<std::size_t>(100, f.run.steps.size());
  f.first_loss = mean_loss(f.run, 0, part);
  f.last_loss = mean_loss(f.run, f.run.steps.size() - part, f.run.steps.size());
  return f;
}

std::string text_of(const Facts& f) {
  const RunRecord& run = f.run;
  const ModelShape& m = run.config.model;
  std::string text = fmt::format("{}: {}, {} of {} steps, {}\n", f.file, run_title(run), run.steps.size(),
                                 run.config.steps - run.first_step(), to_text(run.end));
  text += fmt::format(
      "  model        {} parameters: {} layers of width {}, {} experts of width {}, top {}; {} tokens a step\n",
      parameter_count(m), m.layers, m.width, m.experts, m.inner, m.top_k, run.config.tokens());
  if (run.branch) {
    text += fmt::format("  trunk        {} after {} steps, weights {:016x}: {}\n", run.branch->file, run.branch->step,
                        run.branch->weights, f.trunk.empty() ? "not beside this file, not followed" : "as it recorded");
  }
  text += fmt::format("  data         {}, SHA-256 {}\n", run.corpus, run.training_sha256.substr(0, 16));
  text += fmt::format("  computed by  {} ({}), mxcheck {}, {:.1f} s in {} sitting{}\n", run.engine, run.device,
                      run.mxcheck, run.seconds, run.sittings, run.sittings == 1 ? "" : "s");
  text += fmt::format("  loss         {:.4f} to {:.4f}, means of {} steps\n", f.first_loss, f.last_loss,
                      std::min<std::size_t>(100, run.steps.size()));
  if (!run.evaluations.empty()) {
    const RecordedEvaluation& last = run.evaluations.back();
    text +=
        fmt::format("  validation   {:.4f} with BF16 layers, {:.4f} under the recipe; {} evaluations\n",
                    std::bit_cast<float>(last.loss_bf16), std::bit_cast<float>(last.loss_own), run.evaluations.size());
  }
  text += fmt::format("  not finite   {} steps, {} not updated\n", f.not_finite, f.not_updated);
  text += fmt::format(
      "  to audit     {} witnesses; checkpoints {}\n", run.witnesses.size(),
      f.checkpoints.empty() ? "none" : join(f.checkpoints, ", ", [](std::int64_t s) { return std::to_string(s); }));
  return text + "  whole: its contents have the hash that it carries\n";
}

Json json_of(const Facts& f) {
  const RunRecord& run = f.run;
  Json json{{"file", f.file},
            {"title", run_title(run)},
            {"end", to_text(run.end)},
            {"steps", run.steps.size()},
            {"parameters", parameter_count(run.config.model)},
            {"corpus", run.corpus},
            {"training_sha256", run.training_sha256},
            {"engine", run.engine},
            {"device", run.device},
            {"seconds", run.seconds},
            {"first_loss", json_number(f.first_loss)},
            {"last_loss", json_number(f.last_loss)},
            {"steps_not_finite", f.not_finite},
            {"steps_not_updated", f.not_updated},
            {"witnesses", run.witnesses.size()},
            {"checkpoints", f.checkpoints}};
  if (run.branch) {
    json["branch"] = {{"trunk_sha256", run.branch->trunk},
                      {"trunk_file", run.branch->file},
                      {"step", run.branch->step},
                      {"weights_digest", fmt::format("{:016x}", run.branch->weights)},
                      {"followed", !f.trunk.empty()}};
  }
  json["evaluations"] = Json::array();
  for (const RecordedEvaluation& e : run.evaluations) {
    json["evaluations"].push_back({{"step", e.step},
                                   {"loss_bf16", json_number(std::bit_cast<float>(e.loss_bf16))},
                                   {"loss_own", json_number(std::bit_cast<float>(e.loss_own))}});
  }
  return json;
}

int verify_run(const VerifyOptions& o) {
  std::vector<Facts> all;
  for (const std::string& file : o.files) all.push_back(facts_of(file));
  if (o.json) {
    Json json = Json::array();
    for (const Facts& f : all) json.push_back(json_of(f));
    print_json(json);
    return 0;
  }
  for (const Facts& f : all) print(text_of(f));
  return 0;
}

}  // namespace

void add_parity_verify(Command& parity) {
  auto o = std::make_shared<VerifyOptions>();
  Command sub =
      parity.subcommand("verify", "Is a run's file whole, do its checkpoints belong to it, and what does it say?");
  sub.option("RUNS", o->files, "Files of runs").required();
  sub.flag("--json", o->json, "As JSON");
  sub.footer("A file that is truncated, altered or of another kind is refused, and so is a kept checkpoint beside it.");
  sub.runs([o] { return verify_run(*o); });
}

}  // namespace mxcheck
