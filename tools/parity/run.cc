// mxcheck parity run: trains, and records.

#include "numerics/names.h"
#include "reference/layer/layer_recipe.h"
#include "tools/parity/parity.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "goldens/layer/recipe_json.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/process/candidate_process.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/parity/ranks.h"
#include "trainer/config/config.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"
#include "trainer/run/ranks.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

std::string loss_text(std::uint32_t bits) { return fmt::format("{:.4f}", std::bit_cast<float>(bits)); }

std::string outcome_text(const RunRecord& run, const std::string& output) {
  const auto tokens = static_cast<double>(std::ssize(run.steps) * run.config.tokens());
  std::string text = fmt::format("{}: {}, {} of {} steps, {}\n", output, run_title(run), run.steps.size(),
                                 run.config.steps - run.first_step(), to_text(run.end));
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

// The runs under way as one line: the step of the one that is furthest behind, and the speed of all.
class Display {
 public:
  explicit Display(const std::vector<ConcurrentRun>& runs) : runs_(runs), last_(runs.size()) {
    for (std::size_t i = 0; i < runs.size(); ++i) last_[i].steps = runs[i].request.config.steps;
  }

  bool operator()(std::size_t i, const RunProgress& p) {
    last_[i] = p;
    const auto behind = std::min_element(last_.begin(), last_.end(), [](const RunProgress& a, const RunProgress& b) {
      return a.step * b.steps < b.step * a.steps;
    });
    double speed = 0;
    for (const RunProgress& run : last_) speed += run.seconds > 0 ? static_cast<double>(run.tokens) / run.seconds : 0;
    const RunRequest& of = runs_[static_cast<std::size_t>(behind - last_.begin())].request;
    const std::string others = runs_.size() == 1 ? "" : fmt::format(" and {} more", runs_.size() - 1);
    line_.now(fmt::format("{}{}: step {} of {}, loss {:.4f}, {:.0f} tokens a second", run_title(of.config), others,
                          behind->step, of.config.steps, behind->loss, speed),
              static_cast<double>(behind->step) / static_cast<double>(of.config.steps));
    return StopOnSignal::asked() == 0;
  }

 private:
  const std::vector<ConcurrentRun>& runs_;
  std::vector<RunProgress> last_;
  Progress line_{"training"};
};

// Prints the outcomes of the runs that did not end by an error.
void print_outcomes(const ParityRunOptions& o, const std::vector<ConcurrentRun>& runs,
                    const std::vector<ConcurrentRunEnd>& ends) {
  std::vector<Json> all;
  std::string text;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].error) continue;
    text += (text.empty() ? "" : "\n") + outcome_text(ends[i].record, runs[i].request.out);
    all.push_back(outcome_json(ends[i].record, runs[i].request.out));
  }
  if (o.json && !o.seeds.empty()) {
    print_json(Json(all));
  } else if (o.json && !all.empty()) {
    print_json(all.front());
  } else if (!o.json) {
    print(ends.empty() ? "every run of these seeds has ended\n" : text);
  }
}

// The first one, with how many others there are; each run's own says which file it is of.
void throw_first_error(const std::vector<ConcurrentRunEnd>& ends) {
  const auto failed = [](const ConcurrentRunEnd& end) { return end.error != nullptr; };
  const auto first = std::find_if(ends.begin(), ends.end(), failed);
  if (first == ends.end()) return;
  const auto others = std::count_if(first + 1, ends.end(), failed);
  if (others == 0) std::rethrow_exception(first->error);
  try {
    std::rethrow_exception(first->error);
  } catch (const Error& e) {
    throw Error(e.kind(), fmt::format("{} ({} of the other runs failed, too)", e.what(), others));
  }
}

// The text that --data names, or the trunk was trained on, or a resumed run goes on with, or the text of the preset.
Corpus corpus_of_run(const ParityRunOptions& o, const ParityRun& run) {
  if (!o.data.empty()) return corpus_at(o.data);
  if (run.trunk) return known_corpus(run.trunk->run.training_sha256);
  if (o.resume) return known_corpus(read_journal(journal_of(run.request.out)).record.training_sha256);
  return o.preset == kVerdictPreset ? english_corpus() : boost_corpus();
}

