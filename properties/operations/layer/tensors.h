#pragma once
// Tensors of the steps of a layer: descriptions, tensors of calls, codes written transposed.

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
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

CallTensor fp32_tensor(const std::vector<float>& values, std::vector<std::int64_t> shape);
CallTensor byte_tensor(const std::vector<std::uint8_t>& bytes, std::vector<std::int64_t> shape);
// An output as the call has it: matrices, but for ds.
CallTensor output_tensor(const TensorInfo& info, bool is_vector);

TensorInfo values_info(std::string name, Format format, std::int64_t rows, std::int64_t cols);
// Codes with blocks of 1 x block, and their scales.
TensorInfo codes_info(std::string name, Format format, std::int64_t rows, std::int64_t cols, std::int64_t block);
TensorInfo scales_info(std::string name, const Recipe& recipe, std::int64_t rows, std::int64_t cols);

// Scales of `rows` rows in blocks of that many rows, which start again at each expert.
std::int64_t scales_along_rows(std::int64_t rows, std::int64_t block, std::span<const std::int64_t> experts);

// Codes and scales as bytes.
struct CodedBytes {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
};
CodedBytes coded_rows(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block);
CodedBytes coded_columns(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block,
                         std::span<const std::int64_t> experts);  // transposed

// As a file of a saved counterexample holds them; nothing where there is no element.
void save(std::vector<SavedTensor>& to, TensorInfo info, std::vector<std::byte> bytes, bool is_vector = false);
template <class T>
void save_vector(std::vector<SavedTensor>& to, std::string name, const std::vector<T>& values) {
  TensorInfo info = values_info(std::move(name), Format::fp32, 1, static_cast<std::int64_t>(values.size()));
  if (std::is_integral_v<T>) info.integer_bits = 8 * static_cast<int>(sizeof(T));
  save(to, std::move(info), to_bytes(values), true);
}

}  // namespace mxcheck
