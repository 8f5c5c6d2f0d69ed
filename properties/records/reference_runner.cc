#include "properties/records/reference_runner.h"

#include <cstring>
#include <utility>

#include "numerics/error.h"
#include "properties/operations/matmul/problem.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

template <class T>
std::vector<T> values_of(const CallTensor& tensor) {
  std::vector<T> values(tensor.bytes / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data, values.size() * sizeof(T));
  return values;
}

// x as the candidate must see it: rows by index, if there is one, with the stride that the call has.
Input input_of(const Call& call, const std::vector<std::int32_t>* index) {
  const CallTensor& x = call.inputs[0];
  const std::size_t width = x.dtype == Format::fp32 ? 4 : 2;
  const std::int64_t rows = call.policy.rows;
  const std::int64_t cols = call.policy.cols;
  const std::int64_t stride = x.row_stride != 0 ? x.row_stride : cols;
  Input input;
  input.bytes.resize(static_cast<std::size_t>(rows * stride) * width);
  const std::size_t line = static_cast<std::size_t>(cols) * width;
  const std::size_t step = static_cast<std::size_t>(stride) * width;
  for (std::int64_t i = 0; i < rows && line != 0; ++i) {
    const auto to = static_cast<std::size_t>(i);
    const auto from = index != nullptr ? static_cast<std::size_t>((*index)[to]) : to;
    if (from * step + line > x.bytes) throw Error(ErrorKind::internal, "a call whose x is too short");
    std::memcpy(input.bytes.data() + to * step, x.data + from * step, line);
  }
  input.view = {x.dtype, input.bytes.data(), rows, cols, stride};
  return input;
}

}  // namespace

Problem problem_of(const Call& call) {
  if (call.inputs.empty() || call.outputs.empty()) throw Error(ErrorKind::internal, "a call without tensors");
  if (is_matmul(call.operation)) return product_problem_of(call);
  if (is_route(call.operation)) return route_problem_of(call);
  Case c;
  c.variant.operation = call.operation;
  c.variant.recipe = call.policy.recipe;
  c.variant.block = {call.policy.block_rows, call.policy.block_cols};
  c.variant.layout = call.policy.layout;
  const auto format = find_format(call.policy.format);
  if (!format) throw Error(ErrorKind::internal, "a call of an unknown format");
  c.variant.format = *format;
  c.rows = call.policy.rows, c.cols = call.policy.cols;
  c.pad = call.policy.pad_byte;
  std::vector<std::int32_t> index;
  bool gathered = false;
  for (const CallTensor& tensor : call.inputs) {
    if (tensor.is_offsets) c.experts = values_of<std::int64_t>(tensor);
    if (tensor.is_index) index = values_of<std::int32_t>(tensor), gathered = true;
  }
  if (reads_x(c.variant)) {
    c.variant.wide = call.inputs[0].dtype;
    Input input = input_of(call, gathered ? &index : nullptr);
    return make_problem(c, std::move(input));
  }
  Problem p;
  p.input.offsets = c.experts;
  if (call.operation == "dequantize") {
    c.variant.wide = call.outputs[0].dtype;
    p.codes = values_of<std::uint8_t>(call.inputs[0]);
    p.scales = values_of<std::uint8_t>(call.inputs[1]);
  } else {
    p.scales = values_of<std::uint8_t>(call.inputs[0]);
  }
  p.c = c;
  // Shapes and types of the answer are the call's own.
  const CallTensor& out = call.outputs[0];
  const Format type = call.operation == "dequantize" ? c.variant.wide : Format::e8m0;
  const std::int64_t rows = out.shape.size() == 2 ? out.shape[0] : 1;
  p.outputs = {{"output", type, rows, out.shape.back(), 0, 0, call.operation == "dequantize"}};
  return p;
}

Outcome ReferenceRunner::run(const Call& call) {
  Outcome outcome;
  for (ExpectedTensor& tensor : reference_answer(problem_of(call))) outcome.outputs.push_back(std::move(tensor.bytes));
  return outcome;
}

}  // namespace mxcheck
