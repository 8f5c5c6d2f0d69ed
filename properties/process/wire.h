#pragma once
// The messages between the gate and its child process: of fixed size, over a socket; tensors are in shared memory.

#include <cstdint>

#include "properties/core/call.h"
#include "properties/core/rng.h"

namespace mxcheck::wire {

inline constexpr int kMaxTensors = 20;  // one more than any operation has, and one to spare
inline constexpr int kMaxDimensions = 3;
inline constexpr int kMaxOperations = 32;
inline constexpr std::uint64_t kPage = 4096;

enum class Request : std::uint32_t {
  describe,
  supports,
  run,
  sources,
  files,    // that loading the library has mapped, beside the system's
  compare,  // run, and let the GPU model compare the output on the device
};

struct Tensor {
  std::uint64_t offset = 0;  // of the first byte, in the shared memory
  std::uint64_t bytes = 0;
  std::int64_t shape[kMaxDimensions] = {};
  std::int64_t strides[kMaxDimensions] = {};  // in elements
  std::int32_t ndim = 0;
  std::uint8_t dtype_code = 0;  // DLDataTypeCode
  std::uint8_t dtype_bits = 0;
  std::uint16_t lanes = 1;
  std::uint8_t has_strides = 0;  // 0: hand over a null pointer, rows follow one another
  std::uint8_t null_shape = 0;   // hand over null pointers (a refusal is expected)
  std::uint8_t null_data = 0;
  std::uint8_t elsewhere = 0;  // say that it is on a kind of device that is not the candidate's
  std::int32_t device_id = 0;
  std::int32_t in_place_of = -1;  // of outputs: the input whose memory this is; -1: its own
  std::uint8_t guarded = 0;       // the pages before and after are made inaccessible during the call
  std::uint8_t on_device = 0;  // no place in the shared memory: of the call's poison before it, and never brought back
};

// A question to supports(), and its answer.
struct Question {
  Policy policy;
  std::uint8_t dtype_code = 0;  // DLDataTypeCode
  std::uint8_t dtype_bits = 0;
  std::int32_t status = -1;  // mxcheck_status; what is not answered is no MXCHECK_OK
};

struct Message {
  std::uint64_t number = 0;  // which its reply repeats
  Request request = Request::describe;
  std::int32_t operation = 0;
  Policy policy;
  std::uint32_t questions = 0;  // of supports: so many Questions begin the shared memory; answers are written there
  std::int32_t num_inputs = 0;
  std::int32_t num_outputs = 0;
  Tensor tensors[kMaxTensors];  // inputs, then outputs
  std::uint64_t shared_bytes = 0;
  std::uint64_t used_bytes = 0;   // by this call's tensors and red zones
  std::uint64_t byte_offset = 0;  // of every tensor
  StreamMode stream_mode = StreamMode::own;
  CallDefect defect = CallDefect::none;
  std::uint8_t poison = 0;
  std::uint8_t open_outputs = 0;  // some of their bytes may hold anything: two calls' are not to be compared here
  WorkspaceFill workspace;
  CallMemory memory;
  std::uint32_t repeat = 0;  // as Call::repeat
  // Host libraries: so many calls, one after the other, each with tensors of its own this far behind those of the call
  // before. After the last one's there is a CallResult for each. 0: one call, answered in the reply.
  std::uint32_t burst = 0;
  std::uint64_t burst_step = 0;
  DeviceModel model;          // of compare
  std::uint64_t between = 0;  // where the shared memory has a Between; 0: nothing comes between workspace and run
};

// The questions and calls between a call's workspace() and its run().
struct Between {
  std::uint8_t has_call = 0;
  std::uint8_t has_question = 0;
  std::uint64_t displaced = 0;  // the call's tensors lie this far behind where it says
  Message call;
  Question question;
};

struct CallResult {
  std::int32_t status = 0;  // mxcheck_status
  std::uint8_t workspace_broken = 0;
  char message[512] = {};
};

struct Operation {
  char name[32] = {};
  char contract[64] = {};
  std::int64_t max_rows = 0;
  std::int64_t max_cols = 0;
  std::int64_t rows_multiple = 1;
  std::int64_t cols_multiple = 1;
};

struct Reply {
  std::uint64_t number = 0;
  std::int32_t status = 0;       // mxcheck_status of the call; for describe: 0, or not usable with the reason below
  std::int32_t environment = 0;  // describe failed for want of something in the machine
  std::uint8_t workspace_broken = 0;  // run wrote past the workspace it requested
  std::uint8_t zones_broken = 0;      // run wrote beside an output that stays on the device
  char message[512] = {};
  char device_error[256] = {};  // the driver's words: the device is lost to this process
  char conduct[256] = {};       // what the call did that no call may
  DeviceComparison comparison;  // of compare
  MemoryOfCalls memory;
  char unconfined[256] = {};   // describe: what of confine() this kernel does not offer
  char device_text[512] = {};  // describe: "key=value" lines about the device
  char gpus[1024] = {};        // describe: a line for each GPU that is like the first, "number=UUID"; as many as fit
  char name[64] = {};
  char version[64] = {};
  std::int32_t device = 0;
  std::int32_t num_operations = 0;
  std::uint8_t adapted = 0;        // describe: CandidateInfo::adapted
  std::uint8_t static_shapes = 0;  // describe: what is compiled on a first call is of one shape alone
  Operation operations[kMaxOperations];
};

// The status with which a worker ends in order, having answered the message of this number last. A library that ends
// the process itself, with 0 as if all were well, does not know it.
constexpr int status_of_end(std::uint64_t last_number) { return 32 + static_cast<int>(mix64(last_number) % 64); }

}  // namespace mxcheck::wire
