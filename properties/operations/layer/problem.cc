// swiglu and swiglu_backward: tensors, call and answer.

#include "properties/operations/layer/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/notation.h"
#include "properties/operations/layer/definitions.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "reference/layer/run.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

using What = SwigluOutput::What;
using Part = SwigluOutput::Part;

Format element_format(const char* name) {
  const auto format = find_format(name);
  if (!format || spec(*format).bits != 8) throw Error(ErrorKind::usage, "codes of an unknown format");
  return *format;
}

Case case_of_swiglu(const Call& call) {
  const auto policy = read<mxcheck_swiglu_policy>(call.policy);
  Case c;
  c.variant.operation = call.operation;
  LayerVariant& own = layer_of(c.variant);
  own.gate_up = policy.gate_up, own.outputs = policy.outputs;
  if ((policy.outputs & ~7) != 0 || policy.outputs == 0) throw Error(ErrorKind::usage, "outputs that there are not");
  if (*policy.format_h != '\0') c.variant.dtype = element_format(policy.format_h);
  if ((policy.outputs & (MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED)) != 0) {
    own.format = element_format(policy.policy.format), own.recipe = recipe_named(policy.policy.recipe).name;
    own.block = policy.policy.block_cols;
    if (own.block != 32 && own.block != 128) throw Error(ErrorKind::usage, "blocks of another size");
  }
  if (is_backward(c.variant) && (policy.outputs & MXCHECK_COLUMNS_CODED) != 0)
    own.scaled = element_format(policy.format_scaled);
  c.rows = policy.policy.rows, c.cols = policy.policy.cols, c.threads = policy.policy.threads;
  return c;
}

std::size_t size_of(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

const char* name_of(What what) {
  constexpr const char* kNames[] = {"a", "scaled_a", "dh", "ds"};
  return kNames[static_cast<std::size_t>(what)];
}

// The tensors that are written, in BF16, before anything is coded.
struct Steps {
  Words a, scaled_a, dh;
  std::vector<float> ds;
};
Steps steps_of(const SwigluProblem& p) {
  const std::int64_t rows = p.c.rows;
  const std::int64_t n = p.c.cols;
  const bool backward = is_backward(p.c.variant);
  const GateUp order = layer_of(p.c.variant).gate_up == MXCHECK_HALVES ? GateUp::halves : GateUp::interleaved;
  std::vector<float> h = p.values_of_h();
  std::vector<float> gradient = p.p;
  Steps s{Words(size_of(rows, n)), {}, {}, {}};
  if (backward) {
    s.scaled_a.resize(s.a.size()), s.dh.resize(2 * s.a.size());
    s.ds.resize(static_cast<std::size_t>(rows));
  }
  parallel_ranges(rows, rows * n * 8, 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (!backward) {
        swiglu_row(row_of(h, r, 2 * n), order, row_of(s.a, r, n));
      } else {
        s.ds[at] = swiglu_row_gradient(row_of(h, r, 2 * n), order, row_of(gradient, r, n), p.weights[at],
                                       {row_of(s.a, r, n), row_of(s.scaled_a, r, n), row_of(s.dh, r, 2 * n)});
      }
    }
  });
  return s;
}

}  // namespace

std::vector<SwigluOutput> swiglu_outputs(const Variant& v) {
  std::vector<SwigluOutput> all;
  const auto add_coded = [&](What what, bool transposed) {
    all.push_back({what, Part::codes, transposed});
    all.push_back({what, Part::scales, transposed});
  };
  if (is_backward(v)) all.push_back({What::ds, Part::values, false});
  if (writes(v, MXCHECK_VALUES)) {
    all.push_back({is_backward(v) ? What::scaled_a : What::a, Part::values, false});
    if (is_backward(v)) all.push_back({What::dh, Part::values, false});
  }
  if (writes(v, MXCHECK_ROWS_CODED)) add_coded(is_backward(v) ? What::dh : What::a, false);
  if (writes(v, MXCHECK_COLUMNS_CODED)) {
    add_coded(is_backward(v) ? What::scaled_a : What::a, true);
    if (is_backward(v)) add_coded(What::dh, true);
  }
  return all;
}

