#include "tools/parity/ranks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "kernels/parallel/mesh.h"
#include "kernels/parallel/nccl.h"
#include "kernels/parallel/ranks.h"
#include "kernels/parallel/train_exchange.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/process/candidate_process.h"
#include "tools/parallel/parallel.h"
#include "trainer/config/config.h"
#include "trainer/record/checkpoint.h"
#include "trainer/run/gpus.h"

namespace mxcheck {
namespace {

namespace parallel = mxcheck_kernels::parallel;
using parallel::Fault;
using parallel::ParallelError;

// Followers wait for evaluations and checkpoints of rank 0. A rank that ends is seen at once.
constexpr std::chrono::minutes kPatience{10};
constexpr std::chrono::seconds kMeeting{30};  // after a rank of our own launcher has failed, the others have so long

// A transfer has no const; what is sent is only read.
std::byte* bytes_at(const void* memory) { return static_cast<std::byte*>(const_cast<void*>(memory)); }

// Sockets between all, and NCCL between GPUs.
class MeshGroup final : public RankGroup {
 public:
  MeshGroup(parallel::Mesh& mesh, bool on_gpu) : mesh_(mesh) {
    if (!on_gpu) return;
    const char* const path = std::getenv("MXCHECK_NCCL");
    library_.emplace(path == nullptr ? "" : path);
    nccl_.emplace(*library_, mesh);
    exchange_.emplace(*nccl_, mesh.rank(), mesh.ranks());
    watcher_ = std::thread([this] { watch(); });
  }
  ~MeshGroup() override {
    ends_ = true;
    if (watcher_.joinable()) watcher_.join();
    if (nccl_ && std::uncaught_exceptions() > 0) nccl_->give_up();  // its end would wait for the others
  }

  [[nodiscard]] int rank() const override { return mesh_.rank(); }
  [[nodiscard]] int ranks() const override { return mesh_.ranks(); }

  std::vector<std::string> all_gather(std::string_view step, std::string_view mine) override {
    const std::lock_guard lock(mutex_);
    return mesh_.all_gather(step, mine);
  }
  void all_to_all(std::string_view step, std::span<const float> sent, std::span<float> received) override {
    exchange(step, bytes_at(sent.data()), bytes_at(received.data()), received.size_bytes(), true);
  }
  void gather_parts(std::string_view step, std::span<float> parts) override {
    exchange(step, bytes_at(parts.data()), bytes_at(parts.data()), parts.size_bytes(), false);
  }

  [[nodiscard]] const mxcheck_train_exchange* device_exchange() override {
    return exchange_ ? exchange_->get() : nullptr;
  }
  void begin_device_step() override {
    const std::lock_guard lock(mutex_);
    in_step_ = true;
  }
  void end_device_step() override {
    const std::lock_guard lock(mutex_);
    in_step_ = false;
    if (failure_) std::rethrow_exception(failure_);
    if (exchange_->failure()) std::rethrow_exception(exchange_->failure());
  }

 private:
  void exchange(std::string_view step, std::byte* send, std::byte* receive, std::uint64_t all, bool one_for_each) {
    const std::uint64_t bytes = all / static_cast<std::uint64_t>(ranks());
    const std::uint64_t own = static_cast<std::uint64_t>(rank()) * bytes;
    if (one_for_each) std::memcpy(receive + own, send + own, bytes);
    const parallel::PartTransfers t = one_for_each
                                          ? parallel::one_part_for_each({rank(), ranks()}, send, receive, bytes)
                                          : parallel::own_part_for_all({rank(), ranks()}, receive, bytes);
    const std::lock_guard lock(mutex_);
    mesh_.exchange(step, t.sends, t.receives);
  }

  // A device waits for a rank that has ended until its NCCL gives up.
  void watch() {
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::lock_guard lock(mutex_);
      if (!in_step_ || failure_) continue;
      try {
        mesh_.look("a step");
      } catch (...) {
        failure_ = std::current_exception();
        nccl_->give_up();
      }
    }
  }

