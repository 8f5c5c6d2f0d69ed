#include "trainer/run/campaign.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "goldens/io/atomic_file.h"
#include "goldens/io/byte_source.h"
#include "goldens/json/json.h"
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
  const Json& recipe = o.required("recipe");
  const auto* const name = recipe.get_if<std::string>();
  arm.config.recipe = name != nullptr ? layer_recipe_at(*name) : layer_recipe_from(to_text(recipe), place + ".recipe");
  if (o.has("bf16_last")) arm.config.bf16_last = o.integer("bf16_last", 0, trunk.model.layers);
  if (o.has("rounding")) arm.config.rounding = token_rounding_rule_named(o.text("rounding"));
  const std::string moments = o.text_or("moments", "fp32");
  if (moments != "fp32" && moments != "bf16") o.refuse("moments", "is '" + moments + "'; fp32 or bf16 is needed");
  arm.config.optimizer.moments = moments == "bf16" ? Format::bf16 : Format::fp32;
  const std::string perturb = o.text_or("perturb", "");
  if (!perturb.empty() && perturb != "all" && perturb != "order")
    o.refuse("perturb", "is '" + perturb + "'; all or order is needed, or no such key");
  if (!perturb.empty()) arm.config.perturb = perturb == "all" ? kPerturbAll : kPerturbOrder;
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
  for (char& letter : name) {  // of a recipe of the user's own
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-';
    if (!plain) letter = '_';
  }
  if (c.bf16_last != 0) name += "_bf16_last" + std::to_string(c.bf16_last);
  if (c.rounding != TokenRoundingRule::none) name += "_" + std::string(to_text(c.rounding));
  if (c.optimizer.moments == Format::bf16) name += "_moments_bf16";
  if (c.perturb != 0) name += c.perturb == kPerturbOrder ? "_reordered" : "_moved";
  return name;
}

void set_sizes(ModelShape& model, const Json& json, const std::string& place) {
  JsonObject o(json, place);
  const auto set = [&](const char* key, std::int64_t& size) {
    if (o.has(key)) size = o.integer(key, 1, 1 << 24);
  };
  set("layers", model.layers), set("width", model.width), set("heads", model.heads), set("experts", model.experts);
  set("inner", model.inner), set("top_k", model.top_k), set("length", model.length);
  o.finish();
}

void set_rates(OptimizerConfig& optimizer, const Json& json, const std::string& place) {
  JsonObject o(json, place);
  const auto set = [&](const char* key, float& rate) {
    if (!o.has(key)) return;
    const Json& value = o.required(key);
    const auto* const number = value.get_if<double>();
    const auto integer = integer_in(value, 0, 1);
    const double given = number != nullptr ? *number : integer ? static_cast<double>(*integer) : -1;
    if (!(given >= 0 && given <= 1)) o.refuse(key, "must be a number from 0 to 1");
    rate = static_cast<float>(given);
  };
  set("peak_rate", optimizer.peak_rate), set("last_rate", optimizer.last_rate);
  if (o.has("warm_up")) optimizer.warm_up = o.integer("warm_up", 0, 1 << 24);
  o.finish();
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
  if (o.has("model")) set_sizes(c.trunk.model, o.required("model"), where + ": $.model");
  if (o.has("optimizer")) set_rates(c.trunk.optimizer, o.required("optimizer"), where + ": $.optimizer");
  if (o.has("steps")) c.trunk.steps = o.integer("steps", 1, 1 << 24);
  if (o.has("batch")) c.trunk.batch = o.integer("batch", 1, 1 << 24);
  if (o.has("microbatches")) c.trunk.microbatches = o.integer("microbatches", 1, 1 << 24);
  c.trunk.seed = 0;
  c.plan = preset == kVerdictPreset ? verdict_plan_of(c.trunk) : plan_of(c.trunk);
  if (o.has("evaluate_every")) c.plan.evaluate_every = o.integer("evaluate_every", 1, 1 << 24);
  if (o.has("validation_sequences")) c.plan.validation_sequences = o.integer("validation_sequences", 1, 1 << 20);
  if (o.has("observe_every")) c.plan.observe_every = o.integer("observe_every", 1, 1 << 24);
  if (o.has("checkpoint_every")) c.plan.checkpoint_every = o.integer("checkpoint_every", 1, 1 << 24);
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
  if (arms.empty()) o.refuse("arms", "is empty");
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
  std::map<std::uint64_t, std::set<std::int64_t>> kept;  // of each seed's trunk
  struct Wanted {
    std::int64_t at;
    std::uint64_t seed;
    const CampaignArm* arm;
  };
  std::vector<Wanted> wanted;
  for (const CampaignArm& arm : campaign.arms) {
    for (const std::int64_t percent : arm.at) {
      for (const std::uint64_t seed : arm.seeds) {
        wanted.push_back({percent, seed, &arm});
        std::set<std::int64_t>& steps = kept[seed];
        if (percent > 0) steps.insert(campaign.trunk.steps * percent / 100);
      }
    }
  }
  std::map<std::uint64_t, std::ptrdiff_t> trunks;
  std::vector<CampaignRun> runs;
  for (const bool has_branches : {true, false}) {
    for (const auto& [seed, steps] : kept) {
      if (steps.empty() == has_branches) continue;
      trunks[seed] = std::ssize(runs);
      CampaignRun& trunk = runs.emplace_back();
      trunk.config = campaign.trunk, trunk.config.seed = seed, trunk.plan = campaign.plan;
      trunk.plan.kept.assign(steps.begin(), steps.end());
      trunk.out = path(fmt::format("{}_{}.h5", file_name_of(trunk.config), seed));
    }
  }
  // Branches of one state are together, so that it is read once; runs from scratch come last.
  std::ranges::stable_sort(wanted, {}, [](const Wanted& w) { return std::tuple(w.at == 0, w.at, w.seed); });
  for (const auto& [percent, seed, arm] : wanted) {
    CampaignRun& run = runs.emplace_back();
    run.config = arm->config, run.config.seed = seed, run.plan = campaign.plan;
    run.plan.kept.clear();
    run.at = campaign.trunk.steps * percent / 100;
    if (percent > 0) run.trunk = trunks.at(seed);
    const std::string point = percent == 0 ? "" : fmt::format("_at{}", percent);
    run.out = path(fmt::format("{}{}_{}.h5", file_name_of(run.config), point, seed));
  }
  std::set<std::string> files;
  for (const CampaignRun& run : runs) {
    if (!files.insert(run.out).second)
      throw Error(ErrorKind::usage, run.out + ": is the file of two runs; a recipe needs another name");
  }
  return runs;
}

