#pragma once
// A tensor as the matrix that quantization takes.

#include <cstdint>
#include <optional>
#include <string>

#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_file.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct MatrixInput {
  std::string location;               // for messages
  std::optional<std::int64_t> index;  // which matrix of three dimensions
  std::string dtype;                  // "bf16" or "fp16": what 16-bit integers are the bits of; empty: none
};

// The part of a tensor that is to be read: a matrix, and how many bytes of other matrices lie before it.
struct MatrixHead {
  Format dtype = Format::fp32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t bytes_before = 0;
};
MatrixHead matrix_head(const MatrixInput& input, const TensorHead& head);

// Two dimensions (or three and an index) of F32, BF16 or F16. Error{input} or Error{usage} for anything else. The view
// is into the tensor.
MatrixView matrix_of(const MatrixInput& input, const Tensor& tensor);

}  // namespace mxcheck