// ranks: of a run on several processes, which this one leads.
int train_runs(const ParityRunOptions& o, std::vector<ParityRun> asked, const Corpus& corpus, RankGroup* ranks) {
  // A rank has chosen its GPU.
  const std::shared_ptr<TrainingGpus> gpus = ranks == nullptr ? parity_gpus(o.engine) : nullptr;
  std::vector<std::unique_ptr<TrainingEngine>> led;
  std::vector<ConcurrentRun> runs;
  for (ParityRun& run : asked) {
    RunRequest& r = run.request;
    r.corpus = &corpus;
    if (run.trunk) {
      check_data(*run.trunk, corpus);
      r.trunk = [trunk = run.trunk, step = r.branch->step, plan = r.plan, &corpus, &o, gpus] {
        const auto engine = [&](const TrainingConfig& config) {
          return parity_engine(o.engine, config, plan.validation_sequences, o.threads, gpus);
        };
        return state_of(*trunk, step, corpus, engine, {});
      };
    }
    std::unique_ptr<TrainingEngine> engine =
        parity_engine(o.engine, r.config, r.plan.validation_sequences, o.threads, gpus, ranks);
    if (ranks != nullptr) {
      led.push_back(std::move(engine));
      engine = leading_engine(*led.back(), *ranks);
    }
    runs.push_back({std::move(r), std::move(engine)});
  }
  std::vector<ConcurrentRunEnd> ends;
  {
    const StopOnSignal stop;
    Display display(runs);
    ends = run_together(runs, std::ref(display));
  }
  print_outcomes(o, runs, ends);
  throw_first_error(ends);
  const auto has = [&](RunEnd end) {
    return std::any_of(ends.begin(), ends.end(), [&](const ConcurrentRunEnd& e) { return e.record.end == end; });
  };
  if (StopOnSignal::asked() != 0 && has(RunEnd::unfinished)) return 128 + StopOnSignal::asked();
  return has(RunEnd::diverged) ? 1 : 0;
}

int train_run(const ParityRunOptions& o) {
  std::vector<ParityRun> asked;
  Corpus corpus;
  if (!o.ranks || *o.ranks == 1) {
    asked = parity_runs_of(o);  // options are refused before 131 MB are read
    if (!asked.empty()) corpus = corpus_of_run(o, asked.front());
    return train_runs(o, std::move(asked), corpus, nullptr);
  }
  const InputsOf inputs = [&](int rank, const RankInputs* of_first) {
    if (of_first != nullptr) {
      const Corpus own = corpus_of(o.data, of_first->training_sha256);
      return RankInputs{of_first->config, own.training_sha256, own.validation_sha256};
    }
    asked = parity_runs_of(o, rank == 0);
    corpus = corpus_of_run(o, asked.front());
    RankInputs own{asked.front().request.config, corpus.training_sha256, corpus.validation_sha256};
    if (rank != 0) corpus = {};  // its bytes come from rank 0
    return own;
  };
  return run_ranks(o, inputs, [&](RankGroup& ranks) { return train_runs(o, std::move(asked), corpus, &ranks); });
}

}  // namespace

void add_parity_run(Command& parity) {
  auto o = std::make_shared<ParityRunOptions>();
  Command sub = parity.subcommand("run", "Train a language model with MoE layers under a recipe, every step recorded");
  add_options(sub, *o);
  sub.footer(
      "Ctrl-C ends the run after the step it is at, a second one at once; --resume goes on, and gives the bits of a "
      "run\n"
      "that was never stopped.");
  sub.exits({{0, "finished"},
             {1, "diverged, and recorded as such"},
             {6, "a rank of --ranks ended, or did not arrive in time"},
             {130, "stopped by Ctrl-C"}});
  sub.runs([o] { return train_run(*o); });
}