SwigluProblem::SwigluProblem(const Case& from) : Problem(from) {
  const StepElements elements(from);
  const std::int64_t n = from.cols;
  if (has_coded_h(from.variant)) {
    h_codes = expand_coded_h(from), h_scales = expand_scales_of_h(from);
  } else {
    const std::int64_t stride = stride_of_h(from);
    h.assign(size_of(from.rows, stride), 0x7FC0);
    for (std::int64_t i = 0; i < from.rows; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const StepElements::Pair pair = elements.pair(i, j);
        h[static_cast<std::size_t>(i * stride + gate_column(j))] = pair.gate;
        h[static_cast<std::size_t>(i * stride + up_column(j))] = pair.up;
      }
    }
  }
  if (is_backward(from.variant)) {
    p.reserve(size_of(from.rows, n));
    for (std::int64_t i = 0; i < from.rows; ++i) {
      for (std::int64_t j = 0; j < n; ++j) p.push_back(elements.p(i, j));
      weights.push_back(elements.weight(i));
    }
  }
  describe_outputs();
}

SwigluProblem::SwigluProblem(const Call& call) : Problem(case_of_swiglu(call)) {
  std::size_t next = 0;
  const CallTensor& first = input_number(call, next++);
  if (has_coded_h(c.variant)) {
    const CallTensor& scales = input_number(call, next++);
    h_codes = values_in<std::uint8_t>({first.data, first.bytes});
    h_scales = values_in<std::uint8_t>({scales.data, scales.bytes});
    h_codes.resize(size_of(c.rows, 2 * c.cols)), h_scales.resize(size_of(c.rows, (2 * c.cols + 31) / 32));
  } else {
    h = values_in<std::uint16_t>({first.data, first.bytes});
    c.stride = first.row_stride == 0 ? 0 : first.row_stride - c.cols;
    h.resize(size_of(c.rows, stride_of_h(c)), 0x7FC0);  // without the gap after the last row
  }
  if (is_backward(c.variant)) {
    const CallTensor& gradient = input_number(call, next++);
    const CallTensor& of_rows = input_number(call, next++);
    p = values_in<float>({gradient.data, gradient.bytes}), weights = values_in<float>({of_rows.data, of_rows.bytes});
    p.resize(size_of(c.rows, c.cols)), weights.resize(static_cast<std::size_t>(c.rows));
  }
  if (next < call.inputs.size()) {
    const CallTensor& offsets = call.inputs[next];
    if (!offsets.is_offsets) throw Error(ErrorKind::usage, "an input that the operation has not");
    c.experts = values_in<std::int64_t>({offsets.data, offsets.bytes});
    check_offsets(c.experts, c.rows);
  }
  describe_outputs();
}

std::int64_t SwigluProblem::gate_column(std::int64_t j) const {
  return layer_of(c.variant).gate_up == MXCHECK_HALVES ? j : 2 * j;
}
std::int64_t SwigluProblem::up_column(std::int64_t j) const {
  return layer_of(c.variant).gate_up == MXCHECK_HALVES ? c.cols + j : 2 * j + 1;
}

void SwigluProblem::describe_outputs() {
  const LayerVariant& v = layer_of(c.variant);
  const Recipe recipe = recipe_named(v.recipe);
  outputs.clear();
  for (const SwigluOutput& o : swiglu_outputs(c.variant)) {
    const std::int64_t cols = o.what == What::dh ? 2 * c.cols : c.cols;
    const std::string name = (o.transposed ? "transposed " : "") + std::string(name_of(o.what));
    const Format format = o.what == What::scaled_a ? v.scaled : v.format;
    if (o.what == What::ds) {
      outputs.push_back(values_info(name, Format::fp32, 1, c.rows));
      outputs.back().is_vector = true;
    } else if (o.part == Part::values) {
      outputs.push_back(values_info(name, Format::bf16, c.rows, cols));
    } else if (o.part == Part::codes) {
      outputs.push_back(
          codes_info("codes of " + name, format, o.transposed ? cols : c.rows, o.transposed ? c.rows : cols, v.block));
    } else {
      const std::int64_t across =
          o.transposed ? scales_along_rows(c.rows, v.block, c.experts) : (cols + v.block - 1) / v.block;
      outputs.push_back(scales_info("scales of " + name, recipe, o.transposed ? cols : c.rows, across));
    }
  }
}

