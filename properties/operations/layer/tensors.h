#pragma once
// Tensors of the steps of a layer: descriptions, tensors of calls, codes written transposed.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/call.h"
#include "properties/core/operation.h"
#include "reference/common/matrix.h"

namespace mxcheck {

// Error{internal} for a call that has no such input.
const CallTensor& input_number(const Call& call, std::size_t number);

// Codes with blocks of 1 x block, and their scales.
TensorInfo codes_info(std::string name, Format format, std::int64_t rows, std::int64_t cols, std::int64_t block);
TensorInfo scales_info(std::string name, const Recipe& recipe, std::int64_t rows, std::int64_t cols);

// Scales of `rows` rows in blocks of that many rows, which start again at each expert.
std::int64_t scales_along_rows(std::int64_t rows, std::int64_t block, std::span<const std::int64_t> experts);

// Lines of n pairs of gate and up value, `width` bytes each, in halves: gates first.
std::vector<std::byte> in_halves(const std::vector<std::byte>& interleaved, std::int64_t n, std::size_t width);

// Codes and scales as bytes.
struct CodedBytes {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
};
CodedBytes coded_rows(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block);
CodedBytes coded_columns(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block,
                         std::span<const std::int64_t> experts);  // transposed

}  // namespace mxcheck
