// FP8 with block scales.

#include <cstdint>

#include "kernels/sm90/gemm/call/matmul.h"
#include "kernels/sm90/gemm/call/workspace.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::int64_t kRowMultiple = 16;  // elements of 16 bytes

}  // namespace

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

std::uint64_t fp8_workspace(const mxcheck_call& call) { return plan_workspace(call, 1, kRowMultiple).bytes; }

void run_fp8(const mxcheck_call& call) {
  check_fp8(call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  const MatmulWorkspace plan = plan_workspace(call, 1, kRowMultiple);
  MatmulFp8 matmul;
  fill_matmul(matmul, x, call, plan.pitch == 0);
  matmul.a_format = element_named(p.policy.format), matmul.b_format = element_named(p.format_b);
  matmul.a_scale_type = matmul.b_scale_type = p.scale_type == MXCHECK_E8M0 ? MatmulScale::e8m0 : MatmulScale::fp32;
  matmul.b_block = p.block_b_rows == 128 ? MatmulBlock::square : MatmulBlock::row;
  matmul.scale_a = x.scale_a.data, matmul.scale_b = x.scale_b.data;
  require_workspace(call, plan.bytes);
  auto* const starts = reinterpret_cast<std::int64_t*>(static_cast<std::uint8_t*>(call.workspace) + plan.starts_at);
  if (p.grouping == MXCHECK_DEPTH) {
    matmul.scale_starts = starts, matmul.scale_columns = static_cast<int>(x.scale_a.cols);
  }
  check_matmul(matmul, x, call, kRowMultiple, starts);
  pad_operands(matmul, x, call, plan, 1);
  require_success(matmul_fp8_launch(matmul, stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
