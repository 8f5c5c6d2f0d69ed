#include "benchmarks/sm90/train/ranks.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/train/train_run.h"
#include "kernels/parallel/mesh.h"
#include "kernels/parallel/nccl.h"
#include "kernels/parallel/sockets.h"
#include "kernels/parallel/train_exchange.h"
#include "numerics/error.h"
#include "trainer/config/config.h"

namespace mxcheck::bench {
namespace {

namespace parallel = mxcheck_kernels::parallel;

constexpr const char* kListener = "MXCHECK_BENCH_LISTENER";  // the descriptor where rank 0 listens
constexpr int kWarmUp = 3;                                   // launches, the graph, and one of it
constexpr int kTimes = 3;

// The rank's GPU alone is visible to it: number `rank` of those that are.
std::string gpu_of(int rank) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string list = visible == nullptr ? "" : visible;
  if (list.empty()) return std::to_string(rank);
  for (; rank > 0; --rank) {
    const std::size_t comma = list.find(',');
    if (comma == std::string::npos)
      throw Error(ErrorKind::environment, "CUDA_VISIBLE_DEVICES names fewer GPUs than ranks");
    list.erase(0, comma + 1);
  }
  return list.substr(0, list.find(','));
}

// Starts a rank whose standard output is `output`.
pid_t start_rank(int rank, int ranks, const parallel::Socket& listener, int output) {
  const std::array<std::pair<const char*, std::string>, 7> variables{
      {{"RANK", std::to_string(rank)},
       {"WORLD_SIZE", std::to_string(ranks)},
       {"LOCAL_RANK", std::to_string(rank)},
       {"MASTER_ADDR", "127.0.0.1"},
       {"MASTER_PORT", std::to_string(parallel::port_of(listener))},
       {"CUDA_VISIBLE_DEVICES", gpu_of(rank)},
       {kListener, std::to_string(rank == 0 ? dup(listener.fd()) : -1)}}};
  std::string text;
  std::array<char, 4096> buffer{};
  std::FILE* const file = std::fopen("/proc/self/cmdline", "rb");
  for (std::size_t n = 0; file != nullptr && (n = std::fread(buffer.data(), 1, buffer.size(), file)) != 0;)
    text.append(buffer.data(), n);
  if (file != nullptr) std::fclose(file);
  std::vector<char*> words;
  for (std::size_t at = 0; at < text.size(); at += std::strlen(&text[at]) + 1) words.push_back(&text[at]);
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  if (rank == 0) dup2(output, STDOUT_FILENO);
  execv("/proc/self/exe", words.data());
  _exit(3);
}

struct Speed {
  double least = 0;  // seconds a step
  double most = 0;
  double tokens = 0;  // a step
  double loss = 0;
  double exchange = 0;  // seconds of a step's exchange of gradients, with nothing beside it
};

// Starts so many ranks; the answer is what rank 0 prints.
Speed speed_of(int ranks) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw Error(ErrorKind::environment, "no pipe for a rank");
  const parallel::Socket listener = parallel::listen_at(true, 0);
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) children.push_back(start_rank(r, ranks, listener, ends[1]));
  close(ends[1]);
  std::FILE* const line = fdopen(ends[0], "r");
  Speed speed;
  const bool told = std::fscanf(line, "%lf %lf %lf %lf %lf", &speed.least, &speed.most, &speed.tokens, &speed.loss,
                                &speed.exchange) == 5;
  std::fclose(line);
  bool good = told;
  for (std::size_t r = 0; r < children.size(); ++r) {
    int status = 0;
    waitpid(children[r], &status, 0);
    good = good && status == 0;
  }
  if (!good) throw Error(ErrorKind::environment, std::to_string(ranks) + " ranks: one of them failed, see above");
  return speed;
}

}  // namespace

