// aggregate: tensors, call, answer, and what an element is the sum of.

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/notation.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/tensors.h"
#include "reference/layer/aggregate.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostShown = 12;  // slots of a report

Case case_of_aggregate(const Call& call) {
  const auto policy = read<mxcheck_aggregate_policy>(call.policy);
  if (policy.weighted != 0 && policy.weighted != 1) throw Error(ErrorKind::usage, "weighted is 0 or 1");
  Case c;
  c.variant.operation = call.operation;
  layer_of(c.variant).weighted = policy.weighted != 0;
  c.rows = policy.policy.rows, c.cols = policy.policy.cols, c.threads = policy.policy.threads;
  return c;
}

float fp32_of(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

}  // namespace

AggregateProblem::AggregateProblem(const Case& from) : Problem(from), slots(expand_slots(from)) {
  // Rows of y do not move with the tokens of a window, columns do.
  Case of_y = from;
  layer_case(of_y).first_row = 0;
  const StepElements elements(of_y);
  const std::int64_t rows = layer_case(from).y_rows;
  y.reserve(static_cast<std::size_t>(rows * from.cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < from.cols; ++j) y.push_back(elements.y(i, j));
    if (layer_of(from.variant).weighted) weights.push_back(elements.weight(i));
  }
  outputs = {values_info("o", Format::bf16, from.rows, from.cols)};
}

AggregateProblem::AggregateProblem(const Call& call) : Problem(case_of_aggregate(call)) {
  std::size_t next = 0;
  const CallTensor& rows = input_number(call, next++);
  if (rows.shape.size() != 2) throw Error(ErrorKind::usage, "y is a matrix");
  layer_case(c).y_rows = rows.shape[0];
  y = values_in<std::uint16_t>({rows.data, rows.bytes});
  if (layer_of(c.variant).weighted) {
    const CallTensor& t = input_number(call, next++);
    weights = values_in<float>({t.data, t.bytes});
    weights.resize(static_cast<std::size_t>(layer_case(c).y_rows));
  }
  const CallTensor& offsets = input_number(call, next++);
  const CallTensor& of_slots = input_number(call, next++);
  if (!offsets.is_offsets || !of_slots.is_index) throw Error(ErrorKind::usage, "slots are missing");
  slots = {values_in<std::int64_t>({offsets.data, offsets.bytes}),
           values_in<std::int32_t>({of_slots.data, of_slots.bytes})};
  outputs = {values_info("o", Format::bf16, c.rows, c.cols)};
}

Call AggregateProblem::call() const {
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  const std::int64_t rows = layer_case(c).y_rows;
  CallTensor t;
  t.dtype = Format::bf16;
  t.shape = {rows, c.cols};
  t.data = reinterpret_cast<const std::byte*>(y.data());
  t.bytes = y.size() * sizeof(y[0]);
  call.inputs.push_back(t);
  if (layer_of(c.variant).weighted) call.inputs.push_back(fp32_tensor(weights, {rows}));
  call.inputs.push_back(offsets_tensor(slots.token_offsets));
  call.inputs.push_back(index_tensor(slots.token_rows));
  call.outputs.push_back(output_tensor(outputs[0], false));
  return call;
}

std::vector<ExpectedTensor> AggregateProblem::answer() const {
  if (std::ssize(slots.token_offsets) != c.rows + 1)
    throw Error(ErrorKind::usage, "token_offsets are one more than there are tokens");
  return {{outputs[0],
           to_bytes(aggregate({y, layer_case(c).y_rows, c.cols, weights}, {slots.token_offsets, slots.token_rows}))}};
}

void AggregateProblem::explain(std::size_t, Finding& finding) const {
  const std::int64_t token = finding.difference->first.row;
  const std::int64_t col = finding.difference->first.col;
  const auto begin = static_cast<std::size_t>(slots.token_offsets[static_cast<std::size_t>(token)]);
  const auto end = static_cast<std::size_t>(slots.token_offsets[static_cast<std::size_t>(token) + 1]);
  finding.element.push_back(fmt::format("token     {}: slots {} to {}, column {}", token, begin, end, col));
  float acc = 0;
  for (std::size_t slot = begin; slot < end; ++slot) {
    const std::int32_t row = slots.token_rows[slot];
    std::string line = fmt::format("slot      {}: ", slot);
    if (row < 0) {
      line += "dropped";
    } else {
      const std::uint16_t word = y[static_cast<std::size_t>(row * c.cols + col)];
      line += fmt::format("row {}, y = {}", row, notations(Format::bf16, word));
      const float weight = weights.empty() ? 1 : weights[static_cast<std::size_t>(row)];
      if (!weights.empty())
        line += fmt::format("; weight {}", notations(Format::fp32, std::bit_cast<std::uint32_t>(weight)));
      acc = std::fma(weight, fp32_of(word), acc);
      line += fmt::format("; sum {}", notations(Format::fp32, std::bit_cast<std::uint32_t>(acc)));
    }
    if (slot - begin < kMostShown) finding.element.push_back(std::move(line));
  }
  finding.relevant.push_back({token, col, 0});
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

std::vector<SavedTensor> AggregateProblem::saved() const {
  std::vector<SavedTensor> saved;
  save(saved, values_info("y", Format::bf16, layer_case(c).y_rows, c.cols), to_bytes(y));
  save_vector(saved, "weights", weights);
  save_vector(saved, "token_offsets", slots.token_offsets);
  save_vector(saved, "token_rows", slots.token_rows);
  return saved;
}

}  // namespace mxcheck
