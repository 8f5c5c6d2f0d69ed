#include "properties/operations/matmul/problem.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "kernels/candidate_matmul.h"
#include "numerics/error.h"
#include "properties/core/notation.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

// Shapes of a product's tensors.
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
  if (c.variant.groups != MXCHECK_DEPTH) return ceil_div(c.depth, block);
  std::int64_t blocks = 0;
  for (std::size_t e = 1; e < c.experts.size(); ++e) blocks += ceil_div(c.experts[e] - c.experts[e - 1], block);
  return blocks;
}

std::int64_t scale_rows(std::int64_t rows, std::int64_t block) { return block == 0 ? 0 : ceil_div(rows, block); }

Shapes shapes_of(const Case& c) {
  const Variant& v = c.variant;
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

Format scale_format(const Variant& v) { return v.scales == MXCHECK_FP32 ? Format::fp32 : Format::e8m0; }

MatmulOperand operand_of(const Variant& v, Format format, BlockShape block, const std::vector<std::byte>& codes,
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
  return {"d", c.variant.wide, shapes_of(c).d_rows, c.cols, 128, 128, any_nan_is_right(c.variant.operation)};
}

}  // namespace

std::vector<Variant> askable_products(const std::string& operation) {
  const MatmulContract contract = parse_matmul_contract(contract_text(operation));
  const Contract& sum = *contract.sum;
  constexpr std::array kNarrow{Format::e4m3, Format::e5m2};
  const std::span<const Format> formats = contract.decodes ? std::span<const Format>(kNarrow) : sum.operands;
  std::vector<std::pair<BlockShape, BlockShape>> blocks;
  std::vector<int> scales{MXCHECK_NO_SCALES};
  if (sum.scale_terms != 0) {
    blocks = {{{1, sum.scale_terms}, {1, sum.scale_terms}}}, scales = {MXCHECK_E8M0};
  } else if (contract.promotion != 0 || contract.decodes) {
    for (std::int64_t width : {32, 128}) {
      if (contract.promotion != 0 && width % contract.promotion != 0) continue;
      blocks.push_back({{1, width}, {1, width}});
      if (width == 128) blocks.push_back({{1, 128}, {128, 128}});
    }
    scales = {MXCHECK_E8M0, MXCHECK_FP32};
    if (!contract.decodes) scales.insert(scales.begin(), MXCHECK_NO_SCALES);
  }
  std::vector<Variant> all;
  const auto add = [&](Format a, Format b, int scale, BlockShape block_a, BlockShape block_b) {
    for (int groups : {MXCHECK_DENSE, MXCHECK_ROWS, MXCHECK_DEPTH}) {
      for (Format wide : {Format::bf16, Format::fp32}) {
        if (contract.from_c && wide != Format::fp32) continue;
        Variant v;
        v.operation = operation;
        v.format = a, v.format_b = b, v.block = block_a, v.block_b = block_b;
        v.scales = scale, v.groups = groups, v.wide = wide;
        all.push_back(std::move(v));
      }
    }
  };
  for (Format a : formats) {
    for (Format b : formats) {
      if (a != b && !contract.decodes && !sum.mixes) continue;
      for (int scale : scales) {
        if (scale == MXCHECK_NO_SCALES)
          add(a, b, scale, {0, 0}, {0, 0});
        else
          for (const auto& [block_a, block_b] : blocks) add(a, b, scale, block_a, block_b);
      }
    }
  }
  return all;
}

Case product_corner(const Variant& v, std::int64_t rows, std::int64_t cols, std::int64_t depth, Data data,
                    std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, c.depth = depth, c.data = data, c.seed = seed;
  if (v.groups == MXCHECK_ROWS) c.experts = {0, rows / 3, rows / 3, rows};
  if (v.groups == MXCHECK_DEPTH) c.experts = {0, depth / 256 * 128, depth / 256 * 128, depth};
  return c;
}