namespace {

// The median of several exchanges as a step has one: of the sums, and of the slices that were added up.
double seconds_of_exchange(const mxcheck_train_exchange& e, std::int64_t parameters, int ranks) {
  constexpr std::int64_t kMultiple = 64;  // elements, as the engine has them
  constexpr int kExchanges = 9, kBefore = 2;
  const auto all = static_cast<std::uint64_t>((parameters + kMultiple - 1) / kMultiple * kMultiple) * sizeof(float);
  const std::uint64_t bytes = all / static_cast<std::uint64_t>(ranks);
  const DeviceBuffer gradients(all), slices(all);
  const Timer timer;
  const auto enqueue = [&] {
    if (e.all_to_all(e.context, gradients.data(), slices.data(), bytes, timer.stream()) != 0 ||
        e.all_gather(e.context, gradients.data(), bytes, timer.stream()) != 0)
      throw Error(ErrorKind::environment, "an exchange failed");
  };
  std::vector<double> times;
  for (int i = -kBefore; i < kExchanges; ++i) {
    check_cuda(cudaStreamSynchronize(timer.stream()), "an exchange");
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    check_cuda(cudaStreamSynchronize(timer.stream()), "an exchange");
    if (i >= 0) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

bool is_rank() { return std::getenv(kListener) != nullptr; }

int measure_ranks(const RanksOptions& o) {
  const TrainingConfig config = read_config(o.config);
  fmt::print(
      "{}: {} M parameters, {} tokens a step in {} microbatches, {}\n{:>5} {:>10} {:>10} {:>12} {:>10} {:>11} {:>10}\n",
      o.config, parameter_count(config.model) / 1'000'000, config.tokens(), config.microbatches, config.recipe.name,
      "ranks", "ms least", "ms most", "tokens/s", "efficiency", "exchange ms", "loss");
  double of_one = 0;
  for (const int ranks : o.ranks) {
    const Speed speed = speed_of(ranks);
    const double each = speed.tokens / speed.least / ranks;
    if (of_one == 0) of_one = each;
    fmt::print("{:>5} {:>10.3f} {:>10.3f} {:>12.0f} {:>10.3f} {:>11.3f} {:>10.6f}\n", ranks, 1e3 * speed.least,
               1e3 * speed.most, each * ranks, each / of_one, 1e3 * speed.exchange, speed.loss);
    std::fflush(stdout);
  }
  return 0;
}

int be_rank(const RanksOptions& o) {
  const auto place = parallel::find_rank([](const char* name) { return std::getenv(name); });
  if (!place) throw Error(ErrorKind::environment, "this process is no rank");
  parallel::MeshOptions options;
  options.timeout = std::chrono::minutes(2);
  if (place->rank == 0) options.listener = std::atoi(std::getenv(kListener));
  parallel::Mesh mesh(*place, options);
  std::optional<parallel::NcclLibrary> library;
  std::optional<parallel::NcclCommunicator> nccl;
  std::optional<parallel::TrainExchange> exchange;
  if (place->ranks > 1) {
    const char* const path = std::getenv("MXCHECK_NCCL");
    library.emplace(path == nullptr ? "" : path);
    nccl.emplace(*library, mesh);
    exchange.emplace(*nccl, place->rank, place->ranks);
  }
  const TrainingConfig config = read_config(o.config);
  TrainRun run(load_train(o.library), config, "none",
               {.rank = place->rank, .ranks = place->ranks, .exchange = exchange ? exchange->get() : nullptr});
  for (int i = 0; i < kWarmUp; ++i) run.step();
  std::vector<double> times;
  for (int time = 0; time < kTimes; ++time) {
    mesh.barrier("a measurement");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < o.steps; ++i) run.step();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / o.steps);
  }
  mesh.barrier("exchanges");
  const double alone =
      exchange ? seconds_of_exchange(*exchange->get(), parameter_count(config.model), place->ranks) : 0;
  mesh.barrier("the end");
  if (place->rank == 0) {
    fmt::print("{} {} {} {} {}\n", *std::min_element(times.begin(), times.end()),
               *std::max_element(times.begin(), times.end()), config.tokens(), run.loss(), alone);
  }
  return 0;
}

}  // namespace mxcheck::bench
