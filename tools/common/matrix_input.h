#pragma once
// A tensor as the matrix that quantization takes.

#include <cstdint>
#include <optional>
#include <string>

#include "goldens/io/tensor_file.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct MatrixInput {
  std::string location;               // for messages
  std::optional<std::int64_t> index;  // which matrix of three dimensions
  std::string dtype;                  // "bf16" or "fp16": what 16-bit integers are the bits of; empty: none
};

// Two dimensions (or three and an index) of F32, BF16 or F16. Error{input} or Error{usage} for anything else. The view
// is into the tensor.
MatrixView matrix_of(const MatrixInput& input, const Tensor& tensor);

}  // namespace mxcheck
