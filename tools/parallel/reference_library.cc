#include "tools/parallel/reference_library.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "kernels/candidate_layer.h"
#include "kernels/candidate_moe.h"
#include "numerics/error.h"
#include "properties/core/operation.h"

namespace mxcheck {
namespace {

CallTensor call_tensor(const DLTensor& from) {
  CallTensor t;
  t.is_offsets = from.dtype.code == kDLInt && from.dtype.bits == 64;
  t.is_index = from.dtype.code == kDLInt && from.dtype.bits == 32;
  if (from.dtype.code == kDLBfloat) t.dtype = Format::bf16;
  if (from.dtype.code == kDLUInt) t.dtype = Format::e4m3;
  t.shape.assign(from.shape, from.shape + from.ndim);
  t.bytes = from.dtype.bits / 8U;
  for (const std::int64_t extent : t.shape) t.bytes *= static_cast<std::uint64_t>(extent);
  t.data = static_cast<const std::byte*>(from.data) + from.byte_offset;
  return t;
}

template <class PolicyOf>
Policy policy_of(const mxcheck_policy* from) {
  PolicyOf policy{};
  std::memcpy(&policy, from, sizeof(policy));
  return pack(policy);
}

template <class PolicyOf>
void answer(const char* operation, const mxcheck_call& from) {
  Call call;
  call.operation = operation, call.policy = policy_of<PolicyOf>(from.policy);
  for (int i = 0; i < from.num_inputs; ++i) call.inputs.push_back(call_tensor(from.inputs[i]));
  for (int i = 0; i < from.num_outputs; ++i) call.outputs.push_back(call_tensor(from.outputs[i]));
  const std::unique_ptr<Problem> problem = operation_named(operation).problem_of(call);
  const std::vector<ExpectedTensor> all = problem->answer();
  if (all.size() != call.outputs.size())
    throw Error(ErrorKind::internal, "the reference has another number of outputs");
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].bytes.size() != call.outputs[i].bytes)
      throw Error(ErrorKind::internal, "an output of the reference has another size");
    auto* const to = static_cast<std::byte*>(from.outputs[i].data) + from.outputs[i].byte_offset;
    if (!all[i].bytes.empty()) std::memcpy(to, all[i].bytes.data(), all[i].bytes.size());
  }
}

constexpr std::array kNames{"moe_forward", "moe_backward", "aggregate", "quantize", "dequantize"};

template <std::size_t kName, class PolicyOf>
mxcheck_operation entry() {
  mxcheck_operation o{};
  o.name = kNames[kName], o.contract = "exact";
  o.rows_multiple = 1, o.cols_multiple = 1;
  o.supports = [](const mxcheck_policy*, DLDataType) { return MXCHECK_OK; };
  o.run = [](const mxcheck_call* call) noexcept {
    try {
      answer<PolicyOf>(kNames[kName], *call);
      return MXCHECK_OK;
    } catch (const std::exception& error) {
      std::snprintf(call->message, call->message_bytes, "%s", error.what());
      return MXCHECK_INVALID;
    }
  };
  return o;
}

}  // namespace

const mxcheck_candidate_table& reference_library() {
  static const std::array operations{entry<0, mxcheck_moe_policy>(), entry<1, mxcheck_moe_policy>(),
                                     entry<2, mxcheck_aggregate_policy>(), entry<3, mxcheck_policy>(),
                                     entry<4, mxcheck_policy>()};
  static const mxcheck_candidate_table table{MXCHECK_CANDIDATE_VERSION,
                                             sizeof(mxcheck_candidate_table),
                                             "reference",
                                             "1",
                                             kDLCPU,
                                             static_cast<std::int32_t>(operations.size()),
                                             operations.data()};
  return table;
}

}  // namespace mxcheck
