// The table of products, and the C boundary: no exception leaves, every refusal leaves a message.

#include "kernels/candidate.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>

#include "kernels/sm90/common/refusal.h"
#include "kernels/sm90/gemm/call/matmul.h"

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

constexpr mxcheck_operation product(const char* contract) {
  mxcheck_operation o{};
  o.name = "matmul";
  o.contract = contract;
  o.max_rows = INT32_MAX, o.max_cols = INT32_MAX;
  o.rows_multiple = 1, o.cols_multiple = 1;
  return o;
}

// Sums of two operands of one format; FP8 takes either on either side.
template <Code kCode>
constexpr mxcheck_operation sums(const char* contract) {
  mxcheck_operation o = product(contract);
  o.supports = [](const mxcheck_policy* p, DLDataType wide) {
    return offered([&] { check_sums(kCode, kCode, p, wide); });
  };
  o.run = [](const mxcheck_call* call) {
    return guarded(call, [](const mxcheck_call& c) { run_sums(kCode, kCode, c); });
  };
  return o;
}

Code fp8_code(const char* format) {
  if (format != nullptr && std::string_view(format) == "e4m3") return Code::e4m3;
  if (format != nullptr && std::string_view(format) == "e5m2") return Code::e5m2;
  unsupported("format " + std::string(format == nullptr ? "null" : format) + " is not offered: offered are e4m3, e5m2");
}

constexpr mxcheck_operation fp8_sums() {
  mxcheck_operation o = product("sm90_fp8+from_c");
  o.supports = [](const mxcheck_policy* policy, DLDataType wide) {
    return offered([&] {
      const mxcheck_matmul_policy& p = matmul_policy(policy);
      check_sums(fp8_code(p.policy.format), fp8_code(p.format_b), policy, wide);
    });
  };
  o.run = [](const mxcheck_call* call) {
    return guarded(call, [](const mxcheck_call& c) {
      const mxcheck_matmul_policy& p = matmul_policy(c.policy);
      run_sums(fp8_code(p.policy.format), fp8_code(p.format_b), c);
    });
  };
  return o;
}

// Of one family: what it offers, runs and needs.
template <void (*kCheck)(const mxcheck_policy*, DLDataType), void (*kRun)(const mxcheck_call&),
          std::uint64_t (*kWorkspace)(const mxcheck_call&)>
constexpr mxcheck_operation gemm(const char* contract) {
  mxcheck_operation o = product(contract);
  o.supports = [](const mxcheck_policy* p, DLDataType wide) { return offered([&] { kCheck(p, wide); }); };
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded(call, [bytes](const mxcheck_call& c) { *bytes = kWorkspace(c); });
  };
  o.run = [](const mxcheck_call* call) { return guarded(call, kRun); };
  return o;
}

constexpr std::array kOperations{
    gemm<check_fp8, run_fp8, fp8_workspace>("sm90_fp8+promote128"),
    gemm<check_bf16, run_bf16, bf16_workspace>("sm90_bf16"),
    gemm<check_decode, run_decode, decode_workspace>("sm90_bf16+decode"),
    fp8_sums(),
    sums<Code::bf16>("sm90_bf16+from_c"),
    sums<Code::fp16>("sm90_fp16+from_c"),
    sums<Code::tf32>("sm90_tf32+from_c"),
};

constexpr mxcheck_candidate_table kTable{MXCHECK_CANDIDATE_VERSION,
                                         sizeof(mxcheck_candidate_table),
                                         "sm90_gemm",
                                         MXCHECK_SM90_VERSION,
                                         kDLCUDA,
                                         static_cast<std::int32_t>(kOperations.size()),
                                         kOperations.data()};

}  // namespace
}  // namespace mxcheck_sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_sm90::kTable;
}