  parallel::Mesh& mesh_;
  std::optional<parallel::NcclLibrary> library_;
  std::optional<parallel::NcclCommunicator> nccl_;
  std::optional<parallel::TrainExchange> exchange_;
  std::mutex mutex_;  // of the mesh, and of the two below
  bool in_step_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> ends_ = false;
  std::thread watcher_;
};

// ---- A rank ----

int exit_code_of(Fault fault) {
  constexpr int kCrashed = 6;
  if (fault == Fault::rank) return kCrashed;
  return spec(fault == Fault::environment ? ErrorKind::environment : ErrorKind::usage).exit_code;
}

// Options that say how the ranks work together. All else that a rank was given is in its configuration, data and
// library.
std::string command_text(const ParityRunOptions& o) {
  return fmt::format("output {}, resume {}, ranks {}", o.output, o.resume, *o.ranks);
}

std::string digest_of_engine(const ParityRunOptions& o) {
  return o.engine == "cpu" ? parity_version() : sha256(FileSource(parity_library(o.engine)));
}

std::string short_digest(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  return sha256(std::as_bytes(std::span(text))).substr(0, kDigits);
}

std::string to_line(const RankInputs& inputs) {
  return inputs.training_sha256 + "\n" + inputs.validation_sha256 + "\n" + to_json(inputs.config);
}
RankInputs inputs_in(const std::string& text) {
  const std::size_t first = std::min(text.find('\n'), text.size());
  const std::size_t second = std::min(text.find('\n', first + 1), text.size());
  return {config_from_json(text.substr(std::min(second + 1, text.size())), "rank 0"), text.substr(0, first),
          text.substr(std::min(first + 1, text.size()), second - first - 1)};
}

// The configuration that all ranks have; ParallelError where one has another, or other data.
TrainingConfig agreed_config(const ParityRunOptions& o, parallel::Mesh& mesh, const InputsOf& inputs) {
  RankInputs own;
  const bool is_told = o.resume && mesh.rank() != 0;
  if (!is_told) own = inputs(mesh.rank(), nullptr);
  const RankInputs of_first = inputs_in(mesh.all_gather("configuration", is_told ? "" : to_line(own)).front());
  if (is_told) own = inputs(mesh.rank(), &of_first);
  const std::string difference = first_difference(own.config, of_first.config);
  require_agreement(mesh, {{"configuration", short_digest(to_json(own.config)) +
                                                 (difference.empty() ? "" : " (" + difference + " on rank 0)")},
                           {"data", fmt::format("SHA-256 {} of what is trained on, {} of what is evaluated",
                                                own.training_sha256, own.validation_sha256)}});
  return own.config;
}

int run_rank(const ParityRunOptions& o, parallel::Mesh& mesh, int local_rank, const InputsOf& inputs,
             const LeadRun& lead) {
  const bool on_gpu = o.engine != "cpu";
  require_agreement(mesh,
                    {{"mxcheck", parity_version()}, {"options", command_text(o)}, {"library", digest_of_engine(o)}});
  const TrainingConfig config = agreed_config(o, mesh, inputs);
  check_ranks(config, mesh.ranks());
  const std::string missing = on_gpu ? choose_gpu({.local_rank = local_rank}) : "";
  if (!missing.empty()) throw Error(ErrorKind::environment, missing);
  if (on_gpu && visible_gpus().count == 0) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw Error(ErrorKind::environment,
                fmt::format("rank {} of this host finds no GPU {}: each rank needs a GPU and NVIDIA's driver",
                            local_rank, visible == nullptr ? "0" : visible));
  }
  MeshGroup group(mesh, on_gpu);
  if (mesh.rank() == 0) {
    const int code = lead(group);
    dismiss_followers(group);
    return code;
  }
  // A launcher tells all ranks of a signal; rank 0 ends the run.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  const std::unique_ptr<TrainingEngine> engine = parity_engine(o.engine, config, 0, o.threads, nullptr, &group);
  follow(*engine, group);
  return 0;
}

int be_rank(const ParityRunOptions& o, const parallel::RankPlace& place, const InputsOf& inputs, const LeadRun& lead) {
  std::optional<parallel::Mesh> mesh;
  const auto ended = [&](const std::string& why, int code) {
    if (mesh) mesh->fail(why);
    std::fprintf(stderr, "mxcheck: error: %s\n", one_line(why).c_str());
    return code;
  };
  try {
    parallel::MeshOptions options;
    options.timeout = kPatience;
    const char* const listener = std::getenv(kListenerVariable);
    if (place.rank == 0 && listener != nullptr) options.listener = parse_number<int>(listener).value_or(-1);
    mesh.emplace(place, options);
    return run_rank(o, *mesh, place.local_rank, inputs, lead);
  } catch (const ParallelError& e) {
    return ended(e.what(), exit_code_of(e.fault()));
  } catch (const Error& e) {
    return ended(e.what(), spec(e.kind()).exit_code);
  } catch (const std::bad_alloc&) {
    return ended("out of memory", spec(ErrorKind::environment).exit_code);
  }
}

}  // namespace

int run_ranks(const ParityRunOptions& o, const InputsOf& inputs, const LeadRun& lead) {
  if (!o.seeds.empty()) throw Error(ErrorKind::usage, "--ranks is of one run; --seeds makes several");
  try {
    const auto place = parallel::find_rank([](const char* name) { return std::getenv(name); });
    if (!place || place->ranks == 1) {
      // A signal: rank 0 ends the run after the step that it is at.
      return launch_ranks(*o.ranks, {.after_failure = kMeeting, .after_signal = kPatience});
    }
    if (place->ranks != *o.ranks) {
      throw Error(ErrorKind::usage, fmt::format("--ranks is {}, and {} has started {}: give both the same number",
                                                *o.ranks, place->launcher, place->ranks));
    }
    return be_rank(o, *place, inputs, lead);
  } catch (const ParallelError& e) {
    std::fprintf(stderr, "mxcheck: error: %s\n", one_line(e.what()).c_str());
    return exit_code_of(e.fault());
  }
}

}  // namespace mxcheck