namespace {

constexpr std::string_view kSeedPlace = "{seed}";

template <class T, class To>
void set_if(const std::optional<T>& given, To& to) {
  if (given) to = static_cast<To>(*given);
}

template <class T>
std::vector<T> numbers_of(const char* option, const std::vector<std::string>& texts, const char* needed) {
  std::vector<T> numbers;
  for (const std::string& text : texts) {
    const auto number = parse_number<T>(text);
    if (!number) throw Error(ErrorKind::usage, fmt::format("{} has '{}'; {} are needed", option, text, needed));
    numbers.push_back(*number);
  }
  return numbers;
}

std::int64_t perturbed_weight(const std::string& text) {
  if (text == "all") return kPerturbAll;
  if (text == "order") return kPerturbOrder;
  const auto weight = parse_number<std::int64_t>(text);
  if (weight && *weight >= 0) return *weight;
  throw Error(ErrorKind::usage, "--perturb is '" + text + "'; all, order, or a weight's number from 1 on, is needed");
}

// `config` with what the options say otherwise.
TrainingConfig config_of(const ParityRunOptions& o, TrainingConfig config) {
  if (!o.recipe.empty()) config.recipe = layer_recipe_at(o.recipe);
  set_if(o.bf16_last, config.bf16_last);
  if (!o.rounding.empty()) config.rounding = token_rounding_rule_named(o.rounding);
  if (!o.moments.empty()) config.optimizer.moments = o.moments == "bf16" ? Format::bf16 : Format::fp32;
  set_if(o.seed, config.seed), set_if(o.steps, config.steps), set_if(o.batch, config.batch);
  set_if(o.tile, config.tile), set_if(o.microbatches, config.microbatches);
  if (!o.perturb.empty()) config.perturb = perturbed_weight(o.perturb);
  if (o.skips_non_finite) config.optimizer.skips_non_finite = true;
  check(config);
  return config;
}

RunPlan run_plan_of(const ParityRunOptions& o, const TrainingConfig& config, RunPlan plan) {
  set_if(o.evaluate_every, plan.evaluate_every), set_if(o.observe_every, plan.observe_every);
  set_if(o.checkpoint_every, plan.checkpoint_every), set_if(o.sequences, plan.validation_sequences);
  if (!o.kept.empty()) plan.kept = numbers_of<std::int64_t>("--keep", o.kept, "steps with commas between them");
  check(plan, config);
  return plan;
}

// With --resume everything about a run is in its journal.
void check_resume(const ParityRunOptions& o) {
  const bool about_the_run = !o.preset.empty() || !o.config.empty() || !o.recipe.empty() || !o.rounding.empty() ||
                             !o.moments.empty() || o.seed || o.steps || o.batch || o.tile || !o.perturb.empty() ||
                             o.evaluate_every || o.observe_every || o.checkpoint_every || o.sequences ||
                             !o.kept.empty() || o.skips_non_finite || o.at || o.bf16_last || o.microbatches;
  if (about_the_run) {
    throw Error(ErrorKind::usage,
                "--resume takes the run's configuration from its journal; -o, --seeds, --branch, --data, --engine, "
                "--ranks, --threads and --json alone go with it");
  }
}

// A branch shares with its trunk all that is not said here.
void check_branch_options(const ParityRunOptions& o) {
  if (o.branch.empty() && o.at) throw Error(ErrorKind::usage, "--at is the step of a trunk; --branch names its file");
  if (o.branch.empty() || o.resume) return;
  if (!o.at) throw Error(ErrorKind::usage, "--branch needs --at STEP: after how many steps of it the run takes over");
  const bool is_shared = !o.preset.empty() || !o.config.empty() || o.steps || o.batch || o.microbatches || o.seed ||
                         o.evaluate_every || o.sequences || o.skips_non_finite;
  if (is_shared) {
    throw Error(
        ErrorKind::usage,
        "a branch has its trunk's sizes, steps, seed and evaluations; --recipe, --bf16-last, --rounding, --tile, "
        "--moments and --perturb alone say what is otherwise");
  }
}

void require_journal(const std::string& out) {
  if (path_exists(journal_of(out))) return;
  throw Error(ErrorKind::input,
              journal_of(out) + ": there is no such file; no run to " + out + " waits to be gone on with");
}

// The plan of a branch: evaluations as the trunk has them, after the same steps.
RunPlan plan_of_branch(const RunRecord& trunk, const TrainingConfig& config, std::int64_t step) {
  RunPlan plan = plan_of(config, step);
  plan.evaluate_every = trunk.plan.evaluate_every, plan.observe_every = trunk.plan.observe_every;
  plan.validation_sequences = trunk.plan.validation_sequences;
  return plan;
}

ParityRun parity_run_of(const ParityRunOptions& o, const std::string& out, const std::string& trunk,
                        std::optional<std::uint64_t> seed) {
  ParityRun run;
  RunRequest& r = run.request;
  r.out = out;
  r.mxcheck = parity_version();
  r.resume = o.resume;
  if (o.resume) {
    require_journal(out);
    RunRecord begun = read_journal(journal_of(out)).record;
    if (begun.branch && begun.branch->trunk == kTrunkUnderWay) {
      const std::string beside = (std::filesystem::path(out).parent_path() / begun.branch->file).string();
      begun.branch->trunk = read_trunk(trunk.empty() ? beside : trunk).sha256;
    }
    if (begun.branch) run.trunk = std::make_shared<const Trunk>(trunk_beside(begun, out, trunk));
    r.config = std::move(begun.config), r.plan = std::move(begun.plan), r.branch = std::move(begun.branch);
    if (seed && r.config.seed != *seed) {
      throw Error(ErrorKind::input, fmt::format("{}: is of seed {}, not of {}", journal_of(out), r.config.seed, *seed));
    }
    return run;
  }
  if (!trunk.empty()) {
    run.trunk = std::make_shared<const Trunk>(read_trunk(trunk));
    const RunRecord& of = run.trunk->run;
    r.config = config_of(o, of.config);
    if (seed && r.config.seed != *seed)
      throw Error(ErrorKind::input, fmt::format("{}: is of seed {}, not of {}", trunk, r.config.seed, *seed));
    r.branch = branch_of(*run.trunk, r.config, *o.at);
    r.plan = run_plan_of(o, r.config, plan_of_branch(of, r.config, *o.at));
    return run;
  }
  r.config =
      config_of(o, o.config.empty() ? preset_named(o.preset.empty() ? "tiny" : o.preset) : read_config(o.config));
  set_if(seed, r.config.seed);
  r.plan = run_plan_of(o, r.config, o.preset == kVerdictPreset ? verdict_plan_of(r.config) : plan_of(r.config));
  return run;
}

std::vector<std::uint64_t> seeds_of(const ParityRunOptions& o) {
  for (const auto& [option, file] : {std::pair("-o", &o.output), std::pair("--branch", &o.branch)}) {
    if (file->empty() || file->find(kSeedPlace) != std::string::npos) continue;
    throw Error(ErrorKind::usage, fmt::format("--seeds has a file for each seed: {} is '{}', which lacks the place for "
                                              "it, as in run_{{seed}}.h5",
                                              option, *file));
  }
  auto seeds = numbers_of<std::uint64_t>("--seeds", o.seeds, "whole numbers from 0 with commas between them");
  for (auto s = seeds.begin(); s != seeds.end(); ++s) {
    if (std::find(seeds.begin(), s, *s) != s) throw Error(ErrorKind::usage, fmt::format("--seeds has {} twice", *s));
  }
  return seeds;
}

// A file that is no run, or one of another seed, is not what was asked for.
bool has_ended(const std::string& out, std::uint64_t seed) {
  if (!path_exists(out) || path_exists(journal_of(out))) return false;
  const std::uint64_t is = read_run(out).config.seed;
  if (is == seed) return true;
  throw Error(ErrorKind::input, fmt::format("{}: is of seed {}, not of {}", out, is, seed));
}

std::string output_of(const std::string& pattern, std::uint64_t seed) {
  std::string out = pattern;
  for (std::size_t at = 0; (at = out.find(kSeedPlace, at)) != std::string::npos;)
    out.replace(at, kSeedPlace.size(), std::to_string(seed));
  return out;
}

}  // namespace

