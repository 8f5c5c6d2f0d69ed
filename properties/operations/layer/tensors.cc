#include "properties/operations/layer/tensors.h"

#include "numerics/error.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

template <class T>
std::vector<std::byte> transposed_bytes(const std::vector<T>& from, std::int64_t rows, std::int64_t cols) {
  std::vector<T> to(from.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j)
      to[static_cast<std::size_t>(j * rows + i)] = from[static_cast<std::size_t>(i * cols + j)];
  }
  return to_bytes(to);
}

}  // namespace

const CallTensor& input_number(const Call& call, std::size_t number) {
  if (number >= call.inputs.size())
    throw Error(ErrorKind::internal, "a call of " + call.operation + " without input " + std::to_string(number));
  return call.inputs[number];
}

CallTensor fp32_tensor(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  CallTensor t;
  t.dtype = Format::fp32;
  t.shape = std::move(shape);
  t.data = reinterpret_cast<const std::byte*>(values.data());
  t.bytes = values.size() * sizeof(float);
  return t;
}

CallTensor byte_tensor(const std::vector<std::uint8_t>& bytes, std::vector<std::int64_t> shape) {
  CallTensor t;
  t.dtype = Format::e4m3;
  t.shape = std::move(shape);
  t.data = reinterpret_cast<const std::byte*>(bytes.data());
  t.bytes = bytes.size();
  return t;
}

CallTensor output_tensor(const TensorInfo& info, bool is_vector) {
  CallTensor t;
  t.dtype = spec(info.format).is_value ? info.format : Format::e4m3;
  t.shape = is_vector ? std::vector<std::int64_t>{info.cols} : std::vector<std::int64_t>{info.rows, info.cols};
  t.bytes = static_cast<std::uint64_t>(info.rows * info.cols) * bytes_of_element(info);
  return t;
}

TensorInfo values_info(std::string name, Format format, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), format, rows, cols, 0, 0, true};
}

TensorInfo codes_info(std::string name, Format format, std::int64_t rows, std::int64_t cols, std::int64_t block) {
  return {std::move(name), format, rows, cols, 1, block, false};
}

TensorInfo scales_info(std::string name, const Recipe& recipe, std::int64_t rows, std::int64_t cols) {
  if (!recipe.has_e8m0_scales()) return values_info(std::move(name), Format::fp32, rows, cols);
  return {std::move(name), Format::e8m0, rows, cols, 0, 0, false};
}

std::int64_t scales_along_rows(std::int64_t rows, std::int64_t block, std::span<const std::int64_t> experts) {
  return count_scale_rows(rows, block, experts);
}

CodedBytes coded_rows(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block) {
  const Quantized q = quantize(x, format, {1, block}, recipe);
  return {to_bytes(q.codes), recipe.has_e8m0_scales() ? to_bytes(q.scales) : to_bytes(q.scales_fp32)};
}

CodedBytes coded_columns(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block,
                         std::span<const std::int64_t> experts) {
  const Quantized q = quantize(x, format, {block, 1}, recipe, experts);
  return {transposed_bytes(q.codes, q.rows, q.cols), recipe.has_e8m0_scales()
                                                         ? transposed_bytes(q.scales, q.scale_rows, q.scale_cols)
                                                         : transposed_bytes(q.scales_fp32, q.scale_rows, q.scale_cols)};
}

void save(std::vector<SavedTensor>& to, TensorInfo info, std::vector<std::byte> bytes, bool is_vector) {
  if (bytes.empty()) return;
  std::string name = info.name;
  to.push_back({std::move(name), std::move(info), std::move(bytes), is_vector});
}

}  // namespace mxcheck
