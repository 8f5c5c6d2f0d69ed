#include "kernels/cpu/route/arguments.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels::cpu {
RoutePlan read_router_call(RouteOperation operation, const mxcheck_call& call) {
  if (call.policy == nullptr) invalid("policy is null");
  if (call.num_inputs < 1) invalid(std::to_string(call.num_inputs) + " inputs: must be 1 or more");
  if (call.inputs == nullptr) invalid("inputs is null");
  return read_route_policy(operation, call.policy, call.inputs[0].dtype);
}

Checked check_logits(const char* name, const DLTensor& tensor, const mxcheck_route_policy& policy, Dtype dtype,
                     Strides strides) {
  const Checked t = check_tensor(name, tensor, dl_type(dtype), 2, strides);
  require_shape(name, t, policy.policy.rows, policy.policy.cols);
  return t;
}

Checked check_matrix(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t rows, std::int64_t cols) {
  const Checked t = check_tensor(name, tensor, type, 2, Strides::contiguous);
  require_shape(name, t, rows, cols);
  return t;
}

Checked check_vector(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t count) {
  const Checked t = check_tensor(name, tensor, type, 1, Strides::contiguous);
  if (t.cols != count)
    invalid(std::string(name) + " has " + std::to_string(t.cols) + " elements: must have " + std::to_string(count));
  return t;
}

std::int64_t int32_rows(__int128 rows) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (rows > kMost) {
    const bool has_text = rows <= std::numeric_limits<std::int64_t>::max();
    invalid((has_text ? std::to_string(static_cast<std::int64_t>(rows)) : "2^63 or more") +
            " rows of experts: must be what int32 counts, at most " + std::to_string(kMost));
  }
  return static_cast<std::int64_t>(rows);
}

void refuse_experts(const char* name, const std::int32_t* values, std::int64_t count, std::int64_t experts) {
  const std::int32_t* const end = values + count;
  const std::int32_t* const bad = std::find_if(values, end, [&](std::int32_t e) { return e < -1 || e >= experts; });
  if (bad == end) return;
  invalid(std::string(name) + "[" + std::to_string(bad - values) + "] is " + std::to_string(*bad) +
          ": must be in [0, " + std::to_string(experts) + "), or -1 for none");
}

void refuse_twice(const char* name, const std::int32_t* values, std::int64_t tokens, std::int64_t top_k,
                  std::int64_t experts) {
  std::vector<std::int64_t> last_token(static_cast<std::size_t>(experts), -1);
  for (std::int64_t i = 0; i < tokens * top_k; ++i) {
    if (values[i] < 0) continue;
    std::int64_t& last = last_token[static_cast<std::size_t>(values[i])];
    if (last == i / top_k) {
      invalid(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(values[i]) + ": token " +
              std::to_string(last) + " has it before, and must have each expert once");
    }
    last = i / top_k;
  }
}

void refuse_token_offsets(const std::int64_t* offsets, std::int64_t tokens, std::int64_t slots) {
  if (offsets[0] != 0) invalid("token_offsets[0] is " + std::to_string(offsets[0]) + ": must be 0");
  for (std::int64_t t = 1; t <= tokens; ++t) {
    if (offsets[t] < offsets[t - 1]) {
      invalid("token_offsets[" + std::to_string(t) + "] is " + std::to_string(offsets[t]) +
              ": must be at least the one before it, " + std::to_string(offsets[t - 1]));
    }
  }
  if (offsets[tokens] != slots) {
    invalid("token_offsets[" + std::to_string(tokens) + "] is " + std::to_string(offsets[tokens]) +
            ": must be the number of slots, " + std::to_string(slots));
  }
}

}  // namespace mxcheck_kernels::cpu
