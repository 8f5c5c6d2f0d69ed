#include "properties/process/first_calls.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/candidate.h"
#include "properties/core/policy.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kSpecialized = 16;  // Triton's divisor of extents and of addresses

std::string_view class_of(std::int64_t n) { return n == 0 ? "0" : n == 1 ? "1" : n % kSpecialized == 0 ? "16n" : "n"; }

std::string type_of(const wire::Tensor& t) {
  const char* code = t.dtype_code == kDLFloat    ? "f"
                     : t.dtype_code == kDLBfloat ? "bf"
                     : t.dtype_code == kDLInt    ? "i"
                                                 : "u";
  return code + std::to_string(t.dtype_bits);
}

std::string shape_of(const wire::Tensor& t) {
  std::string text;
  for (int i = 0; i < t.ndim; ++i) text += (i == 0 ? "" : " x ") + std::to_string(t.shape[i]);
  return text;
}

std::string policy_of(const wire::Message& message) {
  std::string text;
  for (std::uint32_t i = 0; i < message.policy.num_texts; ++i) {
    if (message.policy.texts[i].text[0] != '\0') text += std::string(" ") + message.policy.texts[i].text;
  }
  const auto p = read<mxcheck_policy>(message.policy);
  if (p.block_rows != 0) text += " " + std::to_string(p.block_rows) + "x" + std::to_string(p.block_cols);
  return text + (p.layout == MXCHECK_TCGEN05 ? " tcgen05" : "");
}

}  // namespace

void FirstCallCount::add(double took, const std::string& kind) {
  ++calls, seconds += took;
  if (took > longest) longest = took, longest_kind = kind;
}

void FirstCallCount::add(const FirstCallCount& other) {
  calls += other.calls, seconds += other.seconds;
  if (other.longest > longest) longest = other.longest, longest_kind = other.longest_kind;
}

bool FirstCalls::is_first(const std::string& operation, const wire::Message& message, bool static_shapes) {
  std::string kind = operation + policy_of(message);
  last_ = kind;
  const int tensors = std::clamp(message.num_inputs + message.num_outputs, 0, wire::kMaxTensors);
  for (int i = 0; i < tensors; ++i) {
    const wire::Tensor& t = message.tensors[i];
    if (i == 0) last_ += ", " + type_of(t) + " " + shape_of(t);
    kind += "; " + type_of(t);
    for (int d = 0; d < std::clamp(t.ndim, 0, wire::kMaxDimensions); ++d) {
      kind += " ";
      if (static_shapes) {
        kind += std::to_string(t.shape[d]);
      } else {
        kind += class_of(t.shape[d]);
      }
    }
    kind += t.offset % kSpecialized == 0 ? " @16" : " @";
    if (t.has_strides != 0) kind += class_of(t.strides[0]);
  }
  return made_.insert(std::move(kind)).second;
}

void FirstCalls::took(std::chrono::steady_clock::duration time) {
  count_.add(std::chrono::duration<double>(time).count(), last_);
}

}  // namespace mxcheck
