#pragma once
// A candidate library behind a child process: what it offers, and running its operations on tensors with poisoned
// outputs, red zones and a time limit.
//
// Errors: Error{usage} when the library is no candidate (missing, no symbol, other interface version),
// Error{environment} when the child cannot be started. Whatever the library itself does wrong is an Outcome, not an
// error.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "numerics/format/format.h"
#include "properties/core/candidate.h"
#include "properties/process/confine.h"
#include "properties/process/contain.h"
#include "properties/process/first_calls.h"
#include "properties/process/wire.h"

namespace mxcheck {

class CandidateProcess final : public CandidateRunner {
 public:
  // tool: the executable that has the __worker entry; library: path of the shared object, or "python:..." (launch.h);
  // gpu_model: as for find_gpu_model.
  // claims: contracts to hold its operations to in place of those that the library names: of all products
  // ("any_order"), of those of one contract ("sm90_fp8=any_order+f13"), of an operation ("aggregate=any_order").
  // Error{usage} for one that is of none of its operations.
  // gpus: the process sees only its own one of these; without any it sees those that the caller sees.
  CandidateProcess(std::string tool, std::string library, TimeLimits limits, const std::string& gpu_model = "",
                   std::vector<std::string> claims = {}, GpusOfRun gpus = {});
  ~CandidateProcess() override;

  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  // An answer to each question; false of an operation that the library does not have. Error{usage} where supports()
  // crashes or does not return.
  std::vector<bool> supports(const std::string& operation, const std::vector<Question>& questions);
  Outcome run(const Call& call) override;
  // Host libraries: the call so many times (at most kMostOfBurst), each on tensors of its own, filled anew, with one
  // exchange with the process. `look` is given, in order, each call whose outputs were not `expected` to the byte, that
  // did not return MXCHECK_OK, or that wrote elsewhere. Returned: how the calls ended together; a crash, a hang or a
  // conduct is not that of one of them.
  static constexpr std::uint32_t kMostOfBurst = 64;
  Outcome run_burst(const Call& call, std::uint32_t calls, const std::vector<std::span<const std::byte>>& expected,
                    const std::function<void(std::uint32_t, Outcome&&)>& look);
  // Ends a wait for the candidate soon after the flag is set: exchange throws Interrupted.
  void watch(const std::atomic<bool>* interrupted) { interrupted_ = interrupted; }
  void restart() override;
  std::string end_in_order() override;
  [[nodiscard]] std::string why_no_model() const override { return no_model_; }
  [[nodiscard]] GpusOfRun gpus() const override { return gpus_; }
  void move_to(std::size_t gpu) override { spread_over({gpus_.all, gpu}); }
  // A fresh process, which sees only its own one of these from now on.
  void spread_over(GpusOfRun gpus);
  [[nodiscard]] const FirstCallCount& first_calls() const { return first_calls_.count(); }

 private:
  void start();
  void stop();
  [[nodiscard]] std::string named() const;  // "candidate ./libmine.so on GPU 1 (GPU-...)", for errors
  int end_process(bool at_once);
  bool takes_too_much();  // memory
  // False: the process died, did not answer in time, or was ended; timed_out_, signal_ and ended_ say which.
  bool receive(wire::Reply& reply, std::chrono::milliseconds limit);
  bool exchange(wire::Message message, wire::Reply& reply, std::chrono::milliseconds limit);
  int operation_index(const std::string& name) const;
  std::string read_text(wire::Request what);  // sources, files
  std::string digest();
  std::byte* reserve(std::uint64_t bytes);
  [[nodiscard]] Outcome without_answer() const;
  void count_cpu();

  ScopedNoDump undumpable_;
  StartedProcesses started_;
  LibraryOutput output_;
  std::string tool_;
  std::vector<std::string> claims_;
  std::string library_;
  TimeLimits limits_;
  std::string gpu_model_;  // or nothing, and why
  std::string no_model_;
  GpusOfRun gpus_;
  CandidateInfo info_;
  pid_t pid_ = -1;
  int socket_ = -1;
  int shared_fd_ = -1;
  std::byte* shared_ = nullptr;
  std::uint64_t shared_bytes_ = 0;
  const std::atomic<bool>* interrupted_ = nullptr;
  bool timed_out_ = false;
  bool never_ends_ = false;
  int signal_ = 0;
  std::chrono::steady_clock::time_point memory_seen_;
  std::string ended_;  // as Outcome::ended
  std::uint64_t number_ = 0;
  double cpu_counted_ = 0;  // of this process's CPU seconds
  int end_status_ = 0;      // as waitpid gives it
  bool static_shapes_ = false;
  std::size_t questions_at_once_ = 256;
  FirstCalls first_calls_;
};

// Text from the library, on its way into one-line reports, JSON and XML: whatever is not printable ASCII becomes '?'.
std::string printable(const char* text);

// Where `name` is looked for: a path if it has a slash or ends in .so, else libmxcheck_<name>.so beside the tool, in
// ../lib, in ../lib/mxcheck and in the build tree. Error{usage} says what to build or what is missing.
std::string find_candidate_library(const std::string& name, const std::string& tool);
std::vector<std::string> tree_candidates();  // names of the candidates that this tree builds
std::string own_executable();

// The path of the GPU model's library, or nothing and why: `given` if it is not empty, else libmxcheck_gpu_model.so in
// the same places.
std::pair<std::string, std::string> find_gpu_model(const std::string& given, const std::string& tool);

// The program that a candidate's process is: the tool's own worker for a shared library, a Python interpreter for
// functions in Python ("python:MODULE:NAME", "python:FILE.py:NAME").

inline constexpr std::string_view kPythonPrefix = "python:";
inline bool is_python(std::string_view candidate) { return candidate.starts_with(kPythonPrefix); }

struct Launch {
  std::string program;  // looked for in PATH if it has no slash
  std::vector<std::string> arguments;
  // This process's without the variables that name mxcheck: a candidate sees an ordinary process. In Python PYTHONPATH
  // has the package's folder too.
  std::vector<std::string> environment;
};

// Error{usage} where there is no libmxcheck_worker.so for Python beside the tool. The interpreter is MXCHECK_PYTHON,
// else python3.
// gpu: the UUID of the one that the process sees; empty: those that this process sees.
Launch launch_of(const std::string& tool, const std::string& candidate, int socket, int shared,
                 const std::string& gpu_model, const std::string& gpu = "");

// Why a process ended before it said anything: in words, of a wait status.
std::string early_end(const Launch& launch, const std::string& candidate, int status);

// Build and machine, as reports name them.

// Pairs such as {"mxcheck", "0.1.0 commit 0123abcd"}, {"compiler", ...}, {"cpu", ...}, {"system", ...}.
std::vector<std::pair<std::string, std::string>> build_and_machine(const CandidateInfo& candidate);

// CPU seconds so far: of this process and of those that it has waited for, and of all processes on the machine with
// what other virtual machines took (steal). Where /proc/stat cannot be read, the latter is 0.
struct CpuSeconds {
  double own = 0;
  double machine = 0;
};
CpuSeconds cpu_seconds();

}  // namespace mxcheck
