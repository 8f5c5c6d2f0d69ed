// mxcheck parity run: trains, and records.

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include "goldens/layer/recipe_json.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "properties/process/candidate_process.h"
#include "tools/common/json.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/parity/parity.h"
#include "trainer/config/config.h"
#include "trainer/record/journal.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

struct Options {
  std::string output, preset, config, recipe, rounding, moments, data, engine;
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> steps, batch, tile, perturb, evaluate_every, observe_every, checkpoint_every, sequences;
  std::vector<std::string> kept;
  bool skips_non_finite = false, resume = false, json = false;
  int threads = 0;
};

// SIGINT, SIGTERM or SIGHUP while there is one ask for an end after the step that is being computed; what came before
// takes its place again at the end.
class StopOnSignal {
 public:
  StopOnSignal() {
    asked() = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = [](int signal) { asked() = signal; };
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup stays nohup
    }
  }
  ~StopOnSignal() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static std::atomic<int>& asked() {
    static std::atomic<int> signal = 0;
    return signal;
  }

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

template <class T, class To>
void set_if(const std::optional<T>& given, To& to) {
  if (given) to = static_cast<To>(*given);
}

TrainingConfig config_of(const Options& o) {
  TrainingConfig config = o.config.empty() ? preset_named(o.preset.empty() ? "tiny" : o.preset) : read_config(o.config);
  if (!o.recipe.empty()) config.recipe = layer_recipe_at(o.recipe);
  if (!o.rounding.empty()) config.rounding = token_rounding_rule_named(o.rounding);
  if (!o.moments.empty()) config.optimizer.moments = o.moments == "bf16" ? Format::bf16 : Format::fp32;
  set_if(o.seed, config.seed), set_if(o.steps, config.steps), set_if(o.batch, config.batch);
  set_if(o.tile, config.tile), set_if(o.perturb, config.perturb);
  if (o.skips_non_finite) config.optimizer.skips_non_finite = true;
  check(config);
  return config;
}

RunPlan plan_of(const Options& o, const TrainingConfig& config) {
  RunPlan plan = plan_of(config);
  set_if(o.evaluate_every, plan.evaluate_every), set_if(o.observe_every, plan.observe_every);
  set_if(o.checkpoint_every, plan.checkpoint_every), set_if(o.sequences, plan.validation_sequences);
  if (!o.kept.empty()) {
    plan.kept.clear();
    for (const std::string& text : o.kept) {
      const auto step = parse_number<std::int64_t>(text);
      if (!step) throw Error(ErrorKind::usage, "--keep is '" + text + "'; steps with commas between them are needed");
      plan.kept.push_back(*step);
    }
  }
  check(plan, config);
  return plan;
}

// With --resume everything about the run is in its journal.
void check_resume(const Options& o) {
  const bool about_the_run = !o.preset.empty() || !o.config.empty() || !o.recipe.empty() || !o.rounding.empty() ||
                             !o.moments.empty() || o.seed || o.steps || o.batch || o.tile || o.perturb ||
                             o.evaluate_every || o.observe_every || o.checkpoint_every || o.sequences ||
                             !o.kept.empty() || o.skips_non_finite;
  if (about_the_run) {
    throw Error(ErrorKind::usage,
                "--resume takes the run's configuration from its journal; -o, --data, --engine, --threads and --json "
                "alone go with it");
  }
  if (!std::filesystem::exists(journal_of(o.output))) {
    throw Error(ErrorKind::input,
                journal_of(o.output) + ": there is no such file; no run to " + o.output + " waits to be gone on with");
  }
}

std::string loss_text(std::uint32_t bits) { return fmt::format("{:.4f}", std::bit_cast<float>(bits)); }

std::string outcome_text(const RunRecord& run, const std::string& output) {
  const auto tokens = static_cast<double>(std::ssize(run.steps) * run.config.tokens());
  std::string text = fmt::format("{}: {}, {} of {} steps, {}\n", output, run_title(run.config), run.steps.size(),
                                 run.config.steps, to_text(run.end));
  if (!run.steps.empty())
    text += fmt::format("loss        {} to {}\n", loss_text(run.steps.front().loss), loss_text(run.steps.back().loss));
  if (!run.evaluations.empty()) {
    const RecordedEvaluation& last = run.evaluations.back();
    text += fmt::format("validation  {} with BF16 layers, {} under the recipe, after {} steps\n",
                        loss_text(last.loss_bf16), loss_text(last.loss_own), last.step);
  }
  text +=
      fmt::format("speed       {:.0f} tokens a second over {:.1f} s in {} sitting{}\n",
                  run.seconds > 0 ? tokens / run.seconds : 0, run.seconds, run.sittings, run.sittings == 1 ? "" : "s");
  if (run.end == RunEnd::unfinished) text += fmt::format("go on with  mxcheck parity run --resume -o {}\n", output);
  return text;
}

Json outcome_json(const RunRecord& run, const std::string& output) {
  Json json{{"output", output},
            {"end", to_text(run.end)},
            {"steps", run.steps.size()},
            {"seconds", run.seconds},
            {"sittings", run.sittings}};
  if (!run.steps.empty()) json["loss"] = json_number(std::bit_cast<float>(run.steps.back().loss));
  if (!run.evaluations.empty()) {
    json["validation_loss_bf16"] = json_number(std::bit_cast<float>(run.evaluations.back().loss_bf16));
    json["validation_loss_own"] = json_number(std::bit_cast<float>(run.evaluations.back().loss_own));
  }
  return json;
}

