// The table of operations, and the C boundary: no exception leaves, every refusal leaves a message.

#include "kernels/candidate.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/cpu/quantize/operations.h"
#include "kernels/cpu/quantize/plan.h"
#include "kernels/cpu/refusal.h"
#include "kernels/cpu/route/operations.h"
#include "kernels/cpu/route/policy.h"

namespace mxcheck_cpu {
namespace {

void say(const mxcheck_call* call, const char* text) {
  if (call->message != nullptr && call->message_bytes != 0) {
    std::snprintf(call->message, call->message_bytes, "%s", text);
  }
}

using Run = void (*)(const mxcheck_call&);

mxcheck_status run_guarded(const mxcheck_call* call, Run run) noexcept {
  // Without a call of the right size there is no message field to trust.
  if (call == nullptr || call->size < sizeof(mxcheck_call)) return MXCHECK_INVALID;
  try {
    run(*call);
    return MXCHECK_OK;
  } catch (const Refusal& refusal) {
    say(call, refusal.what());
    return refusal.status();
  } catch (const std::bad_alloc&) {
    say(call, "out of memory");
    return MXCHECK_NO_MEMORY;
  } catch (const std::exception& error) {
    say(call, error.what());
    return MXCHECK_FAILED;
  } catch (...) {
    say(call, "unknown exception");
    return MXCHECK_FAILED;
  }
}

void read(Operation operation, const mxcheck_policy* policy, DLDataType wide) { read_policy(operation, policy, wide); }
void read(RouteOperation operation, const mxcheck_policy* policy, DLDataType wide) {
  read_route_policy(operation, policy, wide);
}

template <auto kOperation>
mxcheck_status supports(const mxcheck_policy* policy, DLDataType wide) noexcept {
  try {
    read(kOperation, policy, wide);
    return MXCHECK_OK;
  } catch (...) {
    return MXCHECK_UNSUPPORTED;
  }
}

template <auto kOperation, Run kRun>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o{};
  o.name = name;
  o.contract = "exact";
  o.rows_multiple = 1;
  o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy* policy, DLDataType wide) { return supports<kOperation>(policy, wide); };
  o.run = [](const mxcheck_call* call) { return run_guarded(call, kRun); };
  return o;
}

constexpr std::array kOperations{
    operation<Operation::quantize, run_quantize>("quantize"),
    operation<Operation::quantize_dual, run_quantize_dual>("quantize_dual"),
    operation<Operation::dequantize, run_dequantize>("dequantize"),
    operation<Operation::scale_layout, run_scale_layout>("scale_layout"),
    operation<Operation::cast, run_cast>("cast"),
    operation<RouteOperation::route, run_route>("route"),
    operation<RouteOperation::route_round, run_route_round>("route_round"),
    operation<RouteOperation::route_metadata, run_route_metadata>("route_metadata"),
    operation<RouteOperation::route_backward, run_route_backward>("route_backward"),
};

constexpr mxcheck_candidate_table kTable{MXCHECK_CANDIDATE_VERSION,
                                         sizeof(mxcheck_candidate_table),
                                         "cpu",
                                         MXCHECK_CPU_VERSION,
                                         kDLCPU,
                                         static_cast<std::int32_t>(kOperations.size()),
                                         kOperations.data()};

}  // namespace
}  // namespace mxcheck_cpu

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_cpu::kTable;
}
