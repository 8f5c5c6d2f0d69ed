#pragma once
// The tensors of a call that quantizes: scales and offsets beside what all calls have. All throw Refusal{INVALID}.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/candidate.h"
#include "kernels/common/quantize/policy.h"
#include "kernels/cpu/arguments.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_kernels::cpu {

inline int scale_rank(mxcheck_layout layout) { return layout == MXCHECK_TCGEN05 ? 1 : 2; }
void require_scales(const char* name, const Checked& tensor, const ScaleMap& map, mxcheck_layout layout);

// The tensor of expert offsets, which is input number `inputs` if there is one, and its values.
struct Offsets {
  Checked tensor;                        // no bytes if there is none
  std::span<const std::int64_t> values;  // the caller's memory; empty if there is none
};
Offsets check_offsets(const mxcheck_call& call, int inputs, std::int64_t rows);
Offsets check_offsets(const DLTensor* tensor, std::int64_t rows);  // null: there is none

// The tensor of a row index of so many rows of the matrix, and its values, all of them rows of x.
struct RowIndex {
  Checked tensor;                        // no bytes if there is none
  const std::int32_t* values = nullptr;  // the caller's memory; null if there is none
};
RowIndex check_row_index(const DLTensor* tensor, std::int64_t rows, std::int64_t source_rows);  // null: there is none

// x of any strides. Columns that do not follow one another are copied to where they do.
class StridedX {
 public:
  StridedX(const DLTensor& tensor, DLDataType type);
  [[nodiscard]] const Checked& tensor() const { return x_; }  // the caller's memory
  // The values, in rows; the first call copies, with at most this many threads.
  [[nodiscard]] Checked rows(std::int32_t threads);

 private:
  Checked x_;
  std::size_t width_;
  std::int64_t col_stride_ = 1;
  std::unique_ptr<std::byte[]> copy_;
};

// Checks the inputs after x: unsupported() for a row index, which this library does not take; invalid() for two more.
void check_options(const mxcheck_call& call);

// Parses a policy; throws Refusal for anything that this library does not support.

// Throws Refusal as read_quantize_policy() does.
QuantizePolicy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type);

// The operations, as the table has them: check the call, then do it. Throw Refusal before the first output byte, and
// std::bad_alloc likewise.

void run_quantize(const mxcheck_call& call);
void run_quantize_dual(const mxcheck_call& call);
void run_dequantize(const mxcheck_call& call);
void run_scale_layout(const mxcheck_call& call);
void run_cast(const mxcheck_call& call);

}  // namespace mxcheck_kernels::cpu
