// The table of a layer's operations.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>

#include "kernels/common/boundary.h"
#include "kernels/sm90/layer/operations.h"

namespace mxcheck_kernels::sm90 {
namespace {

// An operation of this name: kCheck says what is offered, kRun runs it, kWorkspace says how many bytes it needs.
template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o = make_cuda_operation<kCheck, kRun, kWorkspace>(name);
  o.max_rows = INT32_MAX, o.max_cols = INT32_MAX / 2;
  return o;
}

constexpr std::array kOperations{
    operation<check_swiglu<false>, run_swiglu<false>, swiglu_workspace<false>>("swiglu"),
    operation<check_swiglu<true>, run_swiglu<true>, swiglu_workspace<true>>("swiglu_backward"),
    operation<check_aggregate, run_aggregate, aggregate_workspace>("aggregate"),
    operation<check_transpose, run_transpose, transpose_workspace>("quantize_transposed"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_layer", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
