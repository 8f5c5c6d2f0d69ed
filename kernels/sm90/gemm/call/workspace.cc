#include "kernels/sm90/gemm/call/workspace.h"

#include <limits>
#include <string>

#include "kernels/sm90/gemm/call/pad.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::uint64_t kAlignment = 256;

std::uint64_t whole(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Groups along depth; 0 where there are none, or none that can be read.
std::int64_t groups_of(const mxcheck_call& call) {
  for (int i = 2; i < call.num_inputs; ++i) {
    const DLTensor& t = call.inputs[i];
    if (same(t.dtype, kInt64Type) && t.ndim == 1 && t.shape != nullptr && t.shape[0] > 0 && t.shape[0] <= 65537) {
      return t.shape[0] - 1;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t matrix_bytes(const mxcheck_call& call, int input, std::int64_t cols, int element_bytes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
  const std::string name = input == 0 ? "a" : "b";
  const DLTensor& t = call.inputs[input];
  if (t.ndim != 2 || t.shape == nullptr || t.shape[0] < 0 || t.shape[1] < 0) invalid(name + " is no matrix");
  if (cols != 0 && t.shape[0] > kMost / cols) invalid(name + " is too large");
  return whole(static_cast<std::uint64_t>(t.shape[0] * cols) * static_cast<std::uint64_t>(element_bytes));
}

MatmulWorkspace plan_workspace(const mxcheck_call& call, int element_bytes, std::int64_t multiple) {
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  if (call.inputs == nullptr || call.num_inputs < 2) invalid("a matmul has two inputs or more");
  MatmulWorkspace plan;
  plan.bytes = checks_on_device(call) ? kCheckBytes : 0;
  plan.starts_at = plan.bytes;
  if (p.grouping == MXCHECK_DEPTH && p.scale_type != MXCHECK_NO_SCALES) {
    plan.bytes += whole(static_cast<std::uint64_t>(groups_of(call) + 1) * sizeof(std::int64_t));
  }
  plan.a_at = plan.b_at = plan.bytes;
  if (p.depth < 0 || p.depth > INT32_MAX) invalid("policy.depth must be 0 to 2^31 - 1");
  if (p.depth % multiple == 0) return plan;
  plan.pitch = (p.depth + multiple - 1) / multiple * multiple;
  if (plan.pitch > INT32_MAX) unsupported("depths are offered up to the last multiple of 32 below 2^31");
  plan.b_at += matrix_bytes(call, 0, plan.pitch, element_bytes);
  plan.bytes = plan.b_at + matrix_bytes(call, 1, plan.pitch, element_bytes);
  return plan;
}

void pad_operands(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, const MatmulWorkspace& plan,
                  int element_bytes) {
  if (plan.pitch == 0) return;
  auto* const workspace = static_cast<std::uint8_t*>(call.workspace);
  PadJob job;
  job.operands[0] = {x.a.data, workspace + plan.a_at, x.a.rows};
  job.operands[1] = {x.b.data, workspace + plan.b_at, x.b.rows};
  job.row_bytes = x.policy->depth * element_bytes;
  job.pitch_bytes = plan.pitch * element_bytes;
  require_success(launch_pad(job, stream_of(call)));
  matmul.a = job.operands[0].to;
  matmul.b = job.operands[1].to;
  matmul.k = plan.pitch;
}

}  // namespace mxcheck_kernels::sm90
