// mxcheck_sm90_train_bench [--library PATH] [--recipe NAME] [--batch N] [--steps N] [--runs 1,2,4]: tokens per second
// of training, by the wall clock around whole steps, of one run and of several at once in one process, a thread and a
// stream each.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/train/train_run.h"

namespace mxcheck::bench {
namespace {

struct Options {
  std::string library = MXCHECK_SM90_TRAIN_LIBRARY;
  std::vector<std::string> recipes{"bf16", "mxfp8", "dsv3", "fp8_tensor"};
  std::string rounding = "none";
  std::vector<int> runs{1, 2, 4};
  int batch = 16;
  int steps = 50;
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
    runs.push_back(
        std::make_unique<TrainRun>(table, recipe, options.rounding, options.batch, static_cast<std::uint64_t>(i)));
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
  fmt::print("{:<18} {:<8} {:>5} {:>10} {:>10} {:>12} {:>10}\n", "recipe", "rounding", "runs", "ms least", "ms most",
             "tokens/s", "loss");
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
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
