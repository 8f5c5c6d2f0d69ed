// The table of operations, and the C boundary: no exception leaves, every refusal leaves a message.

#include "kernels/candidate.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/sm90/common/refusal.h"
#include "kernels/sm90/quantize/operations.h"
#include "kernels/sm90/quantize/policy.h"

namespace mxcheck_sm90 {
namespace {

void say(const mxcheck_call* call, const char* text) {
  if (call->message != nullptr && call->message_bytes != 0) {
    std::snprintf(call->message, call->message_bytes, "%s", text);
  }
}

template <class Run>
mxcheck_status guarded(const mxcheck_call* call, const Run& run) noexcept {
  // Without a call of the right size there is no message field to trust. `report` was appended: calls may lack it.
  if (call == nullptr || call->size < offsetof(mxcheck_call, report)) return MXCHECK_INVALID;
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

mxcheck_status supports_guarded(Operation operation, const mxcheck_policy* policy, DLDataType wide) noexcept {
  try {
    read_policy(operation, policy, wide);
    return MXCHECK_OK;
  } catch (...) {
    return MXCHECK_UNSUPPORTED;
  }
}

// kInputs: before offsets and row index.
template <Operation kOperation, void (*kRun)(const mxcheck_call&), int kInputs>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o{};
  o.name = name;
  o.contract = "exact";
  o.rows_multiple = 1;
  o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy* policy, DLDataType wide) { return supports_guarded(kOperation, policy, wide); };
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded(call, [bytes](const mxcheck_call& c) { *bytes = workspace_bytes(c, kInputs); });
  };
  o.run = [](const mxcheck_call* call) { return guarded(call, kRun); };
  return o;
}

constexpr std::array kOperations{
    operation<Operation::quantize, run_quantize, 1>("quantize"),
    operation<Operation::quantize_dual, run_quantize_dual, 1>("quantize_dual"),
    operation<Operation::dequantize, run_dequantize, 2>("dequantize"),
    operation<Operation::scale_layout, run_scale_layout, 1>("scale_layout"),
    operation<Operation::cast, run_cast, 1>("cast"),
};

constexpr mxcheck_candidate_table kTable{MXCHECK_CANDIDATE_VERSION,
                                         sizeof(mxcheck_candidate_table),
                                         "sm90",
                                         MXCHECK_SM90_VERSION,
                                         kDLCUDA,
                                         static_cast<std::int32_t>(kOperations.size()),
                                         kOperations.data()};

}  // namespace
}  // namespace mxcheck_sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_sm90::kTable;
}