bool is_option(const Case& c) {
  const bool ragged_depth = c.depth % 128 != 0 || (c.variant.groups == MXCHECK_DEPTH &&
                                                   std::any_of(c.experts.begin(), c.experts.end(),
                                                               [](std::int64_t e) { return e % 128 != 0; }));
  return c.adds || c.alpha != 1 || c.gather != 0 || ragged_depth;
}

bool any_nan_is_right(std::string_view operation) {
  const MatmulContract contract = parse_matmul_contract(contract_text(operation));
  return contract.sum->arithmetic != Arithmetic::fused || contract.promotion != 0;
}

void set_product_policy(const Case& c, wire::Policy& p) {
  const Variant& v = c.variant;
  p.is_product = 1;
  std::snprintf(p.format_b, sizeof(p.format_b), "%s", spec(v.format_b).name.data());
  p.block_b_rows = v.block_b.rows, p.block_b_cols = v.block_b.cols;
  p.depth = c.depth;
  p.scale_type = v.scales, p.grouping = v.groups;
  p.accumulate = c.adds ? 1 : 0;
  p.alpha = c.alpha;
}

Problem make_product(const Case& c) {
  const Variant& v = c.variant;
  const Shapes s = shapes_of(c);
  Problem p;
  p.c = c;
  p.input.offsets = c.experts;
  p.a = expand_operand(c, v.format, 0xA, s.a_rows, c.depth);
  p.b = expand_operand(c, v.format_b, 0xB, s.b_rows, c.depth);
  p.scales_a = expand_operand_scales(c, 0xA, s.scale_rows_a, s.scale_cols_a);
  p.scales_b = expand_operand_scales(c, 0xB, s.scale_rows_b, s.scale_cols_b);
  if (c.adds) p.c_values = expand_c(c, s.d_rows * c.cols);
  if (c.gather != 0) p.index = draw_index(c.seed, c.rows, c.gather);
  p.outputs = {output_info(c)};
  return p;
}

Call product_call(const Problem& p) {
  const Case& c = p.c;
  const Variant& v = c.variant;
  const Shapes s = shapes_of(c);
  Call call;
  call.operation = v.operation;
  call.policy = to_policy(c);
  call.inputs.push_back(tensor(v.format, s.a_rows, c.depth, p.a));
  call.inputs.push_back(tensor(v.format_b, s.b_rows, c.depth, p.b));
  if (v.scales != MXCHECK_NO_SCALES) {
    call.inputs.push_back(tensor(scale_format(v), s.scale_rows_a, s.scale_cols_a, p.scales_a));
    call.inputs.push_back(tensor(scale_format(v), s.scale_rows_b, s.scale_cols_b, p.scales_b));
  }
  if (c.adds) call.inputs.push_back(tensor(v.wide, s.d_rows, c.cols, p.c_values));
  if (v.groups != MXCHECK_DENSE) call.inputs.push_back(offsets_tensor(p.input.offsets));
  if (c.gather != 0) call.inputs.push_back(index_tensor(p.index));
  static const std::vector<std::byte> kNothing;
  call.outputs.push_back(tensor(v.wide, s.d_rows, c.cols, kNothing));
  return call;
}

Matmul product_of(const Problem& p, const MatmulContract& contract) {
  const Case& c = p.c;
  const Variant& v = c.variant;
  const Shapes s = shapes_of(c);
  Matmul m;
  m.contract = contract;
  m.a = operand_of(v, v.format, v.block, p.a, p.scales_a, s.a_rows, c.depth, s.scale_cols_a);
  m.b = operand_of(v, v.format_b, v.block_b, p.b, p.scales_b, c.cols, c.depth, s.scale_cols_b);
  m.output = v.wide;
  m.alpha = c.alpha;
  static const std::byte kNoElements{};
  if (c.adds) m.c = p.c_values.empty() ? &kNoElements : p.c_values.data();
  m.grouping = v.groups == MXCHECK_ROWS ? Grouping::rows : v.groups == MXCHECK_DEPTH ? Grouping::depth : Grouping::none;
  m.offsets = p.input.offsets;
  m.row_index = p.index, m.gathers = c.gather != 0;
  // Where there is no C to start from, a sum starts from zero.
  if (!c.adds) m.contract.from_c = false;
  return m;
}

