// mxcheck_sm90_train_bench [--library PATH] [--recipe NAME] [--batch N] [--steps N] [--runs 1,2,4]: tokens per second
// of training, by the wall clock around whole steps, of one run and of several at once in one process, a thread and a
// stream each. --config FILE --ranks 1,2,4: of one run that several GPUs share.

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/train/ranks.h"
#include "benchmarks/sm90/train/train_run.h"
#include "kernels/train.h"
#include "numerics/error.h"
#include "reference/training/attention.h"
#include "reference/training/model.h"
#include "reference/training/optimizer.h"

namespace mxcheck::bench {

namespace {

TrainingConfig full_model(const std::string& recipe, std::int64_t batch, std::uint64_t seed) {
  TrainingConfig c;
  c.model = {.layers = 4, .width = 256, .heads = 4, .experts = 32, .inner = 128, .top_k = 4, .length = 256};
  c.batch = batch;
  c.steps = 10000;
  c.seed = seed;
  c.recipe = layer_recipe_named(recipe);
  return c;
}

}  // namespace

const mxcheck_train_table& load_train(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorKind::environment, std::string("cannot load the library: ") + dlerror());
  void* const symbol = dlsym(library, MXCHECK_TRAIN_SYMBOL);
  if (symbol == nullptr) throw Error(ErrorKind::environment, path + " has no symbol " MXCHECK_TRAIN_SYMBOL);
  const mxcheck_train_table& table = *reinterpret_cast<mxcheck_train_function>(symbol)();
  if (table.interface_version != MXCHECK_TRAIN_VERSION) {
    throw Error(ErrorKind::environment, path + " is of interface version " + std::to_string(table.interface_version));
  }
  return table;
}

TrainRun::TrainRun(const mxcheck_train_table& table, const TrainingConfig& config, const std::string& rounding,
                   const RankOfRun& rank)
    : table_(table), config_(config) {
  create(rounding, rank);
  const TrainingState state = initial_state(config_);
  for (std::size_t p = 0; p < state.weights.size(); ++p) {
    require_ok(table_.set_parameter(run_, static_cast<std::int64_t>(p), state.weights[p].data(),
                                    state.first_moments[p].data(), state.second_moments[p].data(), message_,
                                    sizeof(message_)));
  }
  for (std::int64_t i = 0; i < config_.batch * (config_.model.length + 1); ++i)
    data_.push_back(static_cast<std::uint8_t>(i * i % 251));
}
TrainRun::~TrainRun() { table_.destroy(run_); }

void TrainRun::create(const std::string& rounding, const RankOfRun& rank) {
  const RotaryTable rotary = rotary_table(config_.model.length, config_.model.head_width());
  const ModelShape& m = config_.model;
  const OptimizerConfig& o = config_.optimizer;
  mxcheck_train_config c{};
  c.size = sizeof(c);
  c.layers = m.layers, c.width = m.width, c.heads = m.heads, c.experts = m.experts;
  c.inner = m.inner, c.top_k = m.top_k, c.length = m.length, c.batch = config_.batch;
  c.recipe = config_.recipe.name.c_str(), c.rounding = rounding.c_str(), c.tile = config_.tile;
  c.seed = config_.seed, c.balance = config_.balance;
  c.beta1 = o.beta1, c.beta2 = o.beta2, c.epsilon = o.epsilon, c.decay = o.decay, c.clip = o.clip;
  c.cosine = rotary.cosine.data(), c.sine = rotary.sine.data();
  c.microbatches = config_.microbatches, c.ranks = rank.ranks, c.rank = rank.rank, c.exchange = rank.exchange;
  require_ok(table_.create(&c, &run_, message_, sizeof(message_)));
}

void TrainRun::require_ok(mxcheck_status status) const {
  if (status == MXCHECK_OK) return;
  throw Error(ErrorKind::environment, "the library: status " + std::to_string(status) + ", " + message_);
}

