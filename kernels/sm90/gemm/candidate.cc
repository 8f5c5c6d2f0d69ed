// The table of matmuls: one operation for each contract.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>

#include "kernels/common/boundary.h"
#include "kernels/sm90/gemm/call/matmul.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr mxcheck_operation with_limits(mxcheck_operation o) {
  o.max_rows = INT32_MAX, o.max_cols = INT32_MAX;
  return o;
}

// A matmul under `contract`: kCheck says what is offered, kRun runs it, kWorkspace says how many bytes it needs.
template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation matmul(const char* contract) {
  return with_limits(make_cuda_operation<kCheck, kRun, kWorkspace>("matmul", contract));
}

// One chain of mma of two operands of one format; needs no workspace.
template <Code kCode>
constexpr mxcheck_operation mma(const char* contract) {
  constexpr auto check = [](const mxcheck_policy* policy, DLDataType type) { check_mma(kCode, kCode, policy, type); };
  constexpr auto run = [](const mxcheck_call& call) { run_mma(kCode, kCode, call); };
  return with_limits(make_operation<check, run, kCallWithoutReport>("matmul", contract));
}

Code fp8_code(const char* format) { return element_named(format) == Element::e4m3 ? Code::e4m3 : Code::e5m2; }

// FP8 takes either format on either side.
void check_fp8_mma(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  check_mma(fp8_code(p.policy.format), fp8_code(p.format_b), policy, type);
}
void run_fp8_mma(const mxcheck_call& call) {
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  run_mma(fp8_code(p.policy.format), fp8_code(p.format_b), call);
}

constexpr std::array kOperations{
    matmul<check_fp8, run_fp8, fp8_workspace>("sm90_fp8+promote128"),
    matmul<check_bf16, run_bf16, bf16_workspace>("sm90_bf16"),
    matmul<check_decode, run_decode, decode_workspace>("sm90_bf16+decode"),
    with_limits(make_operation<check_fp8_mma, run_fp8_mma, kCallWithoutReport>("matmul", "sm90_fp8+from_c")),
    mma<Code::bf16>("sm90_bf16+from_c"),
    mma<Code::fp16>("sm90_fp16+from_c"),
    mma<Code::tf32>("sm90_tf32+from_c"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_gemm", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
