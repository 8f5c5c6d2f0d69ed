#include "trainer/run/campaign.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "goldens/json/strict_json.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "trainer/config/config.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"

namespace mxcheck {
namespace {

constexpr int kCampaignDepth = 16;
constexpr std::uint64_t kMostCampaignBytes = 1 << 20;
constexpr std::size_t kMostSeeds = 1000, kMostArms = 1000, kMostPoints = 100;

std::vector<std::uint64_t> seeds_in(JsonObject& o, const std::vector<std::uint64_t>& otherwise) {
  if (!o.has("seeds")) return otherwise;
  std::vector<std::uint64_t> seeds;
  for (const Json& value : o.list("seeds", kMostSeeds)) {
    const auto seed = integer_in(value, 0, std::int64_t{1} << 53);
    if (!seed) o.refuse("seeds", "has what is no integer of 0 to 2^53");
    seeds.push_back(static_cast<std::uint64_t>(*seed));
  }
  std::vector<std::uint64_t> sorted = seeds;
  std::sort(sorted.begin(), sorted.end());
  if (seeds.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    o.refuse("seeds", "is empty, or has a seed twice");
  return seeds;
}

CampaignArm arm_in(const Json& json, const std::string& place, const TrainingConfig& trunk,
                   const std::vector<std::uint64_t>& seeds) {
  JsonObject o(json, place);
  CampaignArm arm{.config = trunk, .at = {}, .seeds = seeds_in(o, seeds)};
  arm.config.recipe = layer_recipe_at(o.text("recipe"));
  if (o.has("rounding")) arm.config.rounding = token_rounding_rule_named(o.text("rounding"));
  const std::string moments = o.text_or("moments", "fp32");
  if (moments != "fp32" && moments != "bf16") o.refuse("moments", "is '" + moments + "'; fp32 or bf16 is needed");
  arm.config.optimizer.moments = moments == "bf16" ? Format::bf16 : Format::fp32;
  const std::string perturb = o.text_or("perturb", "");
  if (!perturb.empty() && perturb != "all") o.refuse("perturb", "is '" + perturb + "'; all is needed, or no such key");
  if (!perturb.empty()) arm.config.perturb = kPerturbAll;
  for (const Json& value : o.list("at", kMostPoints)) {
    const auto percent = integer_in(value, 0, 99);
    if (!percent) o.refuse("at", "has what is no percent from 0 (from scratch) to 99");
    if (*percent > 0 && trunk.steps * *percent / 100 == 0) o.refuse("at", "has a percent that is less than a step");
    if (std::find(arm.at.begin(), arm.at.end(), *percent) != arm.at.end()) o.refuse("at", "has a percent twice");
    if (*percent == 0 && arm.config == trunk) o.refuse("at", "has 0 for the trunk's own runs, which are made anyway");
    arm.at.push_back(*percent);
  }
  if (arm.at.empty()) o.refuse("at", "is empty");
  o.finish();
  check(arm.config);
  return arm;
}

std::string file_name_of(const TrainingConfig& c) {
  std::string name = c.recipe.name;
  if (c.rounding != TokenRoundingRule::none) name += "_" + std::string(to_text(c.rounding));
  if (c.optimizer.moments == Format::bf16) name += "_moments_bf16";
  if (c.perturb != 0) name += "_moved";
  return name;
}

}  // namespace

Campaign campaign_from_json(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, kCampaignDepth, ErrorKind::usage);
  JsonObject o(json, where + ": $");
  Campaign c;
  const bool is_whole = o.has("configuration");
  const std::string& preset = c.preset = is_whole ? "" : o.text_or("preset", std::string(kVerdictPreset));
  c.trunk = is_whole ? config_from_json(to_text(o.required("configuration")), where + ": $.configuration")
                     : preset_named(preset);
  if (o.has("steps")) c.trunk.steps = o.integer("steps", 1, 1 << 24);
  if (o.has("batch")) c.trunk.batch = o.integer("batch", 1, 1 << 24);
  c.trunk.seed = 0;
  c.plan = preset == kVerdictPreset ? verdict_plan_of(c.trunk) : plan_of(c.trunk);
  if (o.has("evaluate_every")) c.plan.evaluate_every = o.integer("evaluate_every", 1, 1 << 24);
  if (o.has("validation_sequences")) c.plan.validation_sequences = o.integer("validation_sequences", 1, 1 << 20);
  c.plan.kept.clear();
  const std::vector<std::uint64_t> seeds = seeds_in(o, {});
  if (seeds.empty()) o.refuse("seeds", "is not there");
  std::set<std::string> names;
  const Json::Array& arms = o.list("arms", kMostArms);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string place = fmt::format("{}: $.arms[{}]", where, i);
    try {
      c.arms.push_back(arm_in(arms[i], place, c.trunk, seeds));
    } catch (const Error& e) {
      const std::string what = e.what();
      throw Error(ErrorKind::usage, what.starts_with(where) ? what : place + ": " + what);
    }
    for (const std::int64_t percent : c.arms.back().at) {
      if (!names.insert(fmt::format("{} {}", file_name_of(c.arms.back().config), percent)).second)
        throw Error(ErrorKind::usage, fmt::format("{}: at {} % is there already, in an arm before", place, percent));
      const std::int64_t step = c.trunk.steps * percent / 100;
      if (step > 0 && std::find(c.plan.kept.begin(), c.plan.kept.end(), step) == c.plan.kept.end())
        c.plan.kept.push_back(step);
    }
  }
  o.finish();
  std::sort(c.plan.kept.begin(), c.plan.kept.end());
  check(c.plan, c.trunk);
  return c;
}

