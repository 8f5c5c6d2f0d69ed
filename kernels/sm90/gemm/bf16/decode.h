#pragma once
// Codes with scales of 1 x 32 to BF16: RN(code * scale), ties to even, of the exact product. Subnormals stay, beyond
// BF16's largest there is Inf, NaN where the code or the scale (byte 255) is one.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/dtype.h"

namespace mxcheck_kernels::sm90 {

// Rows one after the other, each a multiple of 32 elements. codes and values are aligned to 16 bytes.
struct DecodeOperand {
  Element format = Element::e4m3;
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;  // E8M0
  std::uint16_t* values = nullptr;
  std::int64_t elements = 0;
  bool paired = false;  // values of 16 elements in the order 0 1 4 5 8 9 12 13 2 3 6 7 10 11 14 15
};

struct DecodeJob {
  DecodeOperand operands[2];             // the second may be empty
  const std::int32_t* status = nullptr;  // nothing is done unless the device reads 0 there
  // Groups along a row of `pitch` elements that end within a block, or none: experts + 1 offsets, and the column of
  // each one's first scale, of scale_columns in a row. Elements from the last end on become zeros.
  const std::int64_t* offsets = nullptr;
  const std::int64_t* starts = nullptr;
  std::int64_t experts = 0;
  std::int64_t pitch = 0;
  std::int64_t scale_columns = 0;
};

cudaError_t launch_decode(const DecodeJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
