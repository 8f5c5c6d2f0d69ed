#pragma once
// A call of "matmul", read and checked: what is offered, and nothing else gets past here. All throw Refusal.

#include <array>
#include <cstdint>

#include "kernels/candidate_matmul.h"
#include "kernels/sm90/arguments.h"
#include "kernels/sm90/gemm/check.h"
#include "kernels/sm90/gemm/fp8.h"
#include "kernels/sm90/gemm/sums.h"

namespace mxcheck_sm90 {

// INVALID for a policy that cannot be read.
const mxcheck_matmul_policy& matmul_policy(const mxcheck_policy* policy);

struct Product {
  const mxcheck_matmul_policy* policy = nullptr;
  Checked a, b, scale_a, scale_b, c, d, offsets, index;
  bool scaled = false;
  bool adds = false;
  bool in_place = false;  // c is d
  std::int64_t experts = 1;
};

// Tensors by the shapes that the policy gives them; codes and D of these types.
Product read_product(const mxcheck_call& call, DLDataType a_type, DLDataType b_type);

DLDataType output_type(const mxcheck_call& call);  // BF16 or FP32

// Sums of a tensor core: dense, FP32, no scales.
void check_sums(Code a, Code b, const mxcheck_policy* policy, DLDataType wide);
void run_sums(Code a, Code b, const mxcheck_call& call);

// FP8 with block scales.
void check_fp8(const mxcheck_policy* policy, DLDataType wide);
void run_fp8(const mxcheck_call& call);
std::uint64_t fp8_workspace(const mxcheck_call& call);

}  // namespace mxcheck_sm90