void TrainRun::step() {
  mxcheck_train_step input{};
  input.size = sizeof(input);
  input.tokens = data_.data();
  input.step = static_cast<std::uint64_t>(steps_);
  input.rate = learning_rate(config_, steps_);
  ++steps_;
  input.correction1 = bias_correction(config_.optimizer.beta1, steps_);
  input.correction2 = bias_correction(config_.optimizer.beta2, steps_);
  mxcheck_train_outcome outcome{};
  outcome.size = sizeof(outcome);
  require_ok(table_.step(run_, &input, &outcome, message_, sizeof(message_)));
  loss_ = outcome.loss;
}

// mxcheck_sm90_train_bench [--library PATH] [--recipe NAME] [--batch N] [--steps N] [--runs 1,2,4]: tokens per second
// of training, by the wall clock around whole steps, of one run and of several at once in one process, a thread and a
// stream each.

namespace {

struct Options {
  std::string library = MXCHECK_SM90_TRAIN_LIBRARY;
  std::vector<std::string> recipes{"bf16", "mxfp8", "dsv3", "fp8_tensor"};
  std::string rounding = "none";
  std::vector<int> runs{1, 2, 4};
  int batch = 16;
  int steps = 50;
  std::vector<int> ranks;
  std::string config;
};

using Clock = std::chrono::steady_clock;

double seconds_of(const std::vector<std::unique_ptr<TrainRun>>& runs, int steps) {
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (const auto& run : runs) {
    threads.emplace_back([&run, steps] {
      for (int i = 0; i < steps; ++i) run->step();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The least of five: other work on the host only adds.
void measure(const mxcheck_train_table& table, const Options& options, const std::string& recipe, int count) {
  constexpr int kTimes = 5;
  std::vector<std::unique_ptr<TrainRun>> runs;
  for (int i = 0; i < count; ++i)
    runs.push_back(std::make_unique<TrainRun>(table, full_model(recipe, options.batch, static_cast<std::uint64_t>(i)),
                                              options.rounding));
  for (const auto& run : runs) run->step(), run->step();  // launches once, and the graph
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) times.push_back(seconds_of(runs, options.steps));
  const double least = *std::min_element(times.begin(), times.end());
  const double most = *std::max_element(times.begin(), times.end());
  const double steps = static_cast<double>(count) * options.steps;
  const double tokens = steps * static_cast<double>(runs.front()->tokens());
  fmt::print("{:<18} {:<8} {:>5} {:>10.3f} {:>10.3f} {:>12.0f} {:>10.6f}\n", recipe, options.rounding, count,
             1e3 * least * count / steps, 1e3 * most * count / steps, tokens / least, runs.front()->loss());
  std::fflush(stdout);
}

int run(const Options& options) {
  const mxcheck_train_table& table = load_train(options.library);
  fmt::print("{}\n{:<18} {:<8} {:>5} {:>10} {:>10} {:>12} {:>10}\n", to_text(current_card()), "recipe", "rounding",
             "runs", "ms least", "ms most", "tokens/s", "loss");
  for (const std::string& recipe : options.recipes) {
    for (const int count : options.runs) measure(table, options, recipe, count);
  }
  return 0;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("Training steps of a Hopper library, timed", "mxcheck_sm90_train_bench");
  app.add_option("--library", options.library, "The library");
  app.add_option("--recipe", options.recipes, "Of the MoE layers")->delimiter(',');
  app.add_option("--rounding", options.rounding, "The rule of token rounding, or none");
  app.add_option("--batch", options.batch, "Sequences of 256 tokens in a step")->check(CLI::Range(1, 1 << 16));
  app.add_option("--runs", options.runs, "Runs at once")->delimiter(',')->check(CLI::Range(1, 64));
  app.add_option("--steps", options.steps, "Of each run in a measurement")->check(CLI::Range(1, 1'000'000));
  auto* const config = app.add_option("--config", options.config, "A configuration's file, for --ranks");
  app.add_option("--ranks", options.ranks, "Processes with a GPU each that share a run, in place of runs at once")
      ->delimiter(',')
      ->check(CLI::Range(1, 16))
      ->needs(config);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] {
    const mxcheck::bench::RanksOptions ranks{options.library, options.config, options.ranks, options.steps};
    if (options.ranks.empty()) return mxcheck::bench::run(options);
    return mxcheck::bench::is_rank() ? mxcheck::bench::be_rank(ranks) : mxcheck::bench::measure_ranks(ranks);
  });
}
