// quantize_transposed: the fields, cases and domain of the operations on scaled blocks, with outputs along tokens.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/layer/transposed_problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "properties/operations/scaled_blocks/place.h"

namespace mxcheck {
namespace {

class QuantizeTransposed final : public ScaledBlocksOperation {
 public:
  QuantizeTransposed() : ScaledBlocksOperation("quantize_transposed", true) {}

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<TransposedProblem>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    return std::make_unique<TransposedProblem>(call);
  }
  [[nodiscard]] bool any_nan_is_equal(std::string_view) const override { return true; }  // of FP32 scales
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override { return invalid_transposes(); }

  [[nodiscard]] bool has_row_index(bool) const override { return true; }
  // What it computes is quantize's; what is its own, the places, does not need millions of elements.
  [[nodiscard]] std::int64_t most_in_quick() const override { return std::int64_t{1} << 18; }

 protected:
  [[nodiscard]] bool can_be_asked(const Variant& v) const override {
    const ScaledBlocksVariant& own = blocks_of(v);
    return own.block.cols == 1 && own.layout == MXCHECK_COMPACT && v.dtype != Format::fp16;
  }
  [[nodiscard]] bool takes(const Recipe& recipe) const override {
    return recipe.has_e8m0_scales() || recipe.name == "fp32";
  }
  [[nodiscard]] bool depends_on_recipe() const override { return true; }
};

Case without_gather(Case c) {
  c.gather = 0;
  return c;
}

}  // namespace

const Operation& quantize_transposed_operation() {
  static const QuantizeTransposed kOperation;
  return kOperation;
}

// Rows by index: those of x that nothing names hold NaN; the first place of a row decides what it holds.
TransposedProblem::TransposedProblem(const Case& from) : Problem(from), x(expand(without_gather(from))) {
  describe_outputs();
  if (from.gather == 0) return;
  index = draw_index(from.seed, from.rows, from.gather);
  Input source{{}, x.dtype, from.gather, x.cols, x.stride};
  const std::size_t line = x.row_bytes();
  source.bytes.assign(static_cast<std::size_t>(from.gather) * line, std::byte{0xFF});
  for (std::size_t i = index.size(); i-- > 0 && line != 0;)
    std::memcpy(source.bytes.data() + static_cast<std::size_t>(index[i]) * line, x.bytes.data() + i * line, line);
  x = std::move(source);
}

TransposedProblem::TransposedProblem(const Call& call) : Problem(case_of(call)) {
  const CallTensor& first = input_number(call, 0);
  if (first.shape.size() != 2) throw Error(ErrorKind::usage, "x is a matrix");
  c.variant.dtype = first.dtype;
  x = {{first.data, first.data + first.bytes}, first.dtype, first.shape[0], c.cols, c.cols};
  if (first.row_stride > c.cols) x.stride = c.stride = first.row_stride;
  x.bytes.resize(static_cast<std::size_t>(x.rows) * x.row_bytes());  // without the gap after the last row
  for (const CallTensor& t : call.inputs) {
    if (t.is_index) index = values_in<std::int32_t>({t.data, t.bytes}), c.gather = first.shape[0];
  }
  for (const std::int32_t row : index) {
    if (row < 0 || row >= x.rows) throw Error(ErrorKind::usage, "a row index is of a row that there is");
  }
  if (std::ssize(index) != (c.gather != 0 ? c.rows : 0) || (c.gather == 0 && x.rows != c.rows))
    throw Error(ErrorKind::usage, "a row index is of as many rows as the matrix has");
  check_offsets(c.experts, c.rows);
  describe_outputs();
}

void TransposedProblem::describe_outputs() {
  const ScaledBlocksVariant& v = blocks_of(std::as_const(c.variant));
  const std::int64_t across = scales_along_rows(c.rows, v.block.rows, c.experts);
  outputs = {codes_info("transposed codes", v.format, c.cols, c.rows, v.block.rows),
             scales_info("transposed scales", recipe_named(v.recipe), c.cols, across)};
}

Input TransposedProblem::gathered() const {
  if (c.gather == 0) return x;
  Input all{{}, x.dtype, c.rows, x.cols, x.stride};
  const std::size_t line = x.row_bytes();
  all.bytes.resize(index.size() * line);
  for (std::size_t i = 0; i < index.size() && line != 0; ++i)
    std::memcpy(all.bytes.data() + i * line, x.bytes.data() + static_cast<std::size_t>(index[i]) * line, line);
  return all;
}

Call TransposedProblem::call() const {
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  call.inputs.push_back(values_tensor(x.dtype, x.rows, x.cols, x.stride, x.bytes));
  if (!c.experts.empty()) call.inputs.push_back(offsets_tensor(c.experts));
  if (c.gather != 0) call.inputs.push_back(index_tensor(index));
  for (const TensorInfo& info : outputs) call.outputs.push_back(output_tensor(info, false));
  return call;
}

std::vector<ExpectedTensor> TransposedProblem::answer() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const Input matrix = gathered();
  CodedBytes coded = coded_columns(matrix.view(), v.format, recipe_named(v.recipe), v.block.rows, c.experts);
  return {{outputs[0], std::move(coded.codes)}, {outputs[1], std::move(coded.scales)}};
}

void TransposedProblem::explain(std::size_t output, Finding& finding) const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const Difference::Element& e = finding.difference->first;
  const ScaleGeometry g = scale_geometry(c, v.block);
  const Input matrix = gathered();
  const std::int64_t scale_row = output == 1 ? e.col : scale_row_of(c, g, e.col);
  const BlockBounds b = block_at_scale(c, g, scale_row, e.row);
  if (output == 0) {
    finding.element.push_back("input     x" + place_text(e.col, e.row) + " = " +
                              notations(x.dtype, matrix.bits(e.col, e.row)));
    finding.relevant.push_back(matrix.plant(e.col, e.row));
  }
  BlockAmax amax;
  Plant largest = matrix.plant(b.first_row, b.first_col);
  for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
    const float value = matrix.view().at(i, e.row);
    if (std::isnan(value)) amax.has_nan = true, finding.relevant.push_back(matrix.plant(i, e.row));
    if (std::fabs(value) > amax.amax) amax.amax = std::fabs(value), largest = matrix.plant(i, e.row);
  }
  if (finding.relevant.size() > 7) finding.relevant.resize(7);  // a case has at most 8
  finding.relevant.push_back(largest);
  finding.element.push_back("block     rows " + std::to_string(b.first_row) + " to " + std::to_string(b.end_row - 1) +
                            " of column " + std::to_string(e.row));
  finding.element.push_back("amax      " + notations(static_cast<double>(amax.amax)) +
                            (amax.has_nan ? "; the block holds a NaN" : ""));
  const BlockScale scale = block_scale(recipe_named(v.recipe), v.format, amax);
  finding.element.push_back("scale     " + notations(static_cast<double>(scale.scale)) + " by the reference");
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

std::vector<SavedTensor> TransposedProblem::saved() const {
  std::vector<SavedTensor> saved;
  save(saved, values_info("x", x.dtype, x.rows, x.stride), x.bytes);
  save_vector(saved, "offsets", c.experts);
  save_vector(saved, "row_index", index);
  return saved;
}

}  // namespace mxcheck