std::vector<ParityRun> parity_runs_of(const ParityRunOptions& o, bool writes) {
  if (o.resume) check_resume(o);
  check_branch_options(o);
  if (o.seeds.empty()) {
    const ParityRun run = parity_run_of(o, o.output, o.branch, {});
    if (writes && !o.resume) check_fresh(run.request);
    return {run};
  }
  std::vector<ParityRun> runs;
  for (const std::uint64_t seed : seeds_of(o)) {
    const std::string out = output_of(o.output, seed);
    if (o.resume && has_ended(out, seed)) continue;
    runs.push_back(parity_run_of(o, out, output_of(o.branch, seed), seed));
    if (writes && !o.resume) check_fresh(runs.back().request);  // of all, before the first begins
  }
  return runs;
}

void add_options(Command& sub, ParityRunOptions& o) {
  sub.option("-o,--output", o.output, "The run's file, HDF5; OUT.journal and OUT.checkpoint while it is under way")
      .required()
      .not_empty();
  sub.option("--preset", o.preset,
             "tiny (the default), small, full, or verdict, which recipes are judged by; docs/parity.md has them")
      .completes(names_in(all_training_presets()))
      .not_empty();
  sub.option("--config", o.config, "All of the configuration as JSON, in place of a preset").not_empty();
  sub.option("--branch", o.branch,
             "Take over from this run (its trunk), with its weights, moments and data, under another recipe; with "
             "--seeds, {seed} in it, too")
      .not_empty();
  sub.option("--at", o.at, "After so many steps of the trunk").between(1, std::int64_t{1} << 40);
  sub.option("--recipe", o.recipe, "Recipe of the MoE layers: a name, or a file ending in .json (default bf16)")
      .completes(names_in(all_layer_recipes()))
      .not_empty();
  sub.option("--bf16-last", o.bf16_last, "So many of the model's last layers stay in BF16 (default 0)");
  const CommandOption seed = sub.option("--seed", o.seed, "Of initial weights, data and rounding (default 0)");
  sub.option("--seeds", o.seeds,
             "Several at once, sharing the GPUs or the CPU, each to the OUT that has its number for {seed}")
      .comma_separated()
      .not_empty()
      .excludes(seed);
  sub.option("--steps", o.steps, "Default 10,000; of verdict 2,000");
  sub.option("--batch", o.batch, "Sequences a step");
  sub.option("--microbatches", o.microbatches, "Equal parts of the batch, whose gradients are summed (default 1)");
  sub.option("--ranks", o.ranks,
             "So many processes share the microbatches, each with a GPU of its own: torchrun's, mpirun's or srun's, "
             "or ones that are started here")
      .between(1, 16);
  sub.option("--rounding", o.rounding, "Token rounding by this rule: nr-f, sr-f, ... (default none: token choice)")
      .not_empty();
  sub.option("--tile", o.tile, "Of the rounding (default 128)");
  sub.option("--moments", o.moments, "Type that AdamW's moments are kept in").one_of({"fp32", "bf16"});
  sub.option("--perturb", o.perturb,
             "Runs of BF16 against BF16: all (every weight starts 2^-8 up or down), order (columns renumbered: other "
             "orders of sums), or 1 + index of one that starts an ulp up")
      .not_empty();
  sub.flag("--skip-non-finite", o.skips_non_finite, "A gradient norm of NaN or Inf: leave the update out and go on");
  sub.option(
         "--data", o.data,
         "Text to train on: a file or a folder (default: the headers of Boost 1.74; of verdict English, parity corpus)")
      .not_empty();
  sub.option("--evaluate-every", o.evaluate_every, "Steps between evaluations (default a hundredth of all)");
  sub.option("--observe-every", o.observe_every, "Steps between observations of quantization and loads (as well)");
  sub.option("--checkpoint-every", o.checkpoint_every, "Steps between checkpoints to go on from (a twentieth)");
  sub.option("--keep", o.kept, "Steps before which a checkpoint is kept beside OUT (default 100, the middle, the last)")
      .comma_separated()
      .not_empty();
  sub.option("--validation-sequences", o.sequences, "Of each evaluation (default 64)");
  sub.option("--engine", o.engine,
             "What computes: cpu, sm90 (a Hopper GPU), or a library of kernels/train.h; the bits are one's")
      .shows_default()
      .not_empty();
  sub.option("--threads", o.threads, "Of the CPU; 0: all; they change no bit").between(0, 1024);
  sub.flag("--resume", o.resume, "Go on with runs that were interrupted; with --seeds, those that have not ended");
  sub.flag("--json", o.json, "What came of it as JSON: an object, with --seeds a list of them");
}

