#pragma once
// A candidate's description of itself, and the interface of anything that answers calls as a candidate does.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/call.h"

namespace mxcheck {

// The contract of an operation whose first input may have any strides: kernels/candidate.h.
inline constexpr std::string_view kExactOfAnyStrides = "exact+col_stride";

struct OperationInfo {
  std::string name;
  std::string contract;
  std::int64_t max_rows = 0;  // 0: no limit
  std::int64_t max_cols = 0;
  std::int64_t rows_multiple = 1;
  std::int64_t cols_multiple = 1;
  std::string listed = {};  // the library's own contract, where a claim stands in its place
  [[nodiscard]] bool takes_col_stride() const { return contract == kExactOfAnyStrides; }
};

// A GPU that the gate sees: its number among the visible ones, as CUDA counts them, and its UUID ("GPU-1234...").
struct Gpu {
  int number = 0;
  std::string uuid;
};
std::string to_text(const Gpu& gpu);  // "GPU 1 (GPU-1234...)"

// The GPUs that a run is spread over, and the one of these that a process has.
struct GpusOfRun {
  std::vector<Gpu> all;  // empty: one GPU, or none
  std::size_t own = 0;
};

struct CandidateInfo {
  std::string path;
  std::string name;
  std::string version;
  std::string digest;      // XXH3 of the library's file and of those beside the system's that loading it maps
  std::string unconfined;  // what keeps a candidate from the gate and is missing here; empty: nothing
  bool cuda = false;
  bool adapted = false;  // functions of another language, behind an adapter that speaks the C interface for them
  std::vector<std::pair<std::string, std::string>> device;  // of CUDA candidates: "device", "driver", ...
  std::vector<Gpu> gpus;  // of CUDA candidates: the GPUs that its process sees and that are like the first
  std::vector<OperationInfo> operations;
  std::string sources;  // what the library exports as MXCHECK_CANDIDATE_SOURCES_SYMBOL, if it does
};

struct Interrupted {};

// Runs calls as a candidate does: a library in its process, or a substitute for one.
class CandidateRunner {
 public:
  CandidateRunner() = default;
  virtual ~CandidateRunner() = default;
  CandidateRunner(const CandidateRunner&) = delete;
  CandidateRunner& operator=(const CandidateRunner&) = delete;

  [[nodiscard]] virtual const CandidateInfo& info() const = 0;
  virtual Outcome run(const Call& call) = 0;
  virtual void restart() = 0;  // a fresh process: no state of earlier calls
  // Ends the process in order, as a program that uses the library ends; what went wrong, or nothing. The next call has
  // a fresh one.
  virtual std::string end_in_order() { return ""; }
  // Why no call can have a model; empty where it can.
  [[nodiscard]] virtual std::string why_no_model() const { return "nothing here computes on a device"; }
  [[nodiscard]] virtual GpusOfRun gpus() const { return {}; }
  // Calls go to a fresh process on this one of gpus().all from now on.
  virtual void move_to(std::size_t /*gpu*/) {}
  // Null when there is no such operation.
  [[nodiscard]] const OperationInfo* operation(const std::string& name) const;
};

}  // namespace mxcheck
