#pragma once
// One call of a candidate's operation, and its outcome: tensors, policy, and how the call is to be made.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/format/format.h"
#include "properties/core/policy.h"

namespace mxcheck {

// Where tensors begin: so many bytes past an address that is a multiple of 64. The C interface promises alignment to
// the element and to nothing more.

struct Misalignment {
  // The last entry holds for those after it too. Of a tensor of wider elements the next multiple below is taken.
  std::array<std::uint8_t, 4> inputs{};
  std::array<std::uint8_t, 4> outputs{};
  friend bool operator==(const Misalignment&, const Misalignment&) = default;

  [[nodiscard]] bool any() const { return *this != Misalignment{}; }
  [[nodiscard]] std::uint8_t of_input(std::size_t i) const { return inputs[i < 3 ? i : 3]; }
  [[nodiscard]] std::uint8_t of_output(std::size_t i) const { return outputs[i < 3 ? i : 3]; }
};

std::string to_text(const Misalignment& m);  // "3,0,0,0/5,0,0,0": inputs, then outputs
// Error{usage} for anything else, and for 64 bytes or more.
Misalignment parse_misalignment(std::string_view text);

// The stream in which a CUDA candidate is called, and how.
enum class StreamMode : std::uint8_t {
  own,       // one that does not synchronize with the default stream
  legacy,    // the default stream
  behind,    // inputs arrive in the stream after run has returned
  captured,  // captured into a graph, which is launched twice
  crowded,   // three calls in flight at once, in three streams, at new addresses
};

// The arithmetic in which the GPU model computes a GEMM: properties/operations/matmul/problem.h.
struct DeviceModel {
  std::int32_t a_format = 0;  // MxcheckGpuModelFormat, of what is multiplied
  std::int32_t b_format = 0;
  std::int32_t promotion = 0;
  // Operands that become BF16 first, on either side: E4M3 with E8M0 scales of 1 x 32, or NVFP4.
  static constexpr std::uint8_t kDecodesMx = 1;
  static constexpr std::uint8_t kDecodesNvfp4 = 2;
  std::uint8_t decodes = 0;
};

// Its result (MxcheckGpuModelReport), or why there is none.
struct DeviceComparison {
  std::uint64_t compared = 0;
  std::uint64_t differing = 0;
  std::uint64_t first = 0;  // number of the first output that differs
  std::uint32_t expected = 0;
  std::uint32_t observed = 0;
  char problem[256] = {};
};

// The bytes of a workspace before the call; the zones around it have a poison of their own.
struct WorkspaceFill {
  std::uint8_t poison = 0xC7;
  std::uint8_t keep = 0;  // what the last call left instead
};
// Memory of the caller's that stays in the candidate's process from call to call, for what a library keeps of its
// weights (kernels/candidate_kept_weights.h). It is as large as the library says.
struct CallMemory {
  std::uint32_t policy_offset = 0;  // of the mxcheck_kept_weights in the policy's struct; 0: the call has no memory
  bool is_fresh = true;             // of the call's poison; false: as the last call with memory left it
  bool is_null = false;             // refusals: a null pointer, ...
  bool is_small = false;            // ... a byte less than the library says
  std::uint8_t past = 0;            // ... or so many bytes past a multiple of 256
};

// Bytes of a process, from /proc/self/statm and of its heap, and numbers of what else it may leave taken.
struct MemoryUse {
  std::int64_t address_space = 0;
  std::int64_t resident = 0;
  std::int64_t heap = 0;   // that malloc() has given out; 0 where it does not tell
  std::int64_t files = 0;  // descriptors
  std::int64_t threads = 0;
  std::int64_t children = 0;
};
// The use by a process that repeats a call: after a first tenth, and after each of two stretches of `calls` calls.
struct MemoryOfCalls {
  std::int64_t calls = 0;
  std::int64_t most_files = 0;  // descriptors that it may have
  MemoryUse begin;
  MemoryUse middle;
  MemoryUse end;
};

// A question to supports().
struct Question {
  Policy policy;
  Format dtype = Format::fp32;
};

struct CallTensor {
  Format dtype = Format::fp32;  // fp32, bf16, fp16, fp64; e4m3 stands for uint8 codes and scale bytes
  bool is_offsets = false;      // int64 instead
  bool is_index = false;        // int32 instead
  bool is_counts = false;       // beside is_offsets: the rows of each masked group, and no offsets
  std::vector<std::int64_t> shape;
  std::int64_t row_stride = 0;  // in elements; 0: contiguous
  // Outputs: bytes that may hold anything afterwards, from first to second. An outcome has zeros there.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> open;
  std::int32_t in_place_of = -1;    // outputs: in the memory of this input, which the call updates; -1: in its own
  const std::byte* data = nullptr;  // inputs: what to hand over
  std::uint64_t bytes = 0;
  bool null_data = false;
  bool on_device = false;  // outputs of CUDA candidates: never copied back, the red zones around it are checked there
  // Handed over as they are, one for each dimension; empty: what row_stride says. Of an x with a column stride, and of
  // calls that must be refused.
  std::vector<std::int64_t> strides;
  // Only calls that must be refused have anything else than this.
  std::uint16_t lanes = 1;
  bool elsewhere = false;  // on a kind of device that is not the candidate's
  std::int32_t device_id = 0;
  bool null_shape = false;
};

// A defect in the fields of the call struct itself, for which the candidate must refuse the call.
enum class CallDefect : std::uint8_t {
  none,
  small_size,  // too small for any version of the struct
  null_policy,
  null_inputs,
  null_outputs,
  null_workspace,   // although one was requested
  small_workspace,  // a byte less than requested
};

struct ExpectedTensor;  // properties/core/operation.h

struct Call {
  std::string operation;  // "quantize", "matmul:CONTRACT"
  Policy policy;
  std::vector<CallTensor> inputs;
  std::vector<CallTensor> outputs;
  std::uint8_t poison = 0xA5;           // what outputs and red zones hold before the call
  WorkspaceFill workspace;              // what the workspace holds
  CallMemory memory;                    // for kept weights
  std::uint32_t repeat = 0;             // host libraries: calls in all, one after the other; 0: one
  std::uint64_t byte_offset = 0;        // DLTensor's: data points this far before the tensor's first byte; 0 to 4096
  Misalignment misaligned;              // where tensors begin; those at guard pages end there instead
  bool guard_pages = false;             // tensors end at inaccessible pages
  StreamMode stream = StreamMode::own;  // CUDA candidates
  CallDefect defect = CallDefect::none;
  std::optional<DeviceModel>
      model;  // CUDA candidates' GEMMs: compare the output on the device (properties/operations/matmul/problem.h)
  // The reference's answer where the statement has it already: a replay need not compute it again. No candidate sees
  // it.
  const std::vector<ExpectedTensor>* answer = nullptr;
  // Outputs that are the answer to the byte need not be brought: Outcome::is_the_answer stands for them.
  bool brings_other_outputs_only = false;
  // A call of the same answer, where this one's tensors do not say it: it uses memory that an earlier one wrote. For a
  // replay too.
  std::shared_ptr<const Call> answered_as;
  // Between this call's workspace() and its run(): another call of the operation, and a question to supports(). What
  // the library answers to them is not looked at.
  std::shared_ptr<const Call> between;
  std::optional<Question> asked;