namespace {

// Runs that several processes share: a byte of one file in the folder is locked by the process that is at a run, and is
// free again however that process ends. Locks of an open file description, so that threads of one process share them.
class RunLocks {
 public:
  explicit RunLocks(const std::string& folder)
      : path_((std::filesystem::path(folder) / ".campaign.lock").string()),
        file_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail("cannot be opened");
  }
  ~RunLocks() { close(file_); }
  RunLocks(const RunLocks&) = delete;
  RunLocks& operator=(const RunLocks&) = delete;

  // True if no other process is at the run: then this one is.
  bool take(const std::string& out) {
    if (set(out, F_WRLCK)) return true;
    if (errno != EAGAIN && errno != EACCES) fail("cannot be locked");
    return false;
  }
  void release(const std::string& out) { (void)set(out, F_UNLCK); }

 private:
  [[nodiscard]] bool set(const std::string& path, short type) const {
    const std::string out = std::filesystem::path(path).filename().string();
    struct flock lock {};
    lock.l_type = type, lock.l_whence = SEEK_SET, lock.l_len = 1;
    lock.l_start = static_cast<off_t>(XXH3_64bits(out.data(), out.size()) >> 2);
    return fcntl(file_, F_OFD_SETLK, &lock) == 0;
  }
  void fail(const char* what) const {
    throw Error(ErrorKind::environment, path_ + ": " + what + ": " + std::strerror(errno));
  }