Campaign read_campaign(const std::string& path) {
  const FileSource file(path);
  if (file.size() > kMostCampaignBytes)
    throw Error(ErrorKind::input, path + ": has " + std::to_string(file.size()) + " bytes; at most 2^20 are read");
  return campaign_from_json(file.text(), path);
}

std::vector<CampaignRun> runs_of(const Campaign& campaign, const std::string& folder) {
  const auto path = [&](const std::string& name) { return (std::filesystem::path(folder) / name).string(); };
  std::map<std::uint64_t, std::ptrdiff_t> trunks;
  std::vector<CampaignRun> runs;
  for (const CampaignArm& arm : campaign.arms) {
    for (const std::uint64_t seed : arm.seeds) {
      if (!trunks.try_emplace(seed, std::ssize(runs)).second) continue;
      CampaignRun& trunk = runs.emplace_back();
      trunk.config = campaign.trunk, trunk.config.seed = seed, trunk.plan = campaign.plan;
      trunk.out = path(fmt::format("{}_{}.h5", file_name_of(trunk.config), seed));
    }
  }
  for (const CampaignArm& arm : campaign.arms) {
    for (const std::int64_t percent : arm.at) {
      for (const std::uint64_t seed : arm.seeds) {
        CampaignRun& run = runs.emplace_back();
        run.config = arm.config, run.config.seed = seed, run.plan = campaign.plan;
        run.plan.kept.clear();
        run.at = campaign.trunk.steps * percent / 100;
        if (percent > 0) run.trunk = trunks.at(seed);
        const std::string point = percent == 0 ? "" : fmt::format("_at{}", percent);
        run.out = path(fmt::format("{}{}_{}.h5", file_name_of(run.config), point, seed));
      }
    }
  }
  return runs;
}

namespace {

enum class RunStatus : std::uint8_t { waits, begun, ended, failed };

class CampaignRunner {
 public:
  CampaignRunner(const std::vector<CampaignRun>& runs, const Corpus& corpus, const EngineMaker& engine,
                 const CampaignOptions& options, const CampaignWatch& watch)
      : runs_(runs),
        corpus_(corpus),
        engine_(engine),
        options_(options),
        watch_(watch),
        status_(runs.size()),
        steps_(runs.size()) {
    for (std::size_t i = 0; i < runs.size(); ++i) look_at(i);
    progress_.runs = std::ssize(runs);
    for (const CampaignRun& run : runs) progress_.tokens += run.steps() * run.config.tokens();
    count();
    progress_.tokens_before = progress_.tokens_done;
  }

  bool run() {
    std::vector<std::thread> threads;
    const auto some = std::min<std::size_t>(static_cast<std::size_t>(options_.at_once), runs_.size());
    for (std::size_t i = 1; i < some; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    return !stopped_;
  }

 private:
  // What an earlier sitting left of a run: all of it, a part, or nothing.
  void look_at(std::size_t i) {
    const CampaignRun& run = runs_[i];
    const bool begun = std::filesystem::exists(journal_of(run.out));
    if (!begun && !std::filesystem::exists(run.out)) return;
    const RunRecord record = begun ? read_journal(journal_of(run.out)).record : read_run(run.out);
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorKind::input, run.out + ": is another run than the campaign's: " + what);
    };
    if (const std::string difference = first_difference(record.config, run.config); !difference.empty())
      refuse(difference);
    if (record.first_step() != run.at)
      refuse(fmt::format("it begins after {} steps, not {}", record.first_step(), run.at));
    if (record.training_sha256 != corpus_.training_sha256) refuse("it was trained on other data");
    if (record.plan.evaluate_every != run.plan.evaluate_every ||
        record.plan.validation_sequences != run.plan.validation_sequences)
      refuse("it has other evaluations");
    steps_[i] = std::ssize(record.steps);
    if (begun) return;
    status_[i] = RunStatus::ended;
    if (run.trunk >= 0) check_branch(record, run.out, read_trunk(runs_[static_cast<std::size_t>(run.trunk)].out));
  }

