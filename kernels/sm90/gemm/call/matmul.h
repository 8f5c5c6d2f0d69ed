#pragma once
// Parses and validates a call of "matmul". All throw Refusal for anything that is not supported.

#include <array>
#include <cstdint>

#include "kernels/candidate_matmul.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/gemm/call/check.h"
#include "kernels/sm90/gemm/fp8/fp8.h"
#include "kernels/sm90/gemm/mma/mma.h"
#include "kernels/sm90/gemm/tile/matmul.h"

namespace mxcheck_kernels::sm90 {

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
  [[nodiscard]] std::int64_t matrices() const { return policy->grouping == MXCHECK_ROWS ? experts : 1; }
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

// One chain of the tensor core's mma for every output: dense, FP32, no scales.
void check_mma(Code a, Code b, const mxcheck_policy* policy, DLDataType type);
void run_mma(Code a, Code b, const mxcheck_call& call);

// FP8 with block scales.
void check_fp8(const mxcheck_policy* policy, DLDataType type);
void run_fp8(const mxcheck_call& call);
std::uint64_t fp8_workspace(const mxcheck_call& call);

// BF16 without scales.
void check_bf16(const mxcheck_policy* policy, DLDataType type);
void run_bf16(const mxcheck_call& call);
std::uint64_t bf16_workspace(const mxcheck_call& call);

// FP8 with E8M0 scales of 1 x 32, decoded to BF16 in the workspace.
void check_decode(const mxcheck_policy* policy, DLDataType type);
void run_decode(const mxcheck_call& call);
std::uint64_t decode_workspace(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
