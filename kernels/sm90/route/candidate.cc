// The table of router operations, and the C boundary: no exception leaves, every refusal leaves a message.

#include "kernels/candidate.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <new>

#include "kernels/sm90/common/refusal.h"
#include "kernels/sm90/route/metadata/metadata.h"
#include "kernels/sm90/route/route.h"
#include "kernels/sm90/route/router.h"
#include "kernels/sm90/route/token_rounding/token_rounding.h"

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

template <class Check>
mxcheck_status offered(const Check& check) noexcept {
  try {
    check();
    return MXCHECK_OK;
  } catch (...) {
    return MXCHECK_UNSUPPORTED;
  }
}

// What it offers, needs and runs; all three throw Refusal.
template <void (*kCheck)(const mxcheck_policy*, DLDataType), std::uint64_t (*kWorkspace)(const mxcheck_call&),
          void (*kRun)(const mxcheck_call&)>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o{};
  o.name = name, o.contract = "exact";
  o.max_rows = INT32_MAX, o.max_cols = kMostExperts;
  o.rows_multiple = 1, o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy* p, DLDataType wide) { return offered([&] { kCheck(p, wide); }); };
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded(call, [bytes](const mxcheck_call& c) { *bytes = kWorkspace(c); });
  };
  o.run = [](const mxcheck_call* call) { return guarded(call, kRun); };
  return o;
}

constexpr std::array kOperations{
    operation<route_supports, route_workspace, route_run>("route"),
    operation<round_supports, round_workspace, round_run>("route_round"),
    operation<metadata_supports, metadata_workspace, metadata_run>("route_metadata"),
    operation<backward_supports, backward_workspace, backward_run>("route_backward"),
};

constexpr mxcheck_candidate_table kTable{MXCHECK_CANDIDATE_VERSION,
                                         sizeof(mxcheck_candidate_table),
                                         "sm90_route",
                                         MXCHECK_SM90_VERSION,
                                         kDLCUDA,
                                         static_cast<std::int32_t>(kOperations.size()),
                                         kOperations.data()};

}  // namespace
}  // namespace mxcheck_sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_sm90::kTable;
}
