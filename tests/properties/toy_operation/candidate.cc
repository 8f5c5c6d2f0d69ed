// A library that offers `multiply`. It is right, unless the environment variable MULTIPLY_WRONG is set: then
// the columns from the fifth on are copied and not multiplied.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/properties/toy_operation/candidate_multiply.h"

namespace {

const multiply_policy& policy_of(const mxcheck_policy* base) {
  return *static_cast<const multiply_policy*>(static_cast<const void*>(base));
}

mxcheck_status supports(const mxcheck_policy*, DLDataType dtype) {
  return dtype.code == kDLFloat && dtype.bits == 32 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

bool is_contiguous(const DLTensor& t, const mxcheck_policy& p) {
  return t.strides == nullptr || (t.strides[1] == 1 && t.strides[0] == p.cols);
}
bool is_right(const DLTensor& t, const mxcheck_policy& p) {
  return t.ndim == 2 && t.shape != nullptr && t.shape[0] == p.rows && t.shape[1] == p.cols &&
         t.dtype.code == kDLFloat && t.dtype.bits == 32 && t.dtype.lanes == 1 && t.device.device_type == kDLCPU &&
         t.device.device_id == 0 && is_contiguous(t, p) && (t.data != nullptr || p.rows * p.cols == 0);
}
// Before anything of it is read.
bool is_whole(const mxcheck_call* call) {
  return call->policy != nullptr && call->policy->size >= sizeof(multiply_policy) && call->inputs != nullptr &&
         call->outputs != nullptr && call->num_inputs == 1 && call->num_outputs == 1;
}
bool is_possible(const mxcheck_policy& p) { return p.rows >= 0 && p.cols >= 0 && p.threads >= 0; }

float* values_of(const DLTensor& t) {
  return static_cast<float*>(static_cast<void*>(static_cast<char*>(t.data) + t.byte_offset));
}

mxcheck_status run(const mxcheck_call* call) {
  if (call->size < sizeof(mxcheck_call)) return MXCHECK_INVALID;  // there may be no message to write to
  if (!is_whole(call) || !is_possible(*call->policy) || !is_right(call->inputs[0], *call->policy) ||
      !is_right(call->outputs[0], *call->policy)) {
    std::snprintf(call->message, call->message_bytes, "multiply takes x and gives y, fp32 of rows x cols");
    return MXCHECK_INVALID;
  }
  const multiply_policy& p = policy_of(call->policy);
  const bool wrong = std::getenv("MULTIPLY_WRONG") != nullptr;
  const float* x = values_of(call->inputs[0]);
  float* y = values_of(call->outputs[0]);
  for (std::int64_t i = 0; i < p.base.rows * p.base.cols; ++i)
    y[i] = wrong && i % p.base.cols > 3 ? x[i] : p.factor * x[i];
  return MXCHECK_OK;
}

}  // namespace

extern "C" const mxcheck_candidate_table* mxcheck_candidate() {
  static const std::array<mxcheck_operation, 1> operations{{{"multiply", "exact", 0, 0, 1, 1, supports, nullptr, run}}};
  static const mxcheck_candidate_table table{MXCHECK_CANDIDATE_VERSION,
                                             sizeof(table),
                                             "toy_operation",
                                             "1",
                                             kDLCPU,
                                             static_cast<std::int32_t>(operations.size()),
                                             operations.data()};
  return &table;
}