  // A copy of these bytes that lives as long as the call and its copies: for tensors that are no part of a problem.
  const std::byte* own(std::vector<std::byte> bytes) {
    owned.push_back(std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    return owned.back()->data();
  }
  std::vector<std::shared_ptr<const std::vector<std::byte>>> owned;
};

enum class OutcomeKind {
  returned,   // status and message say how
  crashed,    // the process died: signal
  timed_out,  // no answer within the limit
};

// An mxcheck_status as kernels/candidate.h names it: "MXCHECK_INVALID (2: the arguments are wrong)"; "9, which is no
// mxcheck_status".
std::string status_text(int status);

struct Outcome {
  OutcomeKind kind = OutcomeKind::returned;
  int status = 0;  // mxcheck_status
  std::string message;
  int signal = 0;
  bool first_of_its_kind = false;      // timed out: in a call that may have had to compile first
  std::string ended;                   // crashed: what the process did for which the gate ended it; empty: it died
  std::string device_error;            // crashed: the driver's error text, where it was the device
  std::optional<std::string> conduct;  // what the call did that no call may
  std::vector<std::vector<std::byte>> outputs;  // as the call left them, whatever the status
  bool is_the_answer = false;                   // all outputs are the call's answer, to the byte; none is in `outputs`
  std::optional<std::string> out_of_bounds;     // wrote outside its outputs: where
  bool outputs_untouched = false;               // every output byte that was brought back still holds the poison
  MemoryOfCalls memory;                         // of a call with `repeat`
  DeviceComparison comparison;                  // of a call with a model
  std::string not_compared;                     // why there is none
};

}  // namespace mxcheck
