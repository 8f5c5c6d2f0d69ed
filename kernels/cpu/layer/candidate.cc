// The table of operations of libmxcheck_cpu_layer.so.

#include "kernels/candidate.h"

#include <array>

#include "kernels/common/boundary.h"
#include "kernels/common/layer/policy.h"
#include "kernels/cpu/layer/codes.h"

namespace mxcheck_kernels::cpu {
namespace {

template <bool kBackward>
void check_swiglu(const mxcheck_policy* policy, DLDataType type) {
  read_swiglu_policy(kBackward, policy, type);
}
void check_aggregate(const mxcheck_policy* policy, DLDataType type) { read_aggregate_policy(policy, type); }
void check_transpose(const mxcheck_policy* policy, DLDataType type) { read_transpose_policy(policy, type); }

constexpr std::array kOperations{
    make_operation<check_swiglu<false>, run_swiglu>("swiglu"),
    make_operation<check_swiglu<true>, run_swiglu_backward>("swiglu_backward"),
    make_operation<check_aggregate, run_aggregate>("aggregate"),
    make_operation<check_transpose, run_quantize_transposed>("quantize_transposed"),
    make_operation<check_dispatch, run_dispatch>("dispatch"),
    make_operation<check_combine, run_combine>("combine"),
};

constexpr mxcheck_candidate_table kTable = make_table("cpu_layer", MXCHECK_CPU_VERSION, kDLCPU, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::cpu

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::cpu::kTable;
}
