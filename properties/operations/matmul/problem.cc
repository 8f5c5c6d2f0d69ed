#include "properties/operations/matmul/problem.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/matmul/operation.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

// Shapes of a matmul's tensors.
struct Shapes {
  std::int64_t experts = 1;
  std::int64_t a_rows = 0;
  std::int64_t b_rows = 0;  // of all experts
  std::int64_t d_rows = 0;
  std::int64_t scale_rows_a = 0, scale_cols_a = 0;
  std::int64_t scale_rows_b = 0, scale_cols_b = 0;
};

std::int64_t blocks_along(const Case& c, std::int64_t block) {
  if (block == 0) return 0;
  if (matmul_of(c.variant).groups != MXCHECK_DEPTH) return ceil_div(matmul_case(c).depth, block);
  std::int64_t blocks = 0;
  for (std::size_t e = 1; e < c.experts.size(); ++e) blocks += ceil_div(c.experts[e] - c.experts[e - 1], block);
  return blocks;
}

std::int64_t scale_rows(std::int64_t rows, std::int64_t block) { return block == 0 ? 0 : ceil_div(rows, block); }

Shapes shapes_of(const Case& c) {
  const MatmulVariant& v = matmul_of(c.variant);
  Shapes s;
  if (v.groups != MXCHECK_DENSE) s.experts = static_cast<std::int64_t>(c.experts.size()) - 1;
  const std::int64_t matrices = v.groups == MXCHECK_ROWS ? s.experts : 1;
  s.a_rows = c.gather != 0 ? c.gather : c.rows;
  s.b_rows = matrices * c.cols;
  s.d_rows = v.groups == MXCHECK_DEPTH ? s.experts * c.rows : c.rows;
  if (v.scales == MXCHECK_NO_SCALES) return s;
  s.scale_rows_a = scale_rows(s.a_rows, v.block.rows), s.scale_cols_a = blocks_along(c, v.block.cols);
  s.scale_rows_b = matrices * scale_rows(c.cols, v.block_b.rows), s.scale_cols_b = blocks_along(c, v.block_b.cols);
  return s;
}

CallTensor tensor(Format format, std::int64_t rows, std::int64_t cols, const std::vector<std::byte>& bytes) {
  CallTensor t;
  t.dtype = code_width(format) == 1 ? Format::e4m3 : format;
  t.shape = {rows, cols};
  t.bytes = static_cast<std::uint64_t>(rows * cols) * code_width(format);
  t.data = bytes.data();
  return t;
}

Format scale_format(const MatmulVariant& v) { return v.scales == MXCHECK_FP32 ? Format::fp32 : Format::e8m0; }

MatmulOperand operand_of(const MatmulVariant& v, Format format, BlockShape block, const std::vector<std::byte>& codes,
                         const std::vector<std::byte>& scales, std::int64_t rows, std::int64_t depth,
                         std::int64_t scale_cols) {
  MatmulOperand x;
  x.format = format, x.codes = codes.data();
  x.rows = rows, x.depth = depth, x.row_stride = depth;
  if (v.scales == MXCHECK_NO_SCALES) return x;
  x.block = block;
  x.scale_format = scale_format(v), x.scales = scales.data();
  x.scale_row_stride = scale_cols;
  return x;
}

TensorInfo output_info(const Case& c) {
  return {"d", c.variant.dtype, shapes_of(c).d_rows, c.cols, 128, 128, any_nan_in_d_is_equal(c.variant.operation)};
}

}  // namespace

MatmulProblem::MatmulProblem(const Case& from) : Problem(from) {
  const MatmulVariant& v = matmul_of(from.variant);
  const std::int64_t depth = matmul_case(from).depth;
  const Shapes s = shapes_of(from);
  a = expand_operand(from, v.format, 0xA, s.a_rows, depth);
  b = expand_operand(from, v.format_b, 0xB, s.b_rows, depth);
  scales_a = expand_operand_scales(from, 0xA, s.scale_rows_a, s.scale_cols_a);
  scales_b = expand_operand_scales(from, 0xB, s.scale_rows_b, s.scale_cols_b);
  if (matmul_case(from).adds) c_values = expand_c(from, s.d_rows * from.cols);
  if (from.gather != 0) index = draw_index(from.seed, from.rows, from.gather);
  outputs = {output_info(from)};
}