RunRequest request_of(const Options& o, const Corpus& corpus) {
  RunRequest r;
  r.out = o.output;
  r.corpus = &corpus;
  r.mxcheck = std::string(kVersion) + " (commit " + kCommit + (kDirty ? ", modified)" : ")");
  r.resume = o.resume;
  if (o.resume) {
    RunRecord begun = read_journal(journal_of(o.output)).record;
    r.config = std::move(begun.config), r.plan = std::move(begun.plan);
  } else {
    r.config = config_of(o);
    r.plan = plan_of(o, r.config);
  }
  return r;
}

std::unique_ptr<TrainingEngine> engine_of(const Options& o, const RunRequest& r) {
  if (o.engine == "cpu") return cpu_engine(r.config, o.threads);
  // "sm90": libmxcheck_sm90_train.so, where the gate's libraries are.
  const bool is_path = o.engine.find('/') != std::string::npos || o.engine.ends_with(".so");
  const std::string library = find_candidate_library(is_path ? o.engine : o.engine + "_train", own_executable());
  return device_engine(r.config, library, r.plan.validation_sequences, o.threads);
}

int run(const Options& o) {
  if (o.resume) check_resume(o);
  RunRequest request;
  // Options are refused before 131 MB are read.
  const Corpus none;
  request = request_of(o, none);
  const Corpus corpus = corpus_of(o.data);
  request.corpus = &corpus;
  const std::unique_ptr<TrainingEngine> engine = engine_of(o, request);
  RunRecord record;
  {
    const StopOnSignal stop;
    Progress progress("training");
    record = run_training(request, *engine, [&](const RunProgress& p) {
      progress.now(fmt::format("{}: step {} of {}, loss {:.4f}, {:.0f} tokens a second", run_title(request.config),
                               p.step, p.steps, p.loss, static_cast<double>(p.tokens) / p.seconds),
                   static_cast<double>(p.step) / static_cast<double>(p.steps));
      return StopOnSignal::asked() == 0;
    });
  }
  if (o.json) {
    print_json(outcome_json(record, o.output));
  } else {
    print(outcome_text(record, o.output));
  }
  if (StopOnSignal::asked() != 0 && record.end == RunEnd::unfinished) return 128 + StopOnSignal::asked();
  return record.end == RunEnd::diverged ? 1 : 0;
}

}  // namespace

void add_parity_run(Command& parity) {
  auto o = std::make_shared<Options>();
  o->engine = "cpu";
  Command sub = parity.subcommand("run", "Train a language model with MoE layers under a recipe, every step recorded");
  sub.option("-o,--output", o->output, "The run's file, HDF5; OUT.journal and OUT.checkpoint while it is under way")
      .required()
      .not_empty();
  sub.option("--preset", o->preset, "Sizes: tiny (the default), small or full; docs/parity.md has them");
  sub.option("--config", o->config, "All of the configuration as JSON, in place of a preset");
  sub.option("--recipe", o->recipe, "Recipe of the MoE layers: a name, or a file ending in .json (default bf16)");
  sub.option("--seed", o->seed, "Of initial weights, data and rounding (default 0)");
  sub.option("--steps", o->steps, "Default 10,000");
  sub.option("--batch", o->batch, "Sequences a step");
  sub.option("--rounding", o->rounding, "Token rounding by this rule: nr-f, sr-f, ... (default none: token choice)");
  sub.option("--tile", o->tile, "Of the rounding (default 128)");
  sub.option("--moments", o->moments, "Type that AdamW's moments are kept in").one_of({"fp32", "bf16"});
  sub.option("--perturb", o->perturb, "1 + index of a weight that starts one ulp up: runs of BF16 against BF16");
  sub.flag("--skip-non-finite", o->skips_non_finite, "A gradient norm of NaN or Inf: leave the update out and go on");
  sub.option("--data", o->data, "Text to train on: a file or a folder (default: the headers of Boost 1.74)");
  sub.option("--evaluate-every", o->evaluate_every, "Steps between evaluations (default a hundredth of all)");
  sub.option("--observe-every", o->observe_every, "Steps between observations of quantization and loads (as well)");
  sub.option("--checkpoint-every", o->checkpoint_every, "Steps between checkpoints to go on from (a twentieth)");
  sub.option("--keep", o->kept,
             "Steps before which a checkpoint is kept beside OUT (default 100, the middle, the last)")
      .comma_separated();
  sub.option("--validation-sequences", o->sequences, "Of each evaluation (default 64)");
  sub.option("--engine", o->engine,
             "What computes: cpu, sm90 (a Hopper GPU), or a library of kernels/train.h; the bits are one's")
      .shows_default();
  sub.option("--threads", o->threads, "Of the CPU; 0: all; they change no bit").between(0, 1024);
  sub.flag("--resume", o->resume, "Go on with a run that was interrupted");
  sub.flag("--json", o->json, "What came of it as JSON");
  sub.footer(
      "Ctrl-C ends the run after the step it is at; --resume goes on, and gives the bits of a run that was never\n"
      "stopped. Exit codes: 0 finished; 1 diverged (recorded as such); 130 stopped by Ctrl-C.");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
