// The table of operations.

#include "kernels/candidate.h"

#include <array>

#include "kernels/common/boundary.h"
#include "kernels/cpu/quantize/arguments.h"
#include "kernels/cpu/route/arguments.h"
#include "kernels/cpu/route/policy.h"

namespace mxcheck_kernels::cpu {
namespace {

template <QuantizeOperation kOperation>
void check(const mxcheck_policy* policy, DLDataType type) {
  read_policy(kOperation, policy, type);
}
template <RouteOperation kOperation>
void check(const mxcheck_policy* policy, DLDataType type) {
  read_route_policy(kOperation, policy, type);
}

constexpr const char* kOfAnyStrides = "exact+col_stride";

constexpr std::array kOperations{
    make_operation<check<QuantizeOperation::quantize>, run_quantize>("quantize", kOfAnyStrides),
    make_operation<check<QuantizeOperation::quantize_dual>, run_quantize_dual>("quantize_dual", kOfAnyStrides),
    make_operation<check<QuantizeOperation::dequantize>, run_dequantize>("dequantize"),
    make_operation<check<QuantizeOperation::scale_layout>, run_scale_layout>("scale_layout"),
    make_operation<check<QuantizeOperation::cast>, run_cast>("cast", kOfAnyStrides),
    make_operation<check<RouteOperation::route>, run_route>("route"),
    make_operation<check<RouteOperation::route_round>, run_route_round>("route_round"),
    make_operation<check<RouteOperation::route_metadata>, run_route_metadata>("route_metadata"),
    make_operation<check<RouteOperation::route_backward>, run_route_backward>("route_backward"),
};

constexpr mxcheck_candidate_table kTable = make_table("cpu", MXCHECK_CPU_VERSION, kDLCPU, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::cpu

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::cpu::kTable;
}
