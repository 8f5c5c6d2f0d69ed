#pragma once
// The tensors of a call, checked in full before anything is read through their data or written.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_cpu {

// A tensor that has passed: `bytes` from `data` on are its own, gaps between rows included.
struct Checked {
  void* data = nullptr;
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from row to row
  std::uint64_t bytes = 0;
};

// The call itself: sizes, counts and arrays. Inputs may be `inputs` or one more (offsets). Throws Refusal{INVALID}.
void check_call(const mxcheck_call* call, int inputs, int outputs);

enum class Rows : std::uint8_t { contiguous, strided };

// A tensor of `rank` dimensions of this type on the host. All throw Refusal{INVALID} naming the tensor by `name`.
Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Rows rows);
void require_shape(const char* name, const Checked& tensor, std::int64_t rows, std::int64_t cols);
void require_scales(const char* name, const Checked& tensor, const ScaleMap& map, mxcheck_layout layout);

// The tensor of expert offsets, which is input number `inputs` if there is one, and its values.
struct Offsets {
  Checked tensor;                        // no bytes if there is none
  std::span<const std::int64_t> values;  // the caller's memory; empty if there is none
};
Offsets check_offsets(const mxcheck_call& call, int inputs, std::int64_t rows);

// No output shares a byte with an input or another output.
void require_disjoint(std::span<const Checked> inputs, std::span<const Checked> outputs);

inline constexpr DLDataType kByteType{kDLUInt, 8, 1};

inline int scale_rank(mxcheck_layout layout) { return layout == MXCHECK_TCGEN05 ? 1 : 2; }

}  // namespace mxcheck_cpu
