// The table of operations.

#include "kernels/candidate.h"

#include <array>

#include "kernels/common/boundary.h"
#include "kernels/sm90/quantize/operations.h"
#include "kernels/sm90/quantize/policy.h"

namespace mxcheck_kernels::sm90 {
namespace {

template <QuantizeOperation kOperation>
void check(const mxcheck_policy* policy, DLDataType type) {
  read_policy(kOperation, policy, type);
}

template <int kInputs>  // before offsets and row index
std::uint64_t workspace(const mxcheck_call& call) {
  return workspace_bytes(call, kInputs);
}

constexpr std::array kOperations{
    make_cuda_operation<check<QuantizeOperation::quantize>, run_quantize, workspace<1>>("quantize"),
    make_cuda_operation<check<QuantizeOperation::quantize_dual>, run_quantize_dual, workspace<1>>("quantize_dual"),
    make_cuda_operation<check<QuantizeOperation::dequantize>, run_dequantize, workspace<2>>("dequantize"),
    make_cuda_operation<check<QuantizeOperation::scale_layout>, run_scale_layout, workspace<1>>("scale_layout"),
    make_cuda_operation<check<QuantizeOperation::cast>, run_cast, workspace<1>>("cast"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
