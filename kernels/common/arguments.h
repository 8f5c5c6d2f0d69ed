#pragma once
// The parts of a call, checked in full before anything is read through a tensor's data or written: policy, counts,
// types, shapes, strides, overflow, and that no output shares a byte with anything. Where memory lies is for the
// library to check (kernels/cpu/arguments.h, kernels/sm90/common/arguments.h). All throw Refusal{INVALID}.

#include <cstdint>
#include <span>
#include <string>

#include "kernels/candidate.h"
#include "kernels/common/dtype.h"
#include "kernels/common/refusal.h"

namespace mxcheck_kernels {

// A validated tensor: `bytes` from `data` on are its own, gaps between rows included.
struct Checked {
  void* data = nullptr;
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from row to row
  std::uint64_t bytes = 0;
};

enum class Strides : std::uint8_t { contiguous, any };  // from row to row

// The policy as the operation's struct, of which it is the first member; `of` ends the message.
template <class Policy>
const Policy& policy_of(const mxcheck_policy* policy, const char* of = "") {
  if (policy == nullptr) invalid("policy is null");
  if (policy->size < sizeof(Policy)) {
    invalid("policy.size is " + std::to_string(policy->size) + ": must be at least " + std::to_string(sizeof(Policy)) +
            of);
  }
  return *reinterpret_cast<const Policy*>(policy);
}

// The call has a policy, least_inputs to most_inputs inputs and this many outputs; `inputs` says in the message which.
void check_call(const mxcheck_call& call, int least_inputs, int most_inputs, int outputs, const char* inputs = "");

// A tensor of `rank` dimensions of this type, of which the caller has checked the device: `name` is the tensor's in
// the message.
Checked check_layout(const char* name, const DLTensor& tensor, DLDataType type, int rank, Strides strides);
void require_shape(const char* name, const Checked& tensor, std::int64_t rows, std::int64_t cols);
// A field that is 0 or 1.
void require_flag(const char* field, std::int32_t value);
void require_policy_shape(const mxcheck_policy& policy, std::int64_t rows, std::int64_t cols);

// No output shares a byte with an input or another output.
void require_disjoint(std::span<const Checked> inputs, std::span<const Checked> outputs);

// The tensors after the first `inputs`: offsets (int64) and a row index (int32), each at most once, told apart by type.
struct Extras {
  const DLTensor* offsets = nullptr;
  const DLTensor* index = nullptr;
};
Extras find_extras(const mxcheck_call& call, int inputs, bool index_possible = true);

bool is_aligned(const void* data, std::uintptr_t to);

// INVALID for less than these bytes, or another alignment than 256.
void require_workspace(const mxcheck_call& call, std::uint64_t bytes);

}  // namespace mxcheck_kernels