std::vector<ProblemInput> SwigluProblem::inputs() const {
  std::vector<ProblemInput> all;
  if (has_coded_h(c.variant)) {
    all.push_back(matrix_input({"codes of h", c.variant.dtype, c.rows, 2 * c.cols}, h_codes));
    all.push_back(matrix_input({"scales of h", Format::e8m0, c.rows, (2 * c.cols + 31) / 32}, h_scales));
  } else {
    all.push_back(matrix_input(values_info("h", Format::bf16, c.rows, 2 * c.cols), h, stride_of_h(c)));
  }
  if (is_backward(c.variant)) {
    all.push_back(matrix_input(values_info("p", Format::fp32, c.rows, c.cols), p));
    all.push_back(vector_input("weights", weights));
  }
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  return all;
}

std::vector<float> SwigluProblem::values_of_h() const {
  if (has_coded_h(c.variant)) {
    return dequantize(
        {tensor_of(c.variant.dtype, {c.rows, 2 * c.cols}, h_codes),
         {{{1, 32}, ScaleRule::rceil, tensor_of(Format::e8m0, {c.rows, (2 * c.cols + 31) / 32}, h_scales)}}});
  }
  std::vector<float> values(size_of(c.rows, 2 * c.cols));
  const MatrixView view{Format::bf16, std::as_bytes(std::span(h)).data(), c.rows, 2 * c.cols, stride_of_h(c)};
  for (std::int64_t i = 0; i < c.rows; ++i) view.read_row(i, row_of(values, i, 2 * c.cols));
  return values;
}

namespace {

constexpr std::int64_t kMostToMatch = 1'000'000;  // elements: each row computes an answer

// The outputs made of these tensors, in BF16 or FP32, and dS in FP32. An output of an empty one is empty.
template <class TensorOf>
std::vector<ExpectedTensor> outputs_made_of(const SwigluProblem& p, const TensorOf& tensor_of) {
  const LayerVariant& v = layer_of(p.c.variant);
  const Recipe recipe = recipe_named(v.recipe);
  const std::vector<SwigluOutput> made_of = swiglu_outputs(p.c.variant);
  std::vector<ExpectedTensor> answer;
  CodedBytes coded;
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const SwigluOutput& o = made_of[i];
    const TensorInfo& info = p.outputs[i];
    if (o.part == Part::scales) {  // which came with its codes
      answer.push_back({info, std::move(coded.scales)});
      continue;
    }
    Bytes tensor = tensor_of(o.what);
    if (o.part == Part::codes && !tensor.empty()) {
      const std::int64_t cols = o.what == What::dh ? 2 * p.c.cols : p.c.cols;
      const bool is_wide = tensor.size() == size_of(p.c.rows, cols) * sizeof(float);
      const MatrixView view{is_wide ? Format::fp32 : Format::bf16, tensor.data(), p.c.rows, cols, cols};
      coded = o.transposed ? coded_columns(view, info.format, recipe, v.block, p.c.experts)
                           : coded_rows(view, info.format, recipe, v.block);
      tensor = std::move(coded.codes);
    }
    answer.push_back({info, std::move(tensor)});
  }
  return answer;
}

}  // namespace

std::vector<ExpectedTensor> SwigluProblem::answer() const {
  const Steps s = steps_of(*this);
  return outputs_made_of(*this, [&](What what) {
    return what == What::ds ? to_bytes(s.ds) : to_bytes(what == What::a ? s.a : what == What::dh ? s.dh : s.scaled_a);
  });
}

namespace {

// Rows about codes and scales of tensors that are as the reference has them.
Table coded_definitions(const SwigluProblem& p, std::span<const Bytes> observed) {
  const LayerVariant& v = layer_of(p.c.variant);
  const std::vector<SwigluOutput> made_of = swiglu_outputs(p.c.variant);
  const Steps s = steps_of(p);
  Table table;
  for (std::size_t i = 0; i + 1 < made_of.size(); ++i) {
    const SwigluOutput& o = made_of[i];
    if (o.part != Part::codes || o.what == What::ds) continue;
    const std::int64_t cols = o.what == What::dh ? 2 * p.c.cols : p.c.cols;
    BlocksProblem of;
    of.x = {"x",
            Format::bf16,
            {p.c.rows, cols},
            to_bytes(o.what == What::a    ? s.a
                     : o.what == What::dh ? s.dh
                                          : s.scaled_a)};
    of.element = p.outputs[i].format, of.recipe = recipe_named(v.recipe);
    of.block = o.transposed ? BlockShape{v.block, 1} : BlockShape{1, v.block};
    of.offsets = p.c.experts;
    merge(table, coded_table(std::move(of), o.transposed, i, i + 1, observed));
  }
  return table;
}

}  // namespace