  std::string path_;
  int file_;
};

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
        locks_(std::filesystem::path(runs.front().out).parent_path().string()),
        status_(runs.size()),
        steps_(runs.size()) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!locks_.take(runs[i].out)) continue;  // looked at when it is free
      look_at(i);
      locks_.release(runs[i].out);
    }
    progress_.runs = std::ssize(runs);
    for (const CampaignRun& run : runs) progress_.tokens += run.steps() * run.config.tokens();
    count();
  }

  bool run() {
    std::vector<std::thread> threads;
    const auto some = std::min<std::size_t>(static_cast<std::size_t>(options_.at_once), runs_.size());
    try {
      while (threads.size() + 1 < some) threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // no more threads: fewer runs at once
    }
    work();
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    if (!stopped_) remove_checkpoints();
    return !stopped_;
  }

 private:
  // The part of a run that an earlier sitting, or another process, left: all of it, some, or nothing.
  void look_at(std::size_t i) {
    const CampaignRun& run = runs_[i];
    const bool begun = path_exists(journal_of(run.out));
    if (!begun && !path_exists(run.out)) return;
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
    if (run.trunk >= 0) check_branch(record, run.out, *trunk_of(run.trunk));
  }

  void count() {
    progress_.tokens_done = 0, progress_.runs_done = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      progress_.tokens_done += steps_[i] * runs_[i].config.tokens();
      progress_.runs_done += status_[i] == RunStatus::ended ? 1 : 0;
    }
  }

  // True if run i, which waits, is now this process's. False too where another process ended it meanwhile.
  bool claims(std::size_t i) {
    if (!locks_.take(runs_[i].out)) return false;
    try {
      look_at(i);
    } catch (...) {
      locks_.release(runs_[i].out);
      throw;
    }
    if (status_[i] == RunStatus::waits) return true;
    locks_.release(runs_[i].out);
    count();
    drop_state(i);
    return false;
  }

  // The first that waits for nothing: a trunk, a run from scratch, or a branch whose trunk has come to its step; -1
  // where all have ended, or cannot be begun.
  std::ptrdiff_t take() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      bool later = false;
      bool elsewhere = false;
      for (std::size_t i = 0; i < runs_.size() && !stopped_; ++i) {
        if (status_[i] != RunStatus::waits) continue;
        const std::ptrdiff_t trunk = runs_[i].trunk;
        const RunStatus of_trunk = trunk < 0 ? RunStatus::ended : status_[static_cast<std::size_t>(trunk)];
        if (of_trunk == RunStatus::failed) status_[i] = RunStatus::failed;
        if (of_trunk == RunStatus::ended || (of_trunk == RunStatus::begun && state_left(runs_[i]) != nullptr)) {
          if (claims(i)) {
            status_[i] = RunStatus::begun;
            return static_cast<std::ptrdiff_t>(i);
          }
          elsewhere = elsewhere || status_[i] == RunStatus::waits;
        }
        later = later || of_trunk == RunStatus::begun || of_trunk == RunStatus::waits;
      }
      if (!later && !elsewhere) return -1;
      if (watch_ && !watch_(progress_)) stopped_ = true;
      // Another process tells nothing: its locks are asked for again.
      changed_.wait_for(lock, std::chrono::seconds(1));
    }
    return -1;
  }

  void work() {
    for (;;) {
      std::exception_ptr error;
      std::ptrdiff_t next = -1;
      try {
        next = take();
      } catch (...) {  // a file of another run, met late
        error = std::current_exception();
      }
      if (next < 0) {
        const std::lock_guard lock(mutex_);
        if (error && !error_) error_ = error;
        stopped_ = stopped_ || error != nullptr;
        changed_.notify_all();
        return;
      }
      const auto i = static_cast<std::size_t>(next);
      RunStatus status = RunStatus::failed;
      try {
        status = one_run(i).end == RunEnd::unfinished ? RunStatus::waits : RunStatus::ended;
      } catch (...) {
        error = std::current_exception();
      }
      locks_.release(runs_[i].out);
      const std::lock_guard lock(mutex_);
      status_[i] = status;
      if (error && !error_) error_ = error;
      drop_state(i);
      count();
      changed_.notify_all();
    }
  }

  RunRecord one_run(std::size_t i) {
    const CampaignRun& run = runs_[i];
    RunRequest r{
        .out = run.out, .config = run.config, .plan = run.plan, .corpus = &corpus_, .mxcheck = options_.mxcheck};
    r.resume = path_exists(journal_of(run.out));
    if (r.resume) r.plan = read_journal(journal_of(run.out)).record.plan;
    if (run.trunk >= 0) set_trunk(r, run);
    if (run.trunk < 0) r.keeps = [this, i](const auto& state) { hold_state(static_cast<std::ptrdiff_t>(i), state); };
    const std::unique_ptr<TrainingEngine> engine = engine_(run.config);
    return run_training(r, *engine, [&](const RunProgress& p) {
      const std::lock_guard lock(mutex_);
      progress_.tokens_own += (p.step - run.at - steps_[i]) * run.config.tokens();
      steps_[i] = p.step - run.at;
      count();
      progress_.now =
          fmt::format("{}, step {} of {}", std::filesystem::path(run.out).filename().string(), p.step, p.steps);
      if (watch_ && !watch_(progress_)) stopped_ = true;
      return !stopped_;
    });
  }

  // A branch of a trunk that is under way begins with the state that the trunk left, and waits for its end at its own.
  void set_trunk(RunRequest& r, const CampaignRun& run) {
    const auto place = static_cast<std::size_t>(run.trunk);
    const bool has_ended = [&] {
      const std::lock_guard lock(mutex_);
      return status_[place] == RunStatus::ended;
    }();
    const std::shared_ptr<const TrainingState> held = has_ended ? nullptr : state_left(run);
    if (held != nullptr) {
      r.branch = branch_under_way(runs_[place].out, runs_[place].config, run.config, *held);
      r.trunk = [held] { return held; };
      r.trunk_sha256 = [this, place] { return sha256_of_ended(place); };
      return;
    }
    const std::shared_ptr<const Trunk> trunk = trunk_of(run.trunk);
    r.branch = branch_of(*trunk, run.config, run.at);
    r.trunk = [this, trunk, &run] { return state_at(*trunk, run); };
  }
  // None where the trunk was stopped.
  std::optional<std::string> sha256_of_ended(std::size_t trunk) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return status_[trunk] != RunStatus::begun; });
    if (status_[trunk] == RunStatus::waits) return std::nullopt;
    if (status_[trunk] == RunStatus::failed)
      throw Error(ErrorKind::input, runs_[trunk].out + ": failed after a run had branched off from it");
    lock.unlock();
    return trunk_of(static_cast<std::ptrdiff_t>(trunk))->sha256;
  }

  // The trunk, and its state after one step, which the branches of that trunk after that step share.
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<const Trunk> trunk;
    std::shared_ptr<const TrainingState> state;
  };
  Shared& shared(std::ptrdiff_t trunk, std::int64_t at) {
    const std::lock_guard lock(shared_mutex_);
    return shared_[{trunk, at}];
  }
  std::shared_ptr<const Trunk> trunk_of(std::ptrdiff_t trunk) {
    Shared& s = shared(trunk, 0);
    const std::lock_guard lock(s.mutex);
    if (!s.trunk) s.trunk = std::make_shared<const Trunk>(read_trunk(runs_[static_cast<std::size_t>(trunk)].out));
    return s.trunk;
  }
  std::shared_ptr<const TrainingState> state_at(const Trunk& trunk, const CampaignRun& run) {
    Shared& s = shared(run.trunk, run.at);
    const std::lock_guard lock(s.mutex);
    if (!s.state) s.state = state_of(trunk, run.at, corpus_, engine_, {});
    return s.state;
  }
  // A trunk's state at a branch point is held for the branches, unless many large ones would be: then it is read.
  void hold_state(std::ptrdiff_t trunk, const std::shared_ptr<const TrainingState>& state) {
    constexpr std::int64_t kMostHeld = std::int64_t{1} << 34;  // bytes
    const std::int64_t bytes = parameter_count(runs_[static_cast<std::size_t>(trunk)].config.model) * 12;
    Shared& s = shared(trunk, state->step);
    const std::lock_guard lock(s.mutex);
    if (s.state || (held_ += bytes) > kMostHeld) return;
    s.state = state;
    changed_.notify_all();
  }
  // The state that a run begins with, if its trunk has left it.
  std::shared_ptr<const TrainingState> state_left(const CampaignRun& run) {
    Shared& s = shared(run.trunk, run.at);
    const std::lock_guard lock(s.mutex);
    return s.state;
  }
  // A state is kept while a branch that begins with it has not ended.
  void drop_state(std::size_t i) {
    const CampaignRun& run = runs_[i];
    if (run.trunk < 0) return;
    for (std::size_t j = 0; j < runs_.size(); ++j) {
      const bool shares = runs_[j].trunk == run.trunk && runs_[j].at == run.at;
      if (shares && (status_[j] == RunStatus::waits || status_[j] == RunStatus::begun)) return;
    }
    Shared& s = shared(run.trunk, run.at);
    const std::lock_guard lock(s.mutex);
    s.state.reset();
  }

  // A trunk's checkpoints have done their work when all runs have ended.
  void remove_checkpoints() const {
    if (options_.keeps_checkpoints) return;
    for (const CampaignRun& run : runs_) {
      for (const std::int64_t step : run.plan.kept) {
        std::error_code left;  // it is in nobody's way
        std::filesystem::remove(kept_checkpoint_of(run.out, step), left);
      }
    }
  }

  const std::vector<CampaignRun>& runs_;
  const Corpus& corpus_;
  const EngineMaker& engine_;
  const CampaignOptions& options_;
  const CampaignWatch& watch_;
  RunLocks locks_;
  std::mutex shared_mutex_;
  std::map<std::pair<std::ptrdiff_t, std::int64_t>, Shared> shared_;
  std::atomic<std::int64_t> held_ = 0;  // bytes of states that trunks left, also of those that are dropped
  std::mutex mutex_;                    // of all below; taken before shared_mutex_
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
