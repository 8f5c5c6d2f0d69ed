#pragma once
// Checks of every call by the right libraries of these tests, before they look at what it asks for: the fields of the
// call and the policy, and of each tensor all but its type and shape. Plain C++, for sources that link nothing.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kernels/candidate.h"

namespace right {

// A variable of the environment, by which a test says how a library is to be; "" where it is not set.
inline std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A call of a size that has the fields, a message among them.
inline bool has_fields(const mxcheck_call* call) {
  return call != nullptr && call->size >= offsetof(mxcheck_call, report);
}

inline mxcheck_status refuse(const mxcheck_call* call, mxcheck_status status, const char* why) {
  std::snprintf(call->message, call->message_bytes, "%s", why);
  return status;
}

// The elements of a row follow one another, and so do rows, unless they may have gaps between them.
inline bool has_right_strides(const DLTensor& t, bool gaps) {
  if (t.strides == nullptr) return true;
  const std::int64_t cols = t.shape[t.ndim - 1];
  if (cols > 1 && t.strides[t.ndim - 1] != 1) return false;
  if (t.ndim == 1 || t.shape[0] <= 1) return true;
  return gaps ? t.strides[0] >= cols : t.strides[0] == cols;
}

// Empty (null) where nothing is wrong.
inline const char* problem_of(const DLTensor& t, DLDeviceType device, bool gaps) {
  if (t.device.device_type != device || t.device.device_id != 0) return "a tensor is on another device";
  if (t.ndim != 1 && t.ndim != 2) return "a tensor has neither one dimension nor two";
  if (t.dtype.lanes != 1) return "a tensor's type has several lanes";
  if (t.shape == nullptr) return "a tensor has no shape";
  bool empty = false;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] < 0) return "an extent is negative";
    empty = empty || t.shape[i] == 0;
  }
  if (!empty && t.data == nullptr) return "a tensor has no data";
  return has_right_strides(t, gaps) ? nullptr : "a tensor has strides that it may not have";
}

// The problem of a call that has_fields; null where there is none. gaps: whether the first input may have them.
inline const char* problem_of(const mxcheck_call& call, std::size_t policy_bytes, bool gaps,
                              DLDeviceType device = kDLCPU) {
  if (call.policy == nullptr || call.policy->size < policy_bytes) return "the policy is null or too small";
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // a product with what a tensor has stays in range
  const mxcheck_policy& p = *call.policy;
  if (p.rows < 0 || p.rows > kMost || p.cols < 0 || p.cols > kMost) return "rows or cols are out of range";
  if (device == kDLCPU && p.threads < 0) return "threads is negative";
  if (call.inputs == nullptr || call.outputs == nullptr) return "inputs or outputs are null";
  if (call.num_inputs < 1 || call.num_outputs < 1) return "inputs or outputs are missing";
  for (int i = 0; i < call.num_inputs; ++i) {
    if (const char* problem = problem_of(call.inputs[i], device, gaps && i == 0)) return problem;
  }
  for (int i = 0; i < call.num_outputs; ++i) {
    if (const char* problem = problem_of(call.outputs[i], device, false)) return problem;
  }
  return nullptr;
}

}  // namespace right
