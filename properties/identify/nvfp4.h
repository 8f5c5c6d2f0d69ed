#pragma once
// Which recipe of two levels of scales made this quantized matrix: NVFP4's codes, block scales and scale of the tensor.
//
//   Nvfp4Dump dump{rows, cols, Format::bf16, x, codes, {1, 16}, scales, 0.0123F};
//   match_nvfp4("dump", dump).explaining          // {"nvfp4_te, tensor_scale as amax"}
//
// Every recipe is tried with the scale of the tensor as it is given, read as each of the three numbers that are stored
// for it (s, its inverse S, the amax), and with that of the matrix's own amax. Where each row of a block has the same
// scale, blocks of 16 x 16 that repeat theirs are tried too.
//
// Errors: Error{usage} for sizes that do not fit one another.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "numerics/format/format.h"
#include "properties/core/definitions.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct Nvfp4Dump {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Format dtype = Format::fp32;        // of x: fp32, bf16 or fp16
  std::vector<float> x;               // rows x cols
  std::vector<std::uint8_t> codes;    // rows x cols, one a byte
  BlockShape block{1, 16};            // 1 x 16, 16 x 1 or 16 x 16
  std::vector<std::uint8_t> scales;   // compact
  std::optional<float> tensor_scale;  // none: of the matrix's own amax
};

Match match_nvfp4(const std::string& name, const Nvfp4Dump& dump);

}  // namespace mxcheck
