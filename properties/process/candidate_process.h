#pragma once
// A candidate library behind a child process: what it offers, and running its operations on tensors with poisoned
// outputs, red zones and a time limit.
//
// Errors: Error{usage} when the library is no candidate (missing, no symbol, other interface version),
// Error{environment} when the child cannot be started. Whatever the library itself does wrong is an Outcome, not an
// error.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "numerics/format/format.h"
#include "properties/process/wire.h"

namespace mxcheck {

struct OperationInfo {
  std::string name;
  std::string contract;
  std::int64_t max_rows = 0;  // 0: no limit
  std::int64_t max_cols = 0;
  std::int64_t rows_multiple = 1;
  std::int64_t cols_multiple = 1;
};

struct CandidateInfo {
  std::string path;
  std::string name;
  std::string version;
  std::string digest;  // XXH3 of the library file
  bool cuda = false;
  std::vector<std::pair<std::string, std::string>> device;  // of CUDA candidates: "device", "driver", ...
  std::vector<OperationInfo> operations;
  std::string sources;  // what the library exports as MXCHECK_CANDIDATE_SOURCES_SYMBOL, if it does
};

struct CallTensor {
  Format dtype = Format::fp32;  // fp32, bf16, fp16; e4m3 stands for uint8 codes and scale bytes
  bool is_offsets = false;      // int64 instead
  bool is_index = false;        // int32 instead
  std::vector<std::int64_t> shape;
  std::int64_t row_stride = 0;      // in elements; 0: contiguous
  const std::byte* data = nullptr;  // inputs: what to hand over
  std::uint64_t bytes = 0;
  bool null_data = false;
  bool on_device = false;  // outputs of CUDA candidates: never brought back, the zones around it are looked at there
};

struct Call {
  std::string operation;
  wire::Policy policy;
  std::vector<CallTensor> inputs;
  std::vector<CallTensor> outputs;
  std::uint8_t poison = 0xA5;     // what outputs and red zones hold before the call
  std::uint64_t byte_offset = 0;  // DLTensor's: data points this far before the tensor's first byte; 0 to wire::kPage
  bool guard_pages = false;       // tensors end at inaccessible pages
  wire::StreamMode stream = wire::StreamMode::own;  // CUDA candidates
  std::optional<wire::Model> model;  // CUDA candidates' products: compare the output on the device (model_claim.h)
};

enum class OutcomeKind {
  returned,   // status and message say how
  crashed,    // the process died: signal
  timed_out,  // no answer within the limit
};

struct Outcome {
  OutcomeKind kind = OutcomeKind::returned;
  int status = 0;  // mxcheck_status
  std::string message;
  int signal = 0;
  std::string device_error;                     // crashed: the driver's words, where it was the device
  std::optional<std::string> conduct;           // what the call did that no call may
  std::vector<std::vector<std::byte>> outputs;  // as the call left them, whatever the status
  std::optional<std::string> trespass;          // wrote outside its outputs: where
  bool outputs_untouched = false;               // every output byte that was brought back still holds the poison
  wire::Comparison comparison;                  // of a call with a model
  std::string unjudged;                         // why there is none
};

struct Interrupted {};

// Whatever answers calls as a candidate does: a library in its process, or what stands for one.
class CandidateRunner {
 public:
  CandidateRunner() = default;
  virtual ~CandidateRunner() = default;
  CandidateRunner(const CandidateRunner&) = delete;
  CandidateRunner& operator=(const CandidateRunner&) = delete;

  [[nodiscard]] virtual const CandidateInfo& info() const = 0;
  virtual Outcome run(const Call& call) = 0;
  virtual void restart() = 0;  // a fresh process: no state of earlier calls
  // Why no call can have a model; empty where it can.
  [[nodiscard]] virtual std::string why_no_model() const { return "nothing here computes on a device"; }
  // Null when there is no such operation.
  [[nodiscard]] const OperationInfo* operation(const std::string& name) const;
};

class CandidateProcess final : public CandidateRunner {
 public:
  // tool: the executable that has the __worker entry; library: path of the shared object; gpu_model: as for
  // find_gpu_model.
  CandidateProcess(std::string tool, std::string library, std::chrono::milliseconds base_limit,
                   const std::string& gpu_model = "");
  ~CandidateProcess() override;

  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  bool supports(const std::string& operation, const wire::Policy& policy, Format wide);
  Outcome run(const Call& call) override;
  // Ends a wait for the candidate soon after the flag is set: exchange throws Interrupted.
  void heed(const std::atomic<bool>* interrupted) { interrupted_ = interrupted; }
  void restart() override;
  [[nodiscard]] std::string why_no_model() const override { return no_model_; }

 private:
  void start();
  void stop();
  int end_process(bool at_once);
  // False: the process died or did not answer in time; died_ and signal_ say which.
  bool exchange(const wire::Message& message, wire::Reply& reply, std::chrono::milliseconds limit);
  int operation_index(const std::string& name) const;
  std::string read_sources();
  std::byte* reserve(std::uint64_t bytes);

  std::string tool_;
  std::string library_;
  std::chrono::milliseconds base_limit_;
  std::string gpu_model_;  // or nothing, and why
  std::string no_model_;
  CandidateInfo info_;
  pid_t pid_ = -1;
  int socket_ = -1;
  int shared_fd_ = -1;
  std::byte* shared_ = nullptr;
  std::uint64_t shared_bytes_ = 0;
  const std::atomic<bool>* interrupted_ = nullptr;
  bool timed_out_ = false;
  int signal_ = 0;
};

// Where `name` is looked for: a path if it has a slash or ends in .so, else libmxcheck_<name>.so beside the tool, in
// ../lib, in ../lib/mxcheck and in the build tree. Error{usage} lists the places.
std::string find_candidate_library(const std::string& name, const std::string& tool);
std::string own_executable();

// The path of the GPU model's library, or nothing and why: `given` if it is not empty, else libmxcheck_gpu_model.so in
// the same places.
std::pair<std::string, std::string> find_gpu_model(const std::string& given, const std::string& tool);

}  // namespace mxcheck
