#pragma once
// Codes along tokens, transposed: what a GEMM with groups along depth reads.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/coding.h"
#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct ColumnCodes {
  std::uint8_t* codes = nullptr;  // [columns, rows]; null: not written
  void* scales = nullptr;         // [columns, bands]
  std::int64_t bands = 0;
  DeviceCoding coding;
  std::int64_t stride = 0;  // elements from a column's codes to the next; 0: rows
  // An expert's codes begin at 128 times the number of bands before it, +0 up to the next multiple of 128: what the
  // FP8 GEMM reads. Of blocks of 128 rows alone; codes and stride are multiples of 4.
  bool padded = false;
};

// With the stride that 0 stands for.
inline ColumnCodes with_stride(ColumnCodes out, std::int64_t rows) {
  if (out.stride == 0) out.stride = rows;
  return out;
}

// Whether codes can be padded as they are to be.
inline bool is_padding_possible(const ColumnCodes& out) {
  const auto address = reinterpret_cast<std::uintptr_t>(out.codes);
  return !out.padded || (out.coding.block == 128 && (address | static_cast<std::uintptr_t>(out.stride)) % 4 == 0);
}

// Values, or codes with scales of blocks of 1 x 128: the value is then code * scale, rounded to FP32.
struct TransposeJob {
  const void* x = nullptr;
  Dtype dtype = Dtype::bf16;            // of values
  std::int64_t stride = 0;              // elements from row to row
  const std::int32_t* index = nullptr;  // row i is row index[i] of x; null: row i
  std::int64_t cols = 0;
  TiledRows rows;
  ColumnCodes out;
  const void* scales = nullptr;   // of codes, FP32 or E8M0, a row of them for each row of x; null: x is values
  std::int64_t scale_blocks = 0;  // of a row
  bool e8m0 = false;
  Element element = Element::e4m3;  // of x's codes
};

// vector: 8 neighbours of x, in BF16 or codes, are one aligned load, and cols is a multiple of 8.
// cudaErrorInvalidValue for a padding that there is not, and for codes of 2^31 columns.
cudaError_t launch_transpose(const TransposeJob& job, bool vector, cudaStream_t stream);
// The part of launch_transpose that takes codes, with out.stride set.
cudaError_t launch_transpose_codes(const TransposeJob& job, bool vector, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
