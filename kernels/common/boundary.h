#pragma once
// The C boundary of a kernel library: no exception leaves, every refusal leaves a message. A table of operations is
// made of functions that throw Refusal:
//
//   constexpr std::array kOperations{make_operation<check_cast, run_cast>("cast")};
//   constexpr mxcheck_candidate_table kTable = make_table("cpu", MXCHECK_CPU_VERSION, kDLCPU, kOperations);

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <span>

#include "kernels/candidate.h"
#include "kernels/common/refusal.h"

namespace mxcheck_kernels {

inline void put_message(const mxcheck_call* call, const char* text) {
  if (call->message != nullptr && call->message_bytes != 0) {
    std::snprintf(call->message, call->message_bytes, "%s", text);
  }
}

// kCallBytes: the least size of a call. Without it there is no message field to trust.
template <std::size_t kCallBytes, class Run>
mxcheck_status guarded(const mxcheck_call* call, const Run& run) noexcept {
  if (call == nullptr || call->size < kCallBytes) return MXCHECK_INVALID;
  try {
    run(*call);
    return MXCHECK_OK;
  } catch (const Refusal& refusal) {
    put_message(call, refusal.what());
    return refusal.status();
  } catch (const std::bad_alloc&) {
    put_message(call, "out of memory");
    return MXCHECK_NO_MEMORY;
  } catch (const std::exception& error) {
    put_message(call, error.what());
    return MXCHECK_FAILED;
  } catch (...) {
    put_message(call, "unknown exception");
    return MXCHECK_FAILED;
  }
}

// kCheck(policy, type) throws for what is not offered, kRun(call) for a call that it does not run.
template <auto kCheck, auto kRun, std::size_t kCallBytes = sizeof(mxcheck_call)>
constexpr mxcheck_operation make_operation(const char* name, const char* contract = "exact") {
  mxcheck_operation o{};
  o.name = name, o.contract = contract;
  o.rows_multiple = 1, o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy* policy, DLDataType dtype) -> mxcheck_status {
    try {
      kCheck(policy, dtype);
      return MXCHECK_OK;
    } catch (...) {
      return MXCHECK_UNSUPPORTED;
    }
  };
  o.run = [](const mxcheck_call* call) { return guarded<kCallBytes>(call, kRun); };
  return o;
}

// kWorkspace(call): the bytes that a call needs. `report` was appended to the call, and a CUDA library does without.
inline constexpr std::size_t kCallWithoutReport = offsetof(mxcheck_call, report);

template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation make_cuda_operation(const char* name, const char* contract = "exact") {
  mxcheck_operation o = make_operation<kCheck, kRun, kCallWithoutReport>(name, contract);
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded<kCallWithoutReport>(call, [bytes](const mxcheck_call& c) { *bytes = kWorkspace(c); });
  };
  return o;
}

constexpr mxcheck_candidate_table make_table(const char* name, const char* version, DLDeviceType device,
                                             std::span<const mxcheck_operation> operations) {
  return {MXCHECK_CANDIDATE_VERSION,
          sizeof(mxcheck_candidate_table),
          name,
          version,
          device,
          static_cast<std::int32_t>(operations.size()),
          operations.data()};
}

}  // namespace mxcheck_kernels
