#pragma once
// Quantization as one launch: what the kernels of quantize.cuh are given.

#include <cstdint>

#include "kernels/sm90/quantize/geometry.h"

namespace mxcheck_kernels::sm90 {

struct Matrix {
  const void* data = nullptr;
  std::int64_t stride = 0;              // elements from row to row
  const std::int32_t* index = nullptr;  // row i is row index[i] of data; null: row i
  std::int64_t bytes = 0;               // from data to the end of its last row: nothing else may be read
};

struct Direction {
  std::uint8_t* codes = nullptr;  // rows x cols
  ScalePlace scales;
};

struct QuantizeJob {
  Matrix x;
  std::int64_t cols = 0;
  std::int64_t columns = 0;  // tiles of 128 columns
  Rows rows;
  std::uint32_t addend = 0;  // round_up_addend
  Direction row;             // blocks of one row, and square blocks
  Direction column;
};

// block: 32 or 128. The grid is rows.tiles * columns, which must be 1 to 2^31 - 1.
// Blocks of one row, by long runs. shifted: rows may start anywhere; otherwise 8 columns are an aligned load of 16 or
// 32 bytes and an aligned store of 8, and cols is a multiple of 8.
cudaError_t quantize_lines(const QuantizeJob& job, int block, Dtype dtype, Element element, bool shifted,
                           cudaStream_t stream);
// vector: four columns are one aligned load and one aligned store, in every row, and cols is a multiple of 4; otherwise
// rows may start anywhere.
cudaError_t quantize_column(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream);
cudaError_t quantize_square(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream);
// Both directions from one read, aligned as `vector` says.
cudaError_t quantize_dual(const QuantizeJob& job, int block, Dtype dtype, Element element, cudaStream_t stream);
// The same for BF16 by long runs, aligned as for quantize_lines; the second output's codes too.
cudaError_t quantize_wide_dual(const QuantizeJob& job, int block, Element element, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
