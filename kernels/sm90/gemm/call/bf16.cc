// BF16, and FP8 with scales of 1 x 32 that are decoded to it.

#include <limits>
#include <string>
#include <string_view>

#include "kernels/sm90/gemm/bf16/bf16.h"
#include "kernels/sm90/gemm/bf16/decode.h"
#include "kernels/sm90/gemm/bf16/decoded.h"
#include "kernels/sm90/gemm/call/matmul.h"

namespace mxcheck_kernels::sm90 {
namespace {

void require_output(DLDataType type) {
  if (!is_bf16(type) && !is_fp32(type)) unsupported("d is offered in BF16 and FP32");
}

void require_depth(const mxcheck_matmul_policy& p, std::int64_t multiple) {
  const std::int64_t of = p.grouping == MXCHECK_DEPTH ? 128 : multiple;
  if (p.depth % of == 0) return;
  unsupported("a depth of " + std::to_string(p.depth) + " is not offered" +
              (p.grouping == MXCHECK_DEPTH ? " with groups along depth" : "") + ": multiples of " + std::to_string(of) +
              " are");
}

// Where A is decoded: in the workspace, or on its way to the tensor cores, once for every 256 columns of D. The result
// is the same; which is faster was measured (docs/performance.md).
bool decodes_on_the_way(const mxcheck_matmul_policy& p) {
  return p.policy.cols <= p.policy.rows && p.grouping != MXCHECK_DEPTH;
}

// The workspace: what was found on the device, A in BF16 (not on the way), B in BF16.
struct DecodePlan {
  bool on_the_way = false;
  std::uint64_t a_at = kCheckBytes;
  std::uint64_t b_at = 0;
  std::uint64_t bytes = 0;
};

DecodePlan plan_decode(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 2) invalid("a matmul has two inputs or more");
  const auto bf16_bytes = [](const char* name, const DLTensor& t) {
    if (t.ndim != 2 || t.shape == nullptr || t.shape[0] < 0 || t.shape[1] < 0)
      invalid(name + std::string(" is no matrix"));
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
    if (t.shape[1] != 0 && t.shape[0] > kMost / t.shape[1]) invalid(name + std::string(" is too large"));
    return (static_cast<std::uint64_t>(t.shape[0] * t.shape[1]) * 2 + 255) / 256 * 256;
  };
  DecodePlan plan;
  plan.on_the_way = decodes_on_the_way(matmul_policy(call.policy));
  plan.b_at = plan.a_at + (plan.on_the_way ? 0 : bf16_bytes("a", call.inputs[0]));
  plan.bytes = plan.b_at + bf16_bytes("b", call.inputs[1]);
  return plan;
}

DecodeOperand decoded(const char* format, const Checked& codes, const Checked& scales, void* values) {
  DecodeOperand x;
  x.format = element_named(format);
  x.codes = static_cast<const std::uint8_t*>(codes.data);
  x.scales = static_cast<const std::uint8_t*>(scales.data);
  x.values = static_cast<std::uint16_t*>(values);
  x.elements = codes.rows * codes.cols;
  return x;
}

}  // namespace

void check_bf16(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  if (std::string_view(policy->format) != "bf16" || std::string_view(p.format_b) != "bf16") {
    unsupported("both operands are offered in bf16");
  }
  require_output(type);
  if (p.scale_type != MXCHECK_NO_SCALES) unsupported("scales of bf16 are not offered");
  if (policy->block_rows != 0 || policy->block_cols != 0 || p.block_b_rows != 0 || p.block_b_cols != 0) {
    unsupported("without scales there are no blocks: they must be 0 x 0");
  }
}

std::uint64_t bf16_workspace(const mxcheck_call& call) { return checks_on_device(call) ? kCheckBytes : 0; }

void run_bf16(const mxcheck_call& call) {
  check_bf16(call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, kBf16Type, kBf16Type);
  require_depth(*x.policy, 8);
  MatmulCall matmul;
  fill_matmul(matmul, x, call);
  require_workspace(call, bf16_workspace(call));
  check_matmul(matmul, x, call);
  require_success(matmul_bf16_launch(matmul, stream_of(call)));
}

void check_decode(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  element_named(policy->format), element_named(p.format_b);
  require_output(type);
  if (p.scale_type != MXCHECK_E8M0) unsupported("operands that are decoded are offered with E8M0 scales");
  if (policy->block_rows != 1 || policy->block_cols != 32 || p.block_b_rows != 1 || p.block_b_cols != 32) {
    unsupported("scales are offered for blocks of 1x32 of a and of b");
  }
}

std::uint64_t decode_workspace(const mxcheck_call& call) { return plan_decode(call).bytes; }

void run_decode(const mxcheck_call& call) {
  check_decode(call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  require_depth(p, 32);
  MatmulDecoded matmul;
  fill_matmul(matmul, x, call);
  const DecodePlan plan = plan_decode(call);
  require_workspace(call, plan.bytes);
  check_matmul(matmul, x, call);
  if (matmul.m == 0 || matmul.n == 0) return;
  auto* const workspace = static_cast<std::uint8_t*>(call.workspace);
  const auto stream = stream_of(call);
  DecodeJob job;
  DecodeOperand& b = job.operands[0];
  DecodeOperand& a = job.operands[1];
  b = decoded(p.format_b, x.b, x.scale_b, workspace + plan.b_at);
  b.paired = plan.on_the_way;
  matmul.b = b.values;
  if (plan.on_the_way) {
    matmul.a_format = element_named(p.policy.format);
    matmul.scale_a = static_cast<const std::uint8_t*>(x.scale_a.data);
  } else {
    a = decoded(p.policy.format, x.a, x.scale_a, workspace + plan.a_at);
    matmul.a = a.values;
  }
  job.status = matmul.status;
  require_success(launch_decode(job, stream));
  require_success(plan.on_the_way ? matmul_decoded_launch(matmul, stream) : matmul_bf16_launch(matmul, stream));
}

}  // namespace mxcheck_kernels::sm90
