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
  const Matmul x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  if (p.depth % 128 != 0)
    unsupported("a depth of " + std::to_string(p.depth) + " is not offered: multiples of 128 are");
  GemmFp8 gemm;
  fill_gemm(gemm, x, call);
  gemm.a_format = element_named(p.policy.format), gemm.b_format = element_named(p.format_b);
  gemm.a_scale_type = gemm.b_scale_type = p.scale_type == MXCHECK_E8M0 ? GemmScale::e8m0 : GemmScale::fp32;
  gemm.b_block = p.block_b_rows == 128 ? GemmBlock::square : GemmBlock::row;
  gemm.scale_a = x.scale_a.data, gemm.scale_b = x.scale_b.data;
  require_workspace(call, fp8_workspace(call));
  check_gemm(gemm, x, call);
  require_success(gemm_fp8_launch(gemm, stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
