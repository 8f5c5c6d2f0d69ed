#include "tools/parity/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "goldens/layer/recipe_json.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "trainer/config/config.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"

namespace mxcheck {
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
  const auto weight = parse_number<std::int64_t>(text);
  if (weight && *weight >= 0) return *weight;
  throw Error(ErrorKind::usage, "--perturb is '" + text + "'; all, or a weight's number from 1 on, is needed");
}

TrainingConfig config_of(const ParityRunOptions& o) {
  TrainingConfig config = o.config.empty() ? preset_named(o.preset.empty() ? "tiny" : o.preset) : read_config(o.config);
  if (!o.recipe.empty()) config.recipe = layer_recipe_at(o.recipe);
  if (!o.rounding.empty()) config.rounding = token_rounding_rule_named(o.rounding);
  if (!o.moments.empty()) config.optimizer.moments = o.moments == "bf16" ? Format::bf16 : Format::fp32;
  set_if(o.seed, config.seed), set_if(o.steps, config.steps), set_if(o.batch, config.batch);
  set_if(o.tile, config.tile);
  if (!o.perturb.empty()) config.perturb = perturbed_weight(o.perturb);
  if (o.skips_non_finite) config.optimizer.skips_non_finite = true;
  check(config);
  return config;
}

RunPlan run_plan_of(const ParityRunOptions& o, const TrainingConfig& config) {
  RunPlan plan = plan_of(config);
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
                             !o.kept.empty() || o.skips_non_finite;
  if (about_the_run) {
    throw Error(ErrorKind::usage,
                "--resume takes the run's configuration from its journal; -o, --seeds, --data, --engine, --threads and "
                "--json alone go with it");
  }
}

void require_journal(const std::string& out) {
  if (std::filesystem::exists(journal_of(out))) return;
  throw Error(ErrorKind::input,
              journal_of(out) + ": there is no such file; no run to " + out + " waits to be gone on with");
}

RunRequest request_of(const ParityRunOptions& o, const Corpus& corpus, const std::string& out,
                      std::optional<std::uint64_t> seed) {
  RunRequest r;
  r.out = out;
  r.corpus = &corpus;
  r.mxcheck = std::string(kVersion) + " (commit " + kCommit + (kDirty ? ", modified)" : ")");
  r.resume = o.resume;
  if (o.resume) {
    require_journal(out);
    RunRecord begun = read_journal(journal_of(out)).record;
    r.config = std::move(begun.config), r.plan = std::move(begun.plan);
    if (seed && r.config.seed != *seed) {
      throw Error(ErrorKind::input, fmt::format("{}: is of seed {}, not of {}", journal_of(out), r.config.seed, *seed));
    }
    return r;
  }
  r.config = config_of(o);
  set_if(seed, r.config.seed);
  r.plan = run_plan_of(o, r.config);
  return r;
}

std::vector<std::uint64_t> seeds_of(const ParityRunOptions& o) {
  if (o.output.find(kSeedPlace) == std::string::npos) {
    throw Error(ErrorKind::usage, "--seeds makes a file for each seed: -o is '" + o.output +
                                      "', which lacks the place for it, as in run_{seed}.h5");
  }
  auto seeds = numbers_of<std::uint64_t>("--seeds", o.seeds, "whole numbers from 0 with commas between them");
  for (auto s = seeds.begin(); s != seeds.end(); ++s) {
    if (std::find(seeds.begin(), s, *s) != s) throw Error(ErrorKind::usage, fmt::format("--seeds has {} twice", *s));
  }
  return seeds;
}

// A file that is no run, or one of another seed, is not what was asked for.
bool has_ended(const std::string& out, std::uint64_t seed) {
  if (!std::filesystem::exists(out) || std::filesystem::exists(journal_of(out))) return false;
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

std::vector<RunRequest> requests_of(const ParityRunOptions& o, const Corpus& corpus) {
  if (o.resume) check_resume(o);
  if (o.seeds.empty()) return {request_of(o, corpus, o.output, {})};
  std::vector<RunRequest> requests;
  for (const std::uint64_t seed : seeds_of(o)) {
    const std::string out = output_of(o.output, seed);
    if (o.resume && has_ended(out, seed)) continue;
    requests.push_back(request_of(o, corpus, out, seed));
    if (!o.resume) check_fresh(requests.back());  // of all, before the first begins
  }
  return requests;
}

void add_options(Command& sub, ParityRunOptions& o) {
  sub.option("-o,--output", o.output, "The run's file, HDF5; OUT.journal and OUT.checkpoint while it is under way")
      .required()
      .not_empty();
  sub.option("--preset", o.preset, "Sizes: tiny (the default), small or full; docs/parity.md has them");
  sub.option("--config", o.config, "All of the configuration as JSON, in place of a preset");
  sub.option("--recipe", o.recipe, "Recipe of the MoE layers: a name, or a file ending in .json (default bf16)");
  const CommandOption seed = sub.option("--seed", o.seed, "Of initial weights, data and rounding (default 0)");
  sub.option("--seeds", o.seeds,
             "Several at once, sharing the device or the CPU, each to the OUT that has its number for {seed}")
      .comma_separated()
      .excludes(seed);
  sub.option("--steps", o.steps, "Default 10,000");
  sub.option("--batch", o.batch, "Sequences a step");
  sub.option("--rounding", o.rounding, "Token rounding by this rule: nr-f, sr-f, ... (default none: token choice)");
  sub.option("--tile", o.tile, "Of the rounding (default 128)");
  sub.option("--moments", o.moments, "Type that AdamW's moments are kept in").one_of({"fp32", "bf16"});
  sub.option("--perturb", o.perturb,
             "Runs of BF16 against BF16: all (every weight starts 2^-8 up or down), or 1 + index of one that starts an "
             "ulp up")
      .not_empty();
  sub.flag("--skip-non-finite", o.skips_non_finite, "A gradient norm of NaN or Inf: leave the update out and go on");
  sub.option("--data", o.data, "Text to train on: a file or a folder (default: the headers of Boost 1.74)");
  sub.option("--evaluate-every", o.evaluate_every, "Steps between evaluations (default a hundredth of all)");
  sub.option("--observe-every", o.observe_every, "Steps between observations of quantization and loads (as well)");
  sub.option("--checkpoint-every", o.checkpoint_every, "Steps between checkpoints to go on from (a twentieth)");
  sub.option("--keep", o.kept, "Steps before which a checkpoint is kept beside OUT (default 100, the middle, the last)")
      .comma_separated();
  sub.option("--validation-sequences", o.sequences, "Of each evaluation (default 64)");
  sub.option("--engine", o.engine,
             "What computes: cpu, sm90 (a Hopper GPU), or a library of kernels/train.h; the bits are one's")
      .shows_default();
  sub.option("--threads", o.threads, "Of the CPU; 0: all; they change no bit").between(0, 1024);
  sub.flag("--resume", o.resume, "Go on with runs that were interrupted; with --seeds, those that have not ended");
  sub.flag("--json", o.json, "What came of it as JSON: an object, with --seeds a list of them");
}

}  // namespace mxcheck
