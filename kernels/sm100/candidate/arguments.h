#pragma once
// A call of the emulated library: kernels/common/arguments.h, that the tensors lie on the host, and what goes beside
// them. All throw Refusal.

#include <cstdint>

#include "kernels/common/arguments.h"

namespace mxcheck_kernels::sm100 {

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank);

// The tensors after the first `inputs`: offsets (int64) and a row index (int32), each at most once, told apart by type.
struct Extras {
  const DLTensor* offsets = nullptr;
  const DLTensor* index = nullptr;
};
Extras find_extras(const mxcheck_call& call, int inputs);

bool is_aligned(const void* data, std::uintptr_t to);

// INVALID for less than these bytes, or another alignment than 256.
void require_workspace(const mxcheck_call& call, std::uint64_t bytes);

// INVALID, naming the first that is wrong: offsets that do not ascend from 0 to `end`, rows that are not 0 to rows - 1.
void require_offsets(const Checked& offsets, std::int64_t end);
void require_rows(const Checked& index, std::int64_t rows);

}  // namespace mxcheck_kernels::sm100
