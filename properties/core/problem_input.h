#pragma once
// The inputs of a problem, each declared once: the tensor of its call, and what a file of a saved counterexample has of
// it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "properties/core/call.h"
#include "properties/core/compare.h"

namespace mxcheck {

struct ProblemInput {
  CallTensor tensor;
  TensorInfo info;  // its name, and rows with the gaps between them
};

inline TensorInfo values_info(std::string name, Format format, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), format, rows, cols, 0, 0, true};
}

// A matrix of this format, one T an element; stride: elements of `values` from a row to the next one, 0 for cols.
template <class T>
ProblemInput matrix_input(TensorInfo info, const std::vector<T>& values, std::int64_t stride = 0) {
  CallTensor t;
  t.dtype = spec(info.format).is_value ? info.format : Format::e4m3;
  t.shape = {info.rows, info.cols};
  t.data = reinterpret_cast<const std::byte*>(values.data());
  t.bytes = values.size() * sizeof(T);
  if (stride > info.cols) {  // the gap after the last row is no part of it
    t.row_stride = stride;
    t.bytes = info.rows * info.cols == 0 ? 0 : t.bytes - static_cast<std::uint64_t>(stride - info.cols) * sizeof(T);
    info.cols = stride;
  }
  return {std::move(t), std::move(info)};
}

// FP32 numbers, an index of int32, offsets of int64.
template <class T>
ProblemInput vector_input(std::string name, const std::vector<T>& values) {
  ProblemInput in = matrix_input(values_info(std::move(name), Format::fp32, 1, std::ssize(values)), values);
  in.tensor.shape = {std::ssize(values)};
  in.tensor.is_index = std::is_same_v<T, std::int32_t>, in.tensor.is_offsets = std::is_same_v<T, std::int64_t>;
  if (std::is_integral_v<T>) in.info.integer_bits = 8 * static_cast<int>(sizeof(T));
  in.info.is_vector = true;
  return in;
}

// An output as a call has it.
CallTensor output_tensor(const TensorInfo& info);

}  // namespace mxcheck
