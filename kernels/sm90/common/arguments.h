#pragma once
// The tensors of a call, checked in full before anything is enqueued: types, shapes, strides, overflow, where they are
// and that no output shares a byte with anything. What only the device can read is the plan kernel's (plan.h).

#include <cstdint>
#include <span>

#include "kernels/candidate.h"

namespace mxcheck_sm90 {

// A tensor that has passed: `bytes` from `data` on are its own, gaps between rows included.
struct Checked {
  void* data = nullptr;
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from row to row
  std::uint64_t bytes = 0;
};

enum class Lines : std::uint8_t { contiguous, strided };

inline constexpr DLDataType kByteType{kDLUInt, 8, 1};
inline constexpr DLDataType kOffsetType{kDLInt, 64, 1};
inline constexpr DLDataType kIndexType{kDLInt, 32, 1};

// All throw Refusal{INVALID}; `name` is the tensor's in the message.
void check_call(const mxcheck_call& call, int least_inputs, int most_inputs, int outputs);
Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Lines lines);
void require_shape(const char* name, const Checked& tensor, std::int64_t rows, std::int64_t cols);
void require_disjoint(std::span<const Checked> inputs, std::span<const Checked> outputs);

// The tensors after the first `inputs`: offsets (int64) and a row index (int32), each at most once, told apart by type.
struct Extras {
  const DLTensor* offsets = nullptr;
  const DLTensor* index = nullptr;
};
Extras find_extras(const mxcheck_call& call, int inputs, bool index_possible);

}  // namespace mxcheck_sm90
