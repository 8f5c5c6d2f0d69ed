#pragma once
// Checks of every call by the right libraries of these tests, before they look at what it asks for: the fields of the
// call and the policy, and of each tensor all but its type and shape. Plain C++, for sources that link nothing.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/candidate_matmul.h"
#include "kernels/candidate_nvfp4.h"
#include "numerics/bytes.h"
#include "numerics/format/packing.h"
#include "reference/matmul/matmul.h"

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

// A call of the candidate interface as the reference takes a matmul.

inline const std::byte* data_of(const DLTensor& t) { return static_cast<const std::byte*>(t.data) + t.byte_offset; }

// Codes of NVFP4 operands, one an element, and the scales, for a library that changes them.
struct Nvfp4Operands {
  std::vector<std::uint8_t> codes[2];
  std::vector<std::uint8_t> scales[2];
};

// Nothing is checked. nvfp4 holds the codes that are packed in the call; it must outlive the result.
inline mxcheck::Matmul matmul_of(const mxcheck_call& call, std::string_view contract, Nvfp4Operands* nvfp4 = nullptr) {
  const auto& p = *reinterpret_cast<const mxcheck_matmul_policy*>(call.policy);
  const DLTensor* in = call.inputs;
  const bool scaled = p.scale_type != MXCHECK_NO_SCALES;
  mxcheck::Matmul x;
  const auto operand = [&](int i, const char* format, std::int64_t rows, mxcheck::BlockShape block) {
    mxcheck::MatmulOperand o;
    o.format = *mxcheck::find_format(format), o.codes = data_of(in[i]), o.rows = rows, o.depth = o.row_stride = p.depth;
    if (!scaled) return o;
    o.block = block;
    o.scale_format = p.scale_type == MXCHECK_E8M0   ? mxcheck::Format::e8m0
                     : p.scale_type == MXCHECK_E4M3 ? mxcheck::Format::e4m3
                                                    : mxcheck::Format::fp32;
    o.scales = data_of(in[i + 2]), o.scale_row_stride = in[i + 2].shape[1];
    if (p.scale_type != MXCHECK_E4M3 || nvfp4 == nullptr) return o;
    const auto bytes = [](const DLTensor& t) {
      return std::span(data_of(t), static_cast<std::size_t>(t.shape[0] * t.shape[1]));
    };
    nvfp4->codes[i] = mxcheck::unpacked_rows(bytes(in[i]), p.depth);
    nvfp4->scales[i] = mxcheck::values_in<std::uint8_t>(bytes(in[i + 2]));
    o.codes = nvfp4->codes[i].data(), o.scales = nvfp4->scales[i].data();
    return o;
  };
  x.a = operand(0, p.policy.format, in[0].shape[0], {p.policy.block_rows, p.policy.block_cols});
  x.b = operand(1, p.format_b, p.policy.cols, {p.block_b_rows, p.block_b_cols});
  int next = scaled ? 4 : 2;
  if (p.accumulate != 0) x.c = data_of(in[next++]);
  for (; next < call.num_inputs; ++next) {
    const auto count = static_cast<std::size_t>(in[next].shape[0]);
    if (in[next].dtype.bits == 64) {
      (p.grouping == MXCHECK_MASKED ? x.counts : x.offsets) = {reinterpret_cast<const std::int64_t*>(data_of(in[next])),
                                                               count};
    }
    if (in[next].dtype.bits == 32) {
      x.row_index = {reinterpret_cast<const std::int32_t*>(data_of(in[next])), count};
      x.gathers = true;
    }
  }
  x.output = call.outputs[0].dtype.bits == 16 ? mxcheck::Format::bf16 : mxcheck::Format::fp32;
  x.alpha = p.alpha, x.grouping = static_cast<mxcheck::Grouping>(p.grouping);
  x.contract = mxcheck::parse_matmul_contract(contract);
  if (x.c == nullptr) x.contract.from_c = false;
  return x;
}

}  // namespace right
