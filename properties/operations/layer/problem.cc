// swiglu and swiglu_backward: tensors, call and answer.

#include "properties/operations/layer/problem.h"

#include <algorithm>
#include <utility>

#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/tensors.h"
#include "reference/layer/swiglu.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

using What = SwigluOutput::What;
using Part = SwigluOutput::Part;
using Words = std::vector<std::uint16_t>;

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

MatrixView view_of(const Words& words, std::int64_t rows, std::int64_t cols) {
  return {Format::bf16, std::as_bytes(std::span(words)).data(), rows, cols, cols};
}

template <class T>
std::span<T> row_of(std::vector<T>& v, std::int64_t row, std::int64_t cols) {
  return std::span(v).subspan(static_cast<std::size_t>(row * cols), static_cast<std::size_t>(cols));
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

Call SwigluProblem::call() const {
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  if (has_coded_h(c.variant)) {
    call.inputs.push_back(byte_tensor(h_codes, {c.rows, 2 * c.cols}));
    call.inputs.push_back(byte_tensor(h_scales, {c.rows, (2 * c.cols + 31) / 32}));
  } else {
    CallTensor t;
    t.dtype = Format::bf16;
    t.shape = {c.rows, 2 * c.cols};
    const std::int64_t stride = stride_of_h(c);
    t.row_stride = stride > 2 * c.cols ? stride : 0;
    t.data = reinterpret_cast<const std::byte*>(h.data());
    if (c.elements() != 0) t.bytes = static_cast<std::uint64_t>((c.rows - 1) * stride + 2 * c.cols) * 2;
    call.inputs.push_back(t);
  }
  if (is_backward(c.variant)) {
    call.inputs.push_back(fp32_tensor(p, {c.rows, c.cols}));
    call.inputs.push_back(fp32_tensor(weights, {c.rows}));
  }
  if (!c.experts.empty()) call.inputs.push_back(offsets_tensor(c.experts));
  const std::vector<SwigluOutput> made_of = swiglu_outputs(c.variant);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    call.outputs.push_back(output_tensor(outputs[i], made_of[i].what == What::ds));
  return call;
}

std::vector<float> SwigluProblem::values_of_h() const {
  if (has_coded_h(c.variant)) {
    Quantized q;
    q.element = c.variant.dtype, q.block = {1, 32};
    q.rows = c.rows, q.cols = 2 * c.cols, q.scale_rows = c.rows, q.scale_cols = (2 * c.cols + 31) / 32;
    q.codes = h_codes, q.scales = h_scales;
    return dequantize(q);
  }
  std::vector<float> values(size_of(c.rows, 2 * c.cols));
  const MatrixView view{Format::bf16, std::as_bytes(std::span(h)).data(), c.rows, 2 * c.cols, stride_of_h(c)};
  for (std::int64_t i = 0; i < c.rows; ++i) view.read_row(i, row_of(values, i, 2 * c.cols));
  return values;
}

std::vector<ExpectedTensor> SwigluProblem::answer() const {
  const LayerVariant& v = layer_of(c.variant);
  const Recipe recipe = recipe_named(v.recipe);
  const Steps s = steps_of(*this);
  const std::vector<SwigluOutput> made_of = swiglu_outputs(c.variant);
  std::vector<ExpectedTensor> answer;
  CodedBytes coded;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const SwigluOutput& o = made_of[i];
    const Words& words = o.what == What::a ? s.a : o.what == What::dh ? s.dh : s.scaled_a;
    if (o.part == Part::codes) {  // its scales come next
      const MatrixView view = view_of(words, c.rows, o.what == What::dh ? 2 * c.cols : c.cols);
      coded = o.transposed ? coded_columns(view, outputs[i].format, recipe, v.block, c.experts)
                           : coded_rows(view, outputs[i].format, recipe, v.block);
      answer.push_back({outputs[i], std::move(coded.codes)});
    } else if (o.part == Part::scales) {
      answer.push_back({outputs[i], std::move(coded.scales)});
    } else {
      answer.push_back({outputs[i], o.what == What::ds ? to_bytes(s.ds) : to_bytes(words)});
    }
  }
  return answer;
}

std::vector<SavedTensor> SwigluProblem::saved() const {
  std::vector<SavedTensor> saved;
  save(saved, values_info("h", Format::bf16, c.rows, stride_of_h(c)), to_bytes(h));
  save(saved, {"codes of h", c.variant.dtype, c.rows, 2 * c.cols}, to_bytes(h_codes));
  save(saved, {"scales of h", Format::e8m0, c.rows, (2 * c.cols + 31) / 32}, to_bytes(h_scales));
  save(saved, values_info("p", Format::fp32, c.rows, c.cols), to_bytes(p));
  save_vector(saved, "weights", weights);
  save_vector(saved, "offsets", c.experts);
  return saved;
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

}  // namespace mxcheck