namespace {

// Tensors that are not rounded to BF16 before they are quantized.
struct Unrounded {
  const char* name;
  What what;
  bool gate = true, up = true;  // of dH
};
constexpr std::array<Unrounded, 5> kUnrounded{
    {{"A quantized from FP32, not rounded to BF16 first", What::a},
     {"A' quantized from FP32, not rounded to BF16 first", What::scaled_a},
     {"dH quantized from FP32, not rounded to BF16 first", What::dh},
     {"dg quantized from FP32, not rounded to BF16 first", What::dh, true, false},
     {"du quantized from FP32, not rounded to BF16 first", What::dh, false, true}}};

Bytes unrounded(const SwigluProblem& p, const Unrounded& slip) {
  const std::int64_t n = p.c.cols, width = slip.what == What::dh ? 2 * n : n;
  const auto as_bf16 = [](float v) { return std::bit_cast<float>(std::uint32_t{layer_bf16(v)} << 16); };
  const std::vector<float> h = p.values_of_h();
  std::vector<float> values(size_of(p.c.rows, width));
  for (std::int64_t i = 0; i < p.c.rows * n; ++i) {
    const std::int64_t row = i / n, gate = row * 2 * n + p.gate_column(i % n), up = row * 2 * n + p.up_column(i % n);
    const float g = h[static_cast<std::size_t>(gate)], u = h[static_cast<std::size_t>(up)];
    const float weight = p.weights.empty() ? 1.0F : p.weights[static_cast<std::size_t>(row)];
    if (slip.what != What::dh) {
      const float a = swiglu(g, u);
      values[static_cast<std::size_t>(i)] = slip.what == What::a ? a : weight * as_bf16(a);
      continue;
    }
    const SwigluGradient d = swiglu_gradient(g, u, weight * p.p[static_cast<std::size_t>(i)]);
    values[static_cast<std::size_t>(gate)] = slip.gate ? d.dg : as_bf16(d.dg);
    values[static_cast<std::size_t>(up)] = slip.up ? d.du : as_bf16(d.du);
  }
  return to_bytes(values);
}

// Rows of these slips, about the codes and scales alone.
Table unrounded_table(const SwigluProblem& p, const std::shared_ptr<AnswerMemo>& memo) {
  Table table;
  const std::vector<SwigluOutput> made_of = swiglu_outputs(p.c.variant);
  for (const Unrounded& slip : kUnrounded) {
    const auto is_coded = [&](const SwigluOutput& o) { return o.what == slip.what && o.part == Part::codes; };
    if (std::ranges::none_of(made_of, is_coded)) continue;
    table.push_back(definition_of_all(
        slip.name,
        [&p, &slip, made_of] {
          std::vector<Bytes> answer;
          for (ExpectedTensor& t :
               outputs_made_of(p, [&](What what) { return what == slip.what ? unrounded(p, slip) : Bytes(); }))
            answer.push_back(std::move(t.bytes));
          for (std::size_t i = 0; i < answer.size(); ++i) {
            if (made_of[i].part == Part::values) answer[i].clear();
          }
          return answer;
        },
        memo));
  }
  return table;
}

}  // namespace

// Coded H has all rows where BF16 holds its values, else those about codes and scales.
Table SwigluProblem::definitions(std::span<const Bytes> observed) const {
  if (c.elements() == 0 || c.elements() > kMostToMatch) return {};
  Words words;
  for (const float value : values_of_h()) {
    words.push_back(layer_bf16(value));
    if (std::isnan(value) || fp32_of(words.back()) == value) continue;
    Table table = coded_definitions(*this, observed);
    merge(table, unrounded_table(*this, std::make_shared<AnswerMemo>()));
    return table;
  }
  const GateUp order = layer_of(c.variant).gate_up == MXCHECK_HALVES ? GateUp::halves : GateUp::interleaved;
  std::vector<float> of_rows = weights;
  of_rows.resize(static_cast<std::size_t>(c.rows), 1);
  const auto layer = layer_of_swiglu(std::move(words), p, std::move(of_rows), c.experts, order);
  std::vector<std::string> tensors(4);  // by What, those that are written
  for (const SwigluOutput& o : swiglu_outputs(c.variant)) {
    constexpr const char* kTensors[] = {"A", "scaled_A", "dH", "dS"};
    tensors[static_cast<std::size_t>(o.what)] = kTensors[static_cast<std::size_t>(o.what)];
  }
  const auto memo = std::make_shared<AnswerMemo>();
  Table table;
  for (const Definition& row : step_definitions(layer, tensors)) {
    const auto answer_of = [this, bytes = row.bytes] {
      std::vector<Bytes> answer;
      for (ExpectedTensor& t : outputs_made_of(*this, [&](What what) { return bytes(static_cast<std::size_t>(what)); }))
        answer.push_back(std::move(t.bytes));
      return answer;
    };
    table.push_back(definition_of_all(row.name, answer_of, memo, row.source));
  }
  merge(table, unrounded_table(*this, memo));
  merge(table, coded_definitions(*this, observed));
  return table;
}