ExpectedTensor product_answer(const Problem& p) {
  return product_answer(p, parse_matmul_contract(contract_text(p.c.variant.operation)));
}

ExpectedTensor product_answer(const Problem& p, const MatmulContract& contract) {
  const TensorInfo info = output_info(p.c);
  ExpectedTensor d{info,
                   std::vector<std::byte>(static_cast<std::size_t>(info.rows * info.cols) * code_width(info.format))};
  const Matmul m = product_of(p, contract);
  matmul(m, d.bytes.data());
  return d;
}

Problem product_problem_of(const Call& call) {
  Problem p;
  Case& c = p.c;
  Variant& v = c.variant;
  const wire::Policy& policy = call.policy;
  const auto a = find_format(policy.format);
  const auto b = find_format(policy.format_b);
  const std::size_t needed = 2U + (policy.scale_type != 0 ? 2U : 0U) + (policy.accumulate != 0 ? 1U : 0U);
  if (!a || !b || call.inputs.size() < needed)
    throw Error(ErrorKind::internal, "a call of a product that no statement makes");
  v.operation = call.operation;
  v.format = *a, v.format_b = *b;
  v.block = {policy.block_rows, policy.block_cols}, v.block_b = {policy.block_b_rows, policy.block_b_cols};
  v.scales = policy.scale_type, v.groups = policy.grouping;
  v.wide = call.outputs[0].dtype;
  c.rows = policy.rows, c.cols = policy.cols, c.depth = policy.depth;
  c.adds = policy.accumulate != 0, c.alpha = policy.alpha;
  std::size_t next = 0;
  const auto bytes = [&] {
    const CallTensor& t = call.inputs[next++];
    return std::vector<std::byte>(t.data, t.data + t.bytes);
  };
  p.a = bytes(), p.b = bytes();
  if (v.scales != MXCHECK_NO_SCALES) p.scales_a = bytes(), p.scales_b = bytes();
  if (c.adds) p.c_values = bytes();
  for (; next < call.inputs.size(); ++next) {
    const CallTensor& t = call.inputs[next];
    if (t.is_offsets) {
      c.experts.resize(t.bytes / sizeof(std::int64_t));
      std::memcpy(c.experts.data(), t.data, t.bytes);
    }
    if (t.is_index) {
      p.index.resize(t.bytes / sizeof(std::int32_t));
      if (t.bytes != 0) std::memcpy(p.index.data(), t.data, t.bytes);
      c.gather = call.inputs[0].shape[0];
    }
  }
  p.input.offsets = c.experts;
  p.outputs = {output_info(c)};
  return p;
}

std::uint32_t explain_product(const Problem& p, Finding& finding) {
  if (!finding.difference) return 0;
  const Difference::Element& at = finding.difference->first;
  const Matmul m = product_of(p, parse_matmul_contract(contract_text(p.c.variant.operation)));
  const bool by_depth = m.grouping == Grouping::depth;
  const std::int64_t rows = std::max<std::int64_t>(1, p.c.rows);
  const ExplainedOutput explained =
      explain_output(m, by_depth ? at.row / rows : 0, by_depth ? at.row % rows : at.row, at.col);
  constexpr std::size_t kMost = 24;
  finding.element.push_back(fmt::format("expected, under {}:", to_text(m.contract)));
  for (std::size_t i = 0; i < explained.lines.size(); ++i) {
    const bool left_out = explained.lines.size() > kMost && i >= kMost / 2 && i + kMost / 2 < explained.lines.size();
    if (!left_out) finding.element.push_back("  " + explained.lines[i]);
    if (left_out && i == kMost / 2) finding.element.push_back("  ...");
  }
  finding.element.push_back("expected  " + notations(p.c.variant.wide, at.expected));
  finding.element.push_back("observed  " + notations(p.c.variant.wide, at.observed));
  return explained.word;
}

}  // namespace mxcheck