  void count() {
    progress_.tokens_done = 0, progress_.runs_done = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      progress_.tokens_done += steps_[i] * runs_[i].config.tokens();
      progress_.runs_done += status_[i] == RunStatus::ended ? 1 : 0;
    }
  }

  // The first that waits for nothing; -1 where all have been begun, or cannot be.
  std::ptrdiff_t take() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      bool later = false;
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        if (status_[i] != RunStatus::waits) continue;
        const std::ptrdiff_t trunk = runs_[i].trunk;
        const RunStatus of_trunk = trunk < 0 ? RunStatus::ended : status_[static_cast<std::size_t>(trunk)];
        if (of_trunk == RunStatus::failed) status_[i] = RunStatus::failed;
        if (of_trunk == RunStatus::ended) {
          status_[i] = RunStatus::begun;
          return static_cast<std::ptrdiff_t>(i);
        }
        later = later || of_trunk == RunStatus::begun || of_trunk == RunStatus::waits;
      }
      if (!later) return -1;
      changed_.wait(lock);
    }
    return -1;
  }

  void work() {
    for (std::ptrdiff_t next = 0; (next = take()) >= 0;) {
      const auto i = static_cast<std::size_t>(next);
      RunStatus status = RunStatus::failed;
      std::exception_ptr error;
      try {
        status = one_run(i).end == RunEnd::unfinished ? RunStatus::waits : RunStatus::ended;
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      status_[i] = status;
      if (error && !error_) error_ = error;
      if (status == RunStatus::ended) tidy(i);
      count();
      changed_.notify_all();
    }
  }

  RunRecord one_run(std::size_t i) {
    const CampaignRun& run = runs_[i];
    RunRequest r{
        .out = run.out, .config = run.config, .plan = run.plan, .corpus = &corpus_, .mxcheck = options_.mxcheck};
    r.resume = std::filesystem::exists(journal_of(run.out));
    if (r.resume) r.plan = read_journal(journal_of(run.out)).record.plan;
    if (run.trunk >= 0) {
      const auto trunk = std::make_shared<const Trunk>(read_trunk(runs_[static_cast<std::size_t>(run.trunk)].out));
      r.branch = branch_of(*trunk, run.config, run.at);
      r.trunk = [this, trunk, at = run.at] { return state_of(*trunk, at, corpus_, engine_, {}); };
    }
    const std::unique_ptr<TrainingEngine> engine = engine_(run.config);
    return run_training(r, *engine, [&](const RunProgress& p) {
      const std::lock_guard lock(mutex_);
      steps_[i] = p.step - run.at;
      count();
      progress_.now =
          fmt::format("{}, step {} of {}", std::filesystem::path(run.out).filename().string(), p.step, p.steps);
      if (watch_ && !watch_(progress_)) stopped_ = true;
      return !stopped_;
    });
  }

  // A trunk's checkpoints have done their work when all that branch off from it have ended.
  void tidy(std::size_t i) {
    if (options_.keeps_checkpoints) return;
    const std::ptrdiff_t trunk = runs_[i].trunk < 0 ? static_cast<std::ptrdiff_t>(i) : runs_[i].trunk;
    for (std::size_t j = 0; j < runs_.size(); ++j) {
      if (runs_[j].trunk == trunk && status_[j] != RunStatus::ended) return;
    }
    const CampaignRun& of = runs_[static_cast<std::size_t>(trunk)];
    for (const std::int64_t step : of.plan.kept) std::filesystem::remove(kept_checkpoint_of(of.out, step));
  }

  const std::vector<CampaignRun>& runs_;
  const Corpus& corpus_;
  const EngineMaker& engine_;
  const CampaignOptions& options_;
  const CampaignWatch& watch_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<RunStatus> status_;
  std::vector<std::int64_t> steps_;  // done, of each run
  CampaignProgress progress_;
  std::exception_ptr error_;
  bool stopped_ = false;
};

}  // namespace

bool run_campaign(const std::vector<CampaignRun>& runs, const Corpus& corpus, const EngineMaker& engine,
                  const CampaignOptions& options, const CampaignWatch& watch) {
  return CampaignRunner(runs, corpus, engine, options, watch).run();
}

}  // namespace mxcheck
