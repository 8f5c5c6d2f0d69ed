#pragma once
// The candidate's operations on a case, and the reference's answer to the same.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/compare.h"
#include "properties/core/finding.h"
#include "properties/operations/quantize/expand.h"
#include "properties/process/candidate_process.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

// Shapes of the scales of one direction of a case.
struct ScaleGeometry {
  BlockShape block;
  std::int64_t rows = 0;  // compact
  std::int64_t cols = 0;
  std::vector<std::int64_t> rows_of_expert;
  std::int64_t tiled_bytes = 0;  // 0 where the layout is not defined (blocks of several rows and columns)
  [[nodiscard]] std::int64_t count() const { return rows * cols; }
  [[nodiscard]] bool row_blocks() const { return block.rows == 1; }
};
ScaleGeometry scale_geometry(const Case& c, BlockShape block);
std::int64_t scale_bytes(const ScaleGeometry& g, int layout);
std::int64_t scale_row_of(const Case& c, const ScaleGeometry& g, std::int64_t row);  // compact, of the row's block

// Compact scale bytes in the case's layout (pad byte included), and back.
std::vector<std::uint8_t> in_layout(const Case& c, const ScaleGeometry& g, std::vector<std::uint8_t> compact);
std::vector<std::uint8_t> to_compact(const Case& c, const ScaleGeometry& g, std::span<const std::uint8_t> scales);

// One tensor that an operation must write.
struct ExpectedTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

// The tensors of a case, ready to hand to a candidate, and the reference's answer to it.
struct Problem {
  Case c;
  Input input;                       // operations that read x: as the candidate must see it, gathered
  std::vector<std::int32_t> index;   // gather: row i of input is row index[i] of source
  std::vector<std::byte> source;     // gather: rows that nothing names hold NaN
  std::vector<std::uint8_t> codes;   // dequantize
  std::vector<std::uint8_t> scales;  // dequantize, scale_layout: in the layout that the operation reads
  // matmul (properties/operations/matmul/problem.h): operands, scales and C as the candidate reads them.
  std::vector<std::byte> a, b, scales_a, scales_b, c_values;
  // Routers (properties/operations/router/problem.h): input holds the logits.
  std::vector<float> bias;
  std::vector<std::int32_t> routes;         // experts: of the tokens (route_backward), of the slots (route_metadata)
  std::vector<std::int64_t> token_offsets;  // route_metadata, of ragged tokens
  std::vector<float> gradient;              // route_backward
  std::vector<TensorInfo> outputs;
  [[nodiscard]] Call call() const;  // pointers into this
};

Problem make_problem(const Case& c);
Problem make_problem(const Case& c, Input input);  // operations that read x, with x given; gathered without repeats
std::vector<ExpectedTensor> reference_answer(const Problem& problem);
std::vector<ExpectedTensor> reference_answer(const Problem& problem, const Recipe& recipe);

wire::Policy to_policy(const Case& c);

// Inputs that any operation may have; pointers into the vectors.
CallTensor offsets_tensor(const std::vector<std::int64_t>& offsets);
CallTensor index_tensor(const std::vector<std::int32_t>& index);

// Runs the candidate; a finding if it crashed, hung, refused or trespassed, else outcome is set. UNSUPPORTED with
// experts or a row stride is an option not offered: outcome stays empty, and so does the finding.
struct Ran {
  std::optional<Outcome> outcome;
  std::optional<Finding> finding;
};
Ran run_checked(CandidateRunner& process, const Call& call, const Case& c);

// Lines that explain one differing element of an operation's output, and the inputs that explain it.
void explain(const Problem& problem, std::size_t output, Finding& finding);

}  // namespace mxcheck
