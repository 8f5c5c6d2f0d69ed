#pragma once
// What the gate and its child process say to each other: fixed-size messages over a socket, tensors in shared memory.

#include <cstdint>

namespace mxcheck::wire {

inline constexpr int kMaxTensors = 8;
inline constexpr int kMaxOperations = 32;
inline constexpr std::uint64_t kPage = 4096;

enum class Request : std::uint32_t {
  describe,
  supports,
  run,
  sources,
  compare,  // run, and let the GPU model compare the output on the device
};

// In which stream a CUDA candidate is called, and how.
enum class StreamMode : std::uint8_t {
  own,       // one that does not synchronize with the default stream
  legacy,    // the default stream
  behind,    // inputs arrive in the stream after run has returned
  captured,  // captured into a graph, which is launched twice
  crowded,   // three calls in flight at once, in three streams, at new addresses
};

struct Tensor {
  std::uint64_t offset = 0;  // of the first byte, in the shared memory
  std::uint64_t bytes = 0;
  std::int64_t shape[2] = {0, 0};
  std::int64_t row_stride = 0;  // in elements; 0: contiguous
  std::int32_t ndim = 0;
  std::uint8_t dtype_code = 0;  // DLDataTypeCode
  std::uint8_t dtype_bits = 0;
  std::uint8_t null_data = 0;  // hand over a null pointer (a refusal is expected)
  std::uint8_t guarded = 0;    // the pages before and after are made inaccessible during the call
  std::uint8_t on_device = 0;  // no place in the shared memory: of the call's poison before it, and never brought back
};

struct Policy {
  char format[16] = {};
  char recipe[32] = {};
  std::int64_t block_rows = 0;
  std::int64_t block_cols = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int32_t layout = 0;
  std::int32_t threads = 0;
  std::uint8_t pad_byte = 0;
  std::uint8_t is_product = 0;  // the fields below count: kernels/candidate_matmul.h
  char format_b[16] = {};
  std::int64_t block_b_rows = 0;
  std::int64_t block_b_cols = 0;
  std::int64_t depth = 0;
  std::int32_t scale_type = 0;
  std::int32_t grouping = 0;
  std::int32_t accumulate = 0;
  float alpha = 1;
  std::uint8_t is_route = 0;  // the fields below count: kernels/candidate_route.h
  char rule[24] = {};
  std::int64_t top_k = 0;
  std::int64_t groups = 0;
  std::int64_t groups_kept = 0;
  std::int64_t tile = 0;
  std::int64_t capacity = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t layer = 0;
  std::int32_t nan = 0;
  std::int32_t bias = 0;
  std::int32_t renormalize = 0;
  float scale = 1;
};

// What the GPU model is to compute of a product: properties/model_claim.h.
struct Model {
  std::int32_t a_format = 0;  // MxcheckGpuModelFormat, of what is multiplied
  std::int32_t b_format = 0;
  std::int32_t promotion = 0;
  std::uint8_t decodes = 0;  // E4M3 with E8M0 scales of 1 x 32 becomes BF16 first, on either side
};

// What it found (MxcheckGpuModelReport), or why it found nothing.
struct Comparison {
  std::uint64_t compared = 0;
  std::uint64_t differing = 0;
  std::uint64_t first = 0;  // number of the first output that differs
  std::uint32_t expected = 0;
  std::uint32_t observed = 0;
  char problem[256] = {};
};

struct Message {
  Request request = Request::describe;
  std::int32_t operation = 0;
  Policy policy;
  std::uint8_t wide_code = 0;
  std::uint8_t wide_bits = 0;
  std::int32_t num_inputs = 0;
  std::int32_t num_outputs = 0;
  Tensor tensors[kMaxTensors];  // inputs, then outputs
  std::uint64_t shared_bytes = 0;
  std::uint64_t used_bytes = 0;   // by this call's tensors and red zones
  std::uint64_t byte_offset = 0;  // of every tensor
  StreamMode stream_mode = StreamMode::own;
  std::uint8_t poison = 0;
  Model model;  // of compare
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
  std::int32_t status = 0;       // mxcheck_status of the call; for describe: 0, or not usable with the reason below
  std::int32_t environment = 0;  // describe failed for want of something in the machine
  std::uint8_t workspace_broken = 0;  // run wrote past the workspace it asked for
  std::uint8_t zones_broken = 0;      // run wrote beside an output that stays on the device
  char message[512] = {};
  char device_error[256] = {};  // the driver's words: the device is lost to this process
  char conduct[128] = {};       // what the call did that no call may
  Comparison comparison;        // of compare
  char device_text[512] = {};   // describe: "key=value" lines about the device
  char name[64] = {};
  char version[64] = {};
  std::int32_t device = 0;
  std::int32_t num_operations = 0;
  Operation operations[kMaxOperations];
};

}  // namespace mxcheck::wire
