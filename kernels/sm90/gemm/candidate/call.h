#pragma once
// A call of "matmul" read: its tensors, its workspace, and what is done with both before a GEMM is launched. All throw
// Refusal for anything that is not supported.

#include <array>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"
#include "kernels/candidate_matmul.h"
#include "kernels/candidate_nvfp4.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {

// --- tensors ---------------------------------------------------------------------------------------------------------

// INVALID for a policy that cannot be read.
const mxcheck_matmul_policy& matmul_policy(const mxcheck_policy* policy);

struct MatmulTensors {
  const mxcheck_matmul_policy* policy = nullptr;
  Checked a, b, scale_a, scale_b, c, d, offsets, index;
  bool scaled = false;
  bool adds = false;
  bool in_place = false;  // c is d
  std::int64_t experts = 1;

  // The number of matrices of b, one below the other.
  [[nodiscard]] std::int64_t matrices() const {
    return policy->grouping == MXCHECK_ROWS || policy->grouping == MXCHECK_MASKED ? experts : 1;
  }
};

// Tensors by the shapes that the policy gives them; codes and D of these types.
MatmulTensors read_matmul(const mxcheck_call& call, DLDataType a_type, DLDataType b_type);

DLDataType output_type(const mxcheck_call& call);  // BF16 or FP32

bool is_bf16(DLDataType type);
bool is_fp32(DLDataType type);
bool checks_on_device(const mxcheck_call& call);  // offsets or a row index are among the inputs

// Arguments common to all GEMMs. `reads_in_place`: UNSUPPORTED for a and b that are not at multiples of 16 bytes.
void fill_matmul(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, bool reads_in_place);
// Enqueues the check of offsets and row index, with its result at the front of the workspace. `starts`, in the
// workspace: where each group's scales begin, of groups along depth with scales. Groups along depth begin at multiples
// of `multiple`.
void check_matmul(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, std::int64_t multiple,
                  std::int64_t* starts);

// --- workspace -------------------------------------------------------------------------------------------------------
//
// The workspace of a matmul holds what the device found in the arguments, where each group's scales begin, and operands
// that had to be copied.

struct MatmulWorkspace {
  std::uint64_t starts_at = 0;  // experts + 1 first columns of scales, of groups along depth
  std::uint64_t a_at = 0;       // copies with rows of `pitch` elements
  std::uint64_t b_at = 0;
  std::uint64_t bytes = 0;
  std::int64_t pitch = 0;  // 0: the operands are read where they are
};

// By the shapes alone: data may be null. Rows are copied to the next multiple of `multiple` elements, of element_bytes
// each, where their length is none. INVALID where shapes are none or too large.
MatmulWorkspace plan_workspace(const mxcheck_call& call, int element_bytes, std::int64_t multiple);

// Bytes of a matrix of the shape of an input, with rows of `cols` elements, in whole 256; INVALID as above.
std::uint64_t matrix_bytes(const mxcheck_call& call, int input, std::int64_t cols, int element_bytes);

// Copies a and b where they are to be copied, and has `matmul` read the copies.
void pad_operands(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, const MatmulWorkspace& plan,
                  int element_bytes);

// --- check.cu --------------------------------------------------------------------------------------------------------
//
// The check of those of a matmul's arguments that only the device can read, made there before anything is written.

struct CheckJob {
  const std::int64_t* offsets = nullptr;  // experts + 1, from 0 to end, none descending; null: none
  const std::int64_t* counts = nullptr;   // in their place: experts, each 0 to end
  std::int64_t experts = 0;
  std::int64_t end = 0;
  std::int64_t multiple = 1;  // that every group's beginning must be of
  // Columns of scales: each group has one for every `block` columns that it has or has begun, `blocks` in all. 0: none.
  std::int64_t block = 0;
  std::int64_t blocks = 0;
  std::int64_t* starts = nullptr;       // experts + 1: each group's first, and their number
  const std::int32_t* index = nullptr;  // rows values from 0 to source_rows - 1; null: none
  std::int64_t rows = 0;
  std::int64_t source_rows = 0;
  mxcheck_device_report* report = nullptr;
};

// In the workspace: status is 0 where everything is right.
struct CheckResult {
  unsigned long long first;  // index of the first error: offsets, the number of blocks, then the row index
  std::int32_t status;
};
inline constexpr std::uint64_t kCheckBytes = 256;

cudaError_t launch_check(const CheckJob& job, CheckResult* result, cudaStream_t stream);

// --- pad.cu ----------------------------------------------------------------------------------------------------------
//
// Operands whose rows are no multiple of 16 bytes, copied to rows that are: TMA reads no others.

struct PadOperand {
  const void* from = nullptr;  // rows of row_bytes, one after the other
  void* to = nullptr;          // rows of pitch_bytes, filled up with zeros; aligned to 16 bytes
  std::int64_t rows = 0;
};

struct PadJob {
  PadOperand operands[2];
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0;  // a multiple of 16
};

cudaError_t launch_pad(const PadJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
