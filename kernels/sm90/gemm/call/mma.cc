// One chain of mma for every output, and nothing on top.

#include <string>
#include <string_view>

#include "kernels/sm90/gemm/call/matmul.h"

namespace mxcheck_kernels::sm90 {
namespace {

const char* name_of(Code code) {
  constexpr const char* kNames[] = {"e4m3", "e5m2", "bf16", "fp16", "fp32"};
  return kNames[static_cast<int>(code)];
}

DLDataType type_of(Code code) {
  switch (code) {
    case Code::bf16: return kBf16Type;
    case Code::fp16: return {kDLFloat, 16, 1};
    case Code::tf32: return kFp32Type;
    default: return kByteType;
  }
}

void require_format(const mxcheck_matmul_policy& p, Code a, Code b) {
  if (std::string_view(p.policy.format) == name_of(a) && std::string_view(p.format_b) == name_of(b)) return;
  unsupported(std::string("formats ") + p.policy.format + " and " + p.format_b + " are not offered here");
}

}  // namespace

void check_mma(Code a, Code b, const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  require_format(p, a, b);
  if (!is_fp32(type)) unsupported("d is FP32 here");
  if (p.grouping != MXCHECK_DENSE || p.scale_type != MXCHECK_NO_SCALES)
    unsupported("neither groups nor scales are offered here");
  if (policy->block_rows != 0 || policy->block_cols != 0 || p.block_b_rows != 0 || p.block_b_cols != 0) {
    unsupported("without scales there are no blocks: they must be 0 x 0");
  }
}

void run_mma(Code a, Code b, const mxcheck_call& call) {
  check_mma(a, b, call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, type_of(a), type_of(b));
  if (x.policy->alpha != 1) unsupported("alpha is not offered: it must be 1");
  if (x.index.data != nullptr || x.index.cols != 0) unsupported("a row index is not offered");
  MmaJob job;
  job.a_code = a, job.b_code = b;
  job.a = x.a.data, job.b = x.b.data;
  job.c = x.adds ? static_cast<const float*>(x.c.data) : nullptr;
  job.d = static_cast<float*>(x.d.data);
  job.m = x.policy->policy.rows, job.n = x.policy->policy.cols, job.k = x.policy->depth;
  if (job.m == 0 || job.n == 0) return;
  require_success(launch_mma(job, stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
