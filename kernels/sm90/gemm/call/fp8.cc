// FP8 with block scales.

#include <string>

#include "kernels/sm90/gemm/call/matmul.h"

namespace mxcheck_kernels::sm90 {

void check_fp8(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  element_named(policy->format), element_named(p.format_b);
  if (!is_bf16(type) && !is_fp32(type)) unsupported("d is offered in BF16 and FP32");
  if (p.scale_type == MXCHECK_NO_SCALES) unsupported("a matmul without scales is not offered");
  const bool square = p.block_b_rows == 128 && p.block_b_cols == 128;
  const bool row = p.block_b_rows == 1 && p.block_b_cols == 128;
  if (policy->block_rows != 1 || policy->block_cols != 128 || (!square && !row)) {
    unsupported("scales are offered for blocks of 1x128 of a, and of 128x128 or 1x128 of b");
  }
  if (square && p.grouping == MXCHECK_DEPTH) unsupported("groups along depth are offered with 1x128 blocks of b alone");
}

std::uint64_t fp8_workspace(const mxcheck_call& call) { return checks_on_device(call) ? kCheckBytes : 0; }

void run_fp8(const mxcheck_call& call) {
  check_fp8(call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  if (p.depth % 128 != 0)
    unsupported("a depth of " + std::to_string(p.depth) + " is not offered: multiples of 128 are");
  MatmulFp8 matmul;
  fill_matmul(matmul, x, call);
  matmul.a_format = element_named(p.policy.format), matmul.b_format = element_named(p.format_b);
  matmul.a_scale_type = matmul.b_scale_type = p.scale_type == MXCHECK_E8M0 ? MatmulScale::e8m0 : MatmulScale::fp32;
  matmul.b_block = p.block_b_rows == 128 ? MatmulBlock::square : MatmulBlock::row;
  matmul.scale_a = x.scale_a.data, matmul.scale_b = x.scale_b.data;
  require_workspace(call, fp8_workspace(call));
  check_matmul(matmul, x, call);
  require_success(matmul_fp8_launch(matmul, stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