// mxcheck parity: runs of training, recorded step by step, that anyone can compute again.

Corpus corpus_of(const std::string& data, const std::string& training_sha256) {
  return data.empty() ? known_corpus(training_sha256) : corpus_at(data);
}

std::unique_ptr<TrainingEngine> parity_engine(const std::string& engine, const TrainingConfig& config,
                                              std::int64_t validation_sequences, int threads,
                                              const std::shared_ptr<TrainingGpus>& gpus, RankGroup* ranks) {
  if (engine == "cpu") {
    require_memory(config, validation_sequences);
    return cpu_engine(config, threads, ranks);
  }
  return device_engine(config, parity_library(engine), std::min(validation_sequences, kSequencesAtOnce), threads, gpus,
                       ranks);
}

// "sm90": libmxcheck_sm90_train.so, where the gate's libraries are.
std::string parity_library(const std::string& engine) {
  const bool is_path = engine.find('/') != std::string::npos || engine.ends_with(".so");
  return find_candidate_library(is_path ? engine : engine + "_train", own_executable());
}

std::shared_ptr<TrainingGpus> parity_gpus(const std::string& engine) {
  return engine == "cpu" ? nullptr : std::make_shared<TrainingGpus>(visible_gpus());
}

std::string parity_version() { return std::string(kVersion) + " (commit " + kCommit + (kDirty ? ", modified)" : ")"); }