// Scales before the codes that follow from them.
std::vector<std::size_t> SwigluProblem::order() const {
  std::vector<std::size_t> order = Problem::order();
  const std::vector<SwigluOutput> made_of = swiglu_outputs(c.variant);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    if (made_of[i].part == Part::codes) std::swap(order[i], order[i + 1]), ++i;
  }
  return order;
}

const CallTensor& input_number(const Call& call, std::size_t number) {
  if (number >= call.inputs.size())
    throw Error(ErrorKind::internal, "a call of " + call.operation + " without input " + std::to_string(number));
  return call.inputs[number];
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

std::vector<std::byte> in_halves(const std::vector<std::byte>& interleaved, std::int64_t n, std::size_t width) {
  std::vector<std::byte> halves(interleaved.size());
  const std::size_t row = 2 * static_cast<std::size_t>(n) * width;
  for (std::size_t at = 0; at < halves.size(); at += width) {
    const std::size_t column = at % row / width;
    const std::size_t to = column / 2 + (column % 2 == 0 ? 0 : static_cast<std::size_t>(n));
    std::copy_n(interleaved.begin() + static_cast<std::ptrdiff_t>(at), width,
                halves.begin() + static_cast<std::ptrdiff_t>(at - at % row + to * width));
  }
  return halves;
}

CodedBytes coded_rows(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block) {
  const QuantizedTensor q = quantize(x, format, {1, block}, recipe);
  return {q.codes.data, q.scales().data};
}

CodedBytes coded_columns(const MatrixView& x, Format format, const Recipe& recipe, std::int64_t block,
                         std::span<const std::int64_t> experts) {
  const QuantizedTensor q = quantize(x, format, {block, 1}, recipe, experts);
  return {transposed(q.codes).data, transposed(q.scales()).data};
}

// aggregate: tensors, call, answer, and what an element is the sum of.

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

std::vector<ProblemInput> AggregateProblem::inputs() const {
  std::vector<ProblemInput> all{matrix_input(values_info("y", Format::bf16, layer_case(c).y_rows, c.cols), y)};
  if (layer_of(c.variant).weighted) all.push_back(vector_input("weights", weights));
  all.push_back(vector_input("token_offsets", slots.token_offsets));
  all.push_back(vector_input("token_rows", slots.token_rows));
  return all;
}

std::vector<ExpectedTensor> AggregateProblem::answer() const {
  if (std::ssize(slots.token_offsets) != c.rows + 1)
    throw Error(ErrorKind::usage, "token_offsets are one more than there are tokens");
  return {{outputs[0],
           to_bytes(aggregate({y, layer_case(c).y_rows, c.cols, weights}, {slots.token_offsets, slots.token_rows}))}};
}

// A layer that has Y, or, where nothing is weighted, the rows of dX.
Table AggregateProblem::definitions(std::span<const Bytes>) const {
  if (c.elements() == 0 || c.elements() > kMostToMatch) return {};
  const bool weighted = layer_of(c.variant).weighted;
  const auto rows = static_cast<std::size_t>(layer_case(c).y_rows);
  auto d = std::make_shared<LayerData>();
  d->shape = {c.rows, c.cols, 0, 1};
  d->routes = {
      {0, layer_case(c).y_rows}, std::vector<std::int32_t>(rows), weights, slots.token_offsets, slots.token_rows};
  d->routes.row_weight.resize(rows, 1);
  (weighted ? d->forward.y : d->backward.dx_rows) = y;
  return step_definitions(d, {weighted ? "O" : "dX"});
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

}  // namespace mxcheck
