// The library: its calls are read as the reference candidate reads them, and answered with the fault.

#include <cstdio>
#include <cstring>
#include <exception>

#include "numerics/error.h"
#include "tests/libraries/right/reference/call.h"
#include "tests/libraries/right/reference/kept_weights.h"
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

bool keeps_weights() { return fault().starts_with("kept_weights_"); }

candidates::KeptWeightsFaults faults_of_kept_weights() {
  candidates::KeptWeightsFaults f;
  f.ignores_operation = has("kept_weights_of_the_other_pass");
  f.ignores_recipe = has("kept_weights_of_another_recipe");
  f.ignores_order = has("kept_weights_of_another_order");
  f.ignores_shape = has("kept_weights_of_another_shape");
  f.accepts_any_memory = has("kept_weights_that_no_call_wrote");
  f.never_refreshes = has("kept_weights_never_refreshed");
  f.keeps_w1_alone = has("kept_weights_of_w1_alone");
  f.checks_w1_alone = has("kept_weights_checked_in_w1_alone");
  f.leaves_out_the_last = has("kept_weights_digest_without_the_last_word");
  f.digest_commutes = has("kept_weights_digest_in_any_order");
  f.digest_drops_low_bits = has("kept_weights_digest_without_the_lowest_bit");
  f.checks_after_writing = has("kept_weights_checked_after_writing");
  f.writes_past_the_end = has("kept_weights_one_byte_past_the_memory");
  f.refusal_spoils_memory = has("kept_weights_spoilt_by_a_refusal");
  f.refused_keep_clears_scales = has("kept_weights_cleared_by_a_refused_keep");
  f.writes_before_checks = has("kept_weights_half_written_by_a_refused_keep");
  return f;
}

mxcheck_status run(const mxcheck_call* call, const char* operation) {
  if (call == nullptr || call->size < sizeof(mxcheck_call)) return MXCHECK_INVALID;
  try {
    if (has("larger_policy_refused") && call->policy != nullptr && call->policy->size > sizeof(mxcheck_moe_policy))
      throw Error(ErrorKind::usage, "policy.size is too large");
    if (keeps_weights() && candidates::has_kept_weights(call->policy)) {
      const auto plain = [&](const mxcheck_call& without) { answer(without, operation); };
      candidates::run_with_kept_weights(*call, operation, faults_of_kept_weights(), plain);
    } else {
      answer(*call, operation);
    }
    return MXCHECK_OK;
  } catch (const std::exception& error) {
    if (call->message != nullptr && call->message_bytes != 0)
      std::snprintf(call->message, call->message_bytes, "%s", error.what());
    return MXCHECK_INVALID;
  }
}

mxcheck_operation entry(const char* name, mxcheck_status (*run_it)(const mxcheck_call*)) {
  mxcheck_operation o{};
  o.name = name, o.contract = keeps_weights() ? MXCHECK_KEPT_WEIGHTS_CONTRACT : "exact",
  o.rows_multiple = o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy*, DLDataType) { return MXCHECK_OK; };
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    *bytes = 0;
    try {
      if (call != nullptr && keeps_weights()) candidates::asks_for_bytes(call->policy, bytes);
      return MXCHECK_OK;
    } catch (const std::exception&) {
      return MXCHECK_INVALID;
    }
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
