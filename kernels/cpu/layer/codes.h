#pragma once
// One block of values to codes and a scale, by kernels/common/layer/policy.h's rules.

#include <cstdint>

#include "kernels/common/layer/policy.h"

namespace mxcheck_kernels::cpu {

// Where a block's elements are: the first value and code, and how far apart the next ones are.
struct Line {
  const float* x = nullptr;
  std::int64_t x_step = 1;
  std::uint8_t* codes = nullptr;
  std::int64_t code_step = 1;
  std::int64_t count = 0;
};

// `scale`: one byte, or a float for CodeScale::fp32.
void encode_block(const Coding& coding, const Line& line, void* scale);

// Rows x cols values, one row after the other, in blocks of 1 x coding.block: codes rows x cols, scales.
struct Values {
  const float* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};
void encode_rows(const Coding& coding, const Values& values, std::uint8_t* codes, void* scales);

// One block of rows, in blocks of rows x 1: codes of column j from codes + j * code_stride on, its scale
// j * scale_stride after the first.
void encode_columns(const Coding& coding, const Values& values, std::uint8_t* codes, std::int64_t code_stride,
                    void* scales, std::int64_t scale_stride);

}  // namespace mxcheck_kernels::cpu
