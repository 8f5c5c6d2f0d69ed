#pragma once
// Operands whose rows are no multiple of 16 bytes, copied to rows that are: TMA reads no others.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

struct PadOperand {
  const void* from = nullptr;  // rows of row_bytes, one after the other
  void* to = nullptr;          // rows of pitch_bytes, filled up with zeros; aligned to 16 bytes
  std::int64_t rows = 0;
};

struct PadJob {
  PadOperand operands[2];
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0;  // a multiple of 16
};

cudaError_t launch_pad(const PadJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