std::string run_title(const TrainingConfig& config) {
  std::string title = config.recipe.name;
  if (config.bf16_last != 0)
    title += fmt::format(" (the last {} of {} layers in BF16)", config.bf16_last, config.model.layers);
  if (config.rounding != TokenRoundingRule::none)
    title += fmt::format(" + {} (tiles of {})", to_text(config.rounding), config.tile);
  if (config.optimizer.moments != Format::fp32)
    title += fmt::format(" + moments {}", spec(config.optimizer.moments).name);
  if (config.microbatches != 1) title += fmt::format(", {} microbatches", config.microbatches);
  title += fmt::format(", seed {}", config.seed);
  if (config.perturb == kPerturbAll) title += ", all weights moved";
  if (config.perturb == kPerturbOrder) title += ", columns reordered";
  if (config.perturb > 0) title += fmt::format(", weight {} an ulp up", config.perturb - 1);
  return title;
}

std::string run_title(const RunRecord& run) {
  const std::string title = run_title(run.config);
  return run.branch ? fmt::format("{}, from step {} of {} on", title, run.branch->step, run.branch->file) : title;
}

void add_parity(Command& app) {
  Command sub = app.subcommand("parity", "Runs of training under a recipe, recorded to the bit, audited and compared");
  sub.requires_subcommand();
  sub.exits({{1, "run: diverged; audit: something differs; compare: an arm is no equal of BF16"},
             {4, "compare: inconclusive"},
             {130, "run, campaign: stopped by Ctrl-C"}});
  add_parity_run(sub);
  add_parity_audit(sub);
  add_parity_compare(sub);
  add_parity_verify(sub);
  add_parity_corpus(sub);
  add_parity_campaign(sub);
  sub.footer(
      "Examples:\n"
      "  mxcheck parity run --preset tiny --recipe mxfp8 --seed 1 --steps 1000 -o mxfp8_1.h5\n"
      "  mxcheck parity run --resume -o mxfp8_1.h5               go on with a run that was interrupted\n"
      "  mxcheck parity run --branch bf16_1.h5 --at 500 --recipe mxfp8 -o from_500.h5    take over in the middle\n"
      "  mxcheck parity audit mxfp8_1.h5 --step 500              compute a step again: every bit must agree\n"
      "  mxcheck parity verify mxfp8_1.h5                        is the file whole, and what does it say?\n"
      "  mxcheck parity compare runs/*.h5 --html report.html     is the recipe as good as BF16?");
}

}  // namespace mxcheck