MatmulProblem::MatmulProblem(const Call& call) : Problem(Case{}) {
  const auto policy = read<mxcheck_matmul_policy>(call.policy);
  const auto format_a = find_format(policy.policy.format);
  const auto format_b = find_format(policy.format_b);
  const std::size_t needed = 2U + (policy.scale_type != 0 ? 2U : 0U) + (policy.accumulate != 0 ? 1U : 0U);
  if (!format_a || !format_b || call.inputs.size() < needed)
    throw Error(ErrorKind::internal, "a call of a matmul that no statement makes");
  c.variant = {call.operation, call.outputs[0].dtype};
  matmul_of(c.variant) = {*format_a,
                          *format_b,
                          {policy.policy.block_rows, policy.policy.block_cols},
                          {policy.block_b_rows, policy.block_b_cols},
                          policy.scale_type,
                          policy.grouping};
  c.rows = policy.policy.rows, c.cols = policy.policy.cols;
  matmul_case(c) = {policy.depth, policy.accumulate != 0, policy.alpha};
  std::size_t next = 0;
  const auto bytes = [&] {
    const CallTensor& t = call.inputs[next++];
    return std::vector<std::byte>(t.data, t.data + t.bytes);
  };
  a = bytes(), b = bytes();
  if (policy.scale_type != MXCHECK_NO_SCALES) scales_a = bytes(), scales_b = bytes();
  if (policy.accumulate != 0) c_values = bytes();
  for (; next < call.inputs.size(); ++next) {
    const CallTensor& t = call.inputs[next];
    if (t.is_offsets) c.experts = values_in<std::int64_t>({t.data, t.bytes});
    if (t.is_index) index = values_in<std::int32_t>({t.data, t.bytes}), c.gather = call.inputs[0].shape[0];
  }
  outputs = {output_info(c)};
}

Call MatmulProblem::call() const {
  const MatmulVariant& v = matmul_of(c.variant);
  const std::int64_t depth = matmul_case(c).depth;
  const Shapes s = shapes_of(c);
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  call.inputs.push_back(tensor(v.format, s.a_rows, depth, a));
  call.inputs.push_back(tensor(v.format_b, s.b_rows, depth, b));
  if (v.scales != MXCHECK_NO_SCALES) {
    call.inputs.push_back(tensor(scale_format(v), s.scale_rows_a, s.scale_cols_a, scales_a));
    call.inputs.push_back(tensor(scale_format(v), s.scale_rows_b, s.scale_cols_b, scales_b));
  }
  if (matmul_case(c).adds) call.inputs.push_back(tensor(c.variant.dtype, s.d_rows, c.cols, c_values));
  if (v.groups != MXCHECK_DENSE) call.inputs.push_back(offsets_tensor(c.experts));
  if (c.gather != 0) call.inputs.push_back(index_tensor(index));
  static const std::vector<std::byte> kNothing;
  call.outputs.push_back(tensor(c.variant.dtype, s.d_rows, c.cols, kNothing));
  return call;
}

Matmul MatmulProblem::matmul(const MatmulContract& contract) const {
  const MatmulVariant& v = matmul_of(c.variant);
  const MatmulCase& own = matmul_case(c);
  const Shapes s = shapes_of(c);
  Matmul m;
  m.contract = contract;
  m.a = operand_of(v, v.format, v.block, a, scales_a, s.a_rows, own.depth, s.scale_cols_a);
  m.b = operand_of(v, v.format_b, v.block_b, b, scales_b, c.cols, own.depth, s.scale_cols_b);
  m.output = c.variant.dtype;
  m.alpha = own.alpha;
  static const std::byte kNoElements{};
  if (own.adds) m.c = c_values.empty() ? &kNoElements : c_values.data();
  m.grouping = v.groups == MXCHECK_ROWS ? Grouping::rows : v.groups == MXCHECK_DEPTH ? Grouping::depth : Grouping::none;
  m.offsets = c.experts;
  m.row_index = index, m.gathers = c.gather != 0;
  // Where there is no C to start from, a sum starts from zero.
  if (!own.adds) m.contract.from_c = false;
  return m;
}

MatmulContract MatmulProblem::contract() const { return parse_matmul_contract(contract_text(c.variant.operation)); }

std::vector<ExpectedTensor> MatmulProblem::answer() const { return {answer(contract())}; }

ExpectedTensor MatmulProblem::answer(const MatmulContract& contract) const {
  const TensorInfo info = output_info(c);
  ExpectedTensor d{info,
                   std::vector<std::byte>(static_cast<std::size_t>(info.rows * info.cols) * code_width(info.format))};
  mxcheck::matmul(matmul(contract), d.bytes.data());
  return d;
}

void MatmulProblem::explain(std::size_t, Finding& finding) const { (void)explain_steps(finding); }

std::uint32_t MatmulProblem::explain_steps(Finding& finding) const {
  if (!finding.difference) return 0;
  const Difference::Element& at = finding.difference->first;
  const Matmul m = matmul(contract());
  const bool by_depth = m.grouping == Grouping::depth;
  const std::int64_t rows = std::max<std::int64_t>(1, c.rows);
  const ExplainedOutput explained =
      explain_output(m, by_depth ? at.row / rows : 0, by_depth ? at.row % rows : at.row, at.col);
  constexpr std::size_t kMost = 24;
  finding.element.push_back(fmt::format("expected, under {}:", to_text(m.contract)));
  for (std::size_t i = 0; i < explained.lines.size(); ++i) {
    const bool left_out = explained.lines.size() > kMost && i >= kMost / 2 && i + kMost / 2 < explained.lines.size();
    if (!left_out) finding.element.push_back("  " + explained.lines[i]);
    if (left_out && i == kMost / 2) finding.element.push_back("  ...");
  }
  finding.element.push_back("expected  " + notations(c.variant.dtype, at.expected));
  finding.element.push_back("observed  " + notations(c.variant.dtype, at.observed));
  return explained.word;
}

}  // namespace mxcheck
