// The library: its calls are read as the reference candidate reads them, and answered with the fault.

#include <cstdio>
#include <cstring>
#include <exception>

#include "numerics/error.h"
#include "tests/libraries/right/reference/call.h"
#include "tests/libraries/wrong/moe/faulty.h"

namespace mxcheck::faults {
namespace {

std::string& fault() {
  static std::string name;
  return name;
}

// Where the policy of both operations has its texts.
const Policy& like() {
  static const Operation& operation = operation_named("moe_forward");
  static const Policy policy = operation.question(operation.askable("moe_forward").front());
  return policy;
}

void answer(const mxcheck_call& from, const char* operation) {
  const Call call = candidates::call_of(from, operation, like());
  const std::unique_ptr<Problem> problem = candidates::checked_problem_of(call);
  const auto& p = dynamic_cast<const MoeProblem&>(*problem);
  const FaultyAnswer all = is_moe_backward(p.c.variant) ? faulty_backward(p) : faulty_forward(p);
  for (std::size_t i = 0; i < all.tensors.size(); ++i) {
    std::vector<std::byte> bytes = all.tensors[i].bytes;
    auto* to = const_cast<std::byte*>(call.outputs[i].data);
    for (const Unwritten& u : all.unwritten) {
      if (u.output == i) std::memcpy(bytes.data() + u.begin, to + u.begin, static_cast<std::size_t>(u.end - u.begin));
    }
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
}

mxcheck_status run(const mxcheck_call* call, const char* operation) {
  if (call == nullptr || call->size < sizeof(mxcheck_call)) return MXCHECK_INVALID;
  try {
    answer(*call, operation);
    return MXCHECK_OK;
  } catch (const std::exception& error) {
    if (call->message != nullptr && call->message_bytes != 0)
      std::snprintf(call->message, call->message_bytes, "%s", error.what());
    return MXCHECK_INVALID;
  }
}

mxcheck_operation entry(const char* name, mxcheck_status (*run_it)(const mxcheck_call*)) {
  mxcheck_operation o{};
  o.name = name, o.contract = "exact", o.rows_multiple = o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy*, DLDataType) { return MXCHECK_OK; };
  o.workspace = [](const mxcheck_call*, std::uint64_t* bytes) {
    *bytes = 0;
    return MXCHECK_OK;
  };
  o.run = run_it;
  return o;
}

}  // namespace

bool has(std::string_view name) { return fault() == name; }

}  // namespace mxcheck::faults

const mxcheck_candidate_table* mxcheck_faulty_layer(const char* name) {
  using namespace mxcheck::faults;
  fault() = name;
  static const mxcheck_operation operations[] = {
      entry("moe_forward", [](const mxcheck_call* call) { return run(call, "moe_forward"); }),
      entry("moe_backward", [](const mxcheck_call* call) { return run(call, "moe_backward"); }),
  };
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "faulty layer", "1", kDLCPU, 2, operations};
  return &table;
}
