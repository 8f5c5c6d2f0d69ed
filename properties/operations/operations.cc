#include "properties/operations/operations.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/scale/recipe.h"
#include "properties/core/rng.h"
#include "properties/operations/matmul/problem.h"
#include "properties/operations/router/problem.h"
#include "reference/common/parallel.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

BlockShape transposed(BlockShape b) { return {b.cols, b.rows}; }

template <class T>
std::vector<std::byte> as_bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

CallTensor u8_tensor(std::vector<std::int64_t> shape, const std::byte* data) {
  CallTensor t;
  t.dtype = Format::e4m3;
  t.shape = std::move(shape);
  t.bytes = 1;
  for (std::int64_t extent : t.shape) t.bytes *= static_cast<std::uint64_t>(extent);
  t.data = data;
  return t;
}

std::vector<std::int64_t> scale_shape(const ScaleGeometry& g, int layout) {
  if (layout == MXCHECK_TCGEN05) return {g.tiled_bytes};
  return {g.rows, g.cols};
}

TensorInfo codes_info(const Case& c, std::string name, BlockShape block) {
  return {std::move(name),
          c.variant.format,
          c.rows,
          c.cols,
          block.rows == 0 ? c.rows : block.rows,
          block.cols == 0 ? c.cols : block.cols,
          false};
}

TensorInfo scales_info(const Case& c, std::string name, BlockShape block) {
  const ScaleGeometry g = scale_geometry(c, block);
  if (c.variant.layout == MXCHECK_TCGEN05) return {std::move(name), Format::e8m0, 1, g.tiled_bytes, 0, 0, false};
  return {std::move(name), Format::e8m0, g.rows, g.cols, 0, 0, false};
}

}  // namespace

CallTensor offsets_tensor(const std::vector<std::int64_t>& offsets) {
  CallTensor t;
  t.is_offsets = true;
  t.shape = {static_cast<std::int64_t>(offsets.size())};
  t.data = reinterpret_cast<const std::byte*>(offsets.data());
  t.bytes = offsets.size() * sizeof(std::int64_t);
  return t;
}

CallTensor index_tensor(const std::vector<std::int32_t>& index) {
  CallTensor t;
  t.is_index = true;
  t.shape = {static_cast<std::int64_t>(index.size())};
  t.data = reinterpret_cast<const std::byte*>(index.data());
  t.bytes = index.size() * sizeof(std::int32_t);
  return t;
}

ScaleGeometry scale_geometry(const Case& c, BlockShape block) {
  ScaleGeometry g;
  g.block = block;
  const std::int64_t block_rows = block.rows == 0 ? std::max<std::int64_t>(1, c.rows) : block.rows;
  const std::int64_t block_cols = block.cols == 0 ? std::max<std::int64_t>(1, c.cols) : block.cols;
  g.cols = (c.cols + block_cols - 1) / block_cols;
  if (c.experts.empty()) {
    g.rows_of_expert = {(c.rows + block_rows - 1) / block_rows};
  } else {
    for (std::size_t e = 1; e < c.experts.size(); ++e) {
      g.rows_of_expert.push_back((c.experts[e] - c.experts[e - 1] + block_rows - 1) / block_rows);
    }
  }
  for (std::int64_t rows : g.rows_of_expert) {
    g.rows += rows;
    if (g.row_blocks()) g.tiled_bytes += layout_bytes(ScaleLayout::tcgen05, {{rows}, g.cols});
    if (!g.row_blocks() && block.cols == 1) g.tiled_bytes += layout_bytes(ScaleLayout::tcgen05, {{g.cols}, rows});
  }
  return g;
}

std::int64_t scale_bytes(const ScaleGeometry& g, int layout) {
  return layout == MXCHECK_TCGEN05 ? g.tiled_bytes : g.count();
}

std::vector<std::uint8_t> in_layout(const Case& c, const ScaleGeometry& g, std::vector<std::uint8_t> compact) {
  if (c.variant.layout == MXCHECK_COMPACT) return compact;
  return to_layout(ScaleLayout::tcgen05, {g.rows_of_expert, g.cols, g.block}, compact, c.pad);
}

std::vector<std::uint8_t> to_compact(const Case& c, const ScaleGeometry& g, std::span<const std::uint8_t> scales) {
  if (c.variant.layout == MXCHECK_COMPACT) return {scales.begin(), scales.end()};
  return from_layout(ScaleLayout::tcgen05, {g.rows_of_expert, g.cols, g.block}, scales);
}

namespace {

std::string how_it_ended(const Outcome& outcome) {
  if (outcome.kind == OutcomeKind::timed_out) return "the candidate did not return within the time limit";
  if (!outcome.device_error.empty()) return "the candidate left the device in an error: " + outcome.device_error;
  return "the candidate's process died (signal " + std::to_string(outcome.signal) + ", " +
         (outcome.signal != 0 ? strsignal(outcome.signal) : "it exited") + ")";
}

}  // namespace

wire::Policy to_policy(const Case& c) {
  wire::Policy p;
  if (is_route(c.variant.operation)) {
    set_route_policy(c, p);
    return p;
  }
  std::snprintf(p.format, sizeof(p.format), "%s", spec(c.variant.format).name.data());
  if (is_matmul(c.variant.operation)) set_product_policy(c, p);
  if (!is_matmul(c.variant.operation)) std::snprintf(p.recipe, sizeof(p.recipe), "%s", c.variant.recipe.c_str());
  p.block_rows = c.variant.block.rows, p.block_cols = c.variant.block.cols;
  p.rows = c.rows, p.cols = c.cols;
  p.layout = c.variant.layout;
  p.threads = c.threads;
  p.pad_byte = c.pad;
  return p;
}

// The source row of each row. With fewer source rows than rows some repeat, as tokens do that go to several experts.
std::vector<std::int32_t> draw_index(std::uint64_t seed, std::int64_t rows, std::int64_t source_rows) {
  std::vector<std::int32_t> index(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> all(static_cast<std::size_t>(source_rows));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::size_t left = all.size() - i % all.size();  // a fresh permutation each time all have been used
    const std::size_t taken = static_cast<std::size_t>(random_word(seed ^ 0x6A7E, i) % left);
    index[i] = all[taken];
    std::swap(all[taken], all[left - 1]);
  }
  return index;
}

namespace {

void gather_from(Problem& p, std::int64_t source_rows) {
  p.c.gather = source_rows;
  const MatrixView& x = p.input.view;
  const std::size_t width = p.c.variant.wide == Format::fp32 ? 4 : 2;
  const std::size_t line = static_cast<std::size_t>(x.row_stride) * width;
  p.index = draw_index(p.c.seed, p.c.rows, source_rows);
  p.source.assign(static_cast<std::size_t>(source_rows) * line, std::byte{0xFF});
  std::vector<bool> used(static_cast<std::size_t>(source_rows));
  for (std::size_t i = 0; i < p.index.size(); ++i) {
    const auto from = static_cast<std::size_t>(p.index[i]);
    std::byte* row = p.input.bytes.data() + i * line;
    if (line == 0) continue;
    if (!used[from]) std::memcpy(p.source.data() + from * line, row, line);
    if (used[from]) std::memcpy(row, p.source.data() + from * line, line);
    used[from] = true;
  }
}

}  // namespace

Problem make_problem(const Case& c, Input input) {
  Problem p;
  p.c = c;
  p.input = std::move(input);
  p.input.offsets = c.experts;
  const Variant& v = c.variant;
  if (c.gather != 0) gather_from(p, std::max(c.gather, c.rows));
  if (v.operation == "quantize" || v.operation == "cast") {
    p.outputs = {codes_info(c, "codes", v.block)};
    if (v.operation == "quantize") p.outputs.push_back(scales_info(c, "scales", v.block));
  } else {
    p.outputs = {codes_info(c, "row codes", v.block), scales_info(c, "row scales", v.block),
                 codes_info(c, "column codes", transposed(v.block)),
                 scales_info(c, "column scales", transposed(v.block))};
  }
  return p;
}

Problem make_problem(const Case& c) {
  const Variant& v = c.variant;
  if (is_matmul(v.operation)) return make_product(c);
  if (is_route(v.operation)) return make_route(c);
  if (reads_x(v)) {
    Case plain = c;
    plain.gather = 0;
    Problem p = make_problem(plain, expand(c));
    if (c.gather != 0) gather_from(p, c.gather);
    return p;
  }
  Problem p;
  p.c = c;
  p.input.offsets = c.experts;
  const ScaleGeometry g = scale_geometry(c, v.block);
  std::vector<std::uint8_t> compact = expand_scale_bytes(c, g.count());
  if (v.operation == "dequantize") {
    p.codes = expand_codes(c);
    const std::int64_t block_cols = v.block.cols == 0 ? std::max<std::int64_t>(1, c.cols) : v.block.cols;
    for (const Plant& plant : c.plants) {
      const std::int64_t at = scale_row_of(c, g, plant.row) * g.cols + plant.col / block_cols;
      compact[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(plant.bits >> 8);
    }
    p.scales = in_layout(c, g, std::move(compact));
    p.outputs = {{"y", v.wide, c.rows, c.cols, v.block.rows == 0 ? c.rows : v.block.rows,
                  v.block.cols == 0 ? c.cols : v.block.cols, true}};
  } else {  // scale_layout: reads the layout that the policy does not name
    Case other = c;
    other.variant.layout = v.layout == MXCHECK_COMPACT ? MXCHECK_TCGEN05 : MXCHECK_COMPACT;
    p.scales = in_layout(other, g, std::move(compact));
    p.outputs = {scales_info(c, "scales", v.block)};
  }
  return p;
}

Call Problem::call() const {
  if (is_matmul(c.variant.operation)) return product_call(*this);
  if (is_route(c.variant.operation)) return route_call(*this);
  Call call;
  const Variant& v = c.variant;
  call.operation = v.operation;
  call.policy = to_policy(c);
  if (reads_x(v)) {
    CallTensor x;
    const std::int64_t rows = c.gather != 0 ? c.gather : c.rows;
    x.dtype = v.wide;
    x.shape = {rows, c.cols};
    x.row_stride = input.view.row_stride > c.cols ? input.view.row_stride : 0;
    x.data = c.gather != 0 ? source.data() : input.bytes.data();
    // The gap behind the last row is not part of a strided tensor: in a slice of a larger one there may be nothing.
    const std::uint64_t width = v.wide == Format::fp32 ? 4 : 2;
    if (rows * c.cols != 0) x.bytes = static_cast<std::uint64_t>((rows - 1) * input.view.row_stride + c.cols) * width;
    call.inputs.push_back(x);
  } else {
    const auto* scale_data = reinterpret_cast<const std::byte*>(scales.data());
    const int scale_layout = v.operation == "dequantize" ? v.layout : 1 - v.layout;
    if (v.operation == "dequantize") {
      call.inputs.push_back(u8_tensor({c.rows, c.cols}, reinterpret_cast<const std::byte*>(codes.data())));
    }
    call.inputs.push_back(u8_tensor(scale_shape(scale_geometry(c, v.block), scale_layout), scale_data));
  }
  if (!c.experts.empty()) call.inputs.push_back(offsets_tensor(input.offsets));
  if (c.gather != 0 && reads_x(v)) call.inputs.push_back(index_tensor(index));
  for (const TensorInfo& info : outputs) {
    CallTensor t;
    t.dtype = info.format == Format::fp32 || info.format == Format::bf16 || info.format == Format::fp16 ? info.format
                                                                                                        : Format::e4m3;
    t.shape = {info.rows, info.cols};
    if (info.format == Format::e8m0 && v.layout == MXCHECK_TCGEN05) t.shape = {info.cols};
    t.bytes = static_cast<std::uint64_t>(info.rows * info.cols) *
              static_cast<std::uint64_t>((spec(info.format).bits + 7) / 8);
    call.outputs.push_back(t);
  }
  return call;
}

namespace {

// Element for element, as a block of scale 1.
std::vector<std::byte> cast_codes(const Problem& p, const Recipe& recipe) {
  const Case& c = p.c;
  std::vector<std::byte> codes(static_cast<std::size_t>(c.elements()));
  BlockScale one;
  one.byte = 127, one.scale = 1, one.factor = 1;
  parallel_ranges(c.rows, c.elements(), 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        codes[static_cast<std::size_t>(i * c.cols + j)] =
            static_cast<std::byte>(encode_element(recipe, c.variant.format, one, p.input.view.at(i, j), 0));
      }
    }
  });
  return codes;
}

}  // namespace

std::vector<ExpectedTensor> reference_answer(const Problem& p) {
  if (is_route(p.c.variant.operation)) return route_answer(p);
  return reference_answer(p, recipe_named(p.c.variant.recipe));
}

std::vector<ExpectedTensor> reference_answer(const Problem& p, const Recipe& recipe) {
  const Case& c = p.c;
  const Variant& v = c.variant;
  if (is_matmul(v.operation)) return {product_answer(p)};
  std::vector<ExpectedTensor> answer;
  const auto add_direction = [&](std::size_t at, BlockShape block) {
    const Quantized q = quantize(p.input.view, v.format, block, recipe, c.experts);
    answer.push_back({p.outputs[at], as_bytes_of(q.codes)});
    answer.push_back({p.outputs[at + 1], as_bytes_of(in_layout(c, scale_geometry(c, block), q.scales))});
  };
  if (v.operation == "quantize") add_direction(0, v.block);
  if (v.operation == "quantize_dual") add_direction(0, v.block), add_direction(2, transposed(v.block));
  if (v.operation == "cast") answer.push_back({p.outputs[0], cast_codes(p, recipe)});
  const ScaleGeometry g = scale_geometry(c, v.block);
  if (v.operation == "dequantize") {
    Quantized q;
    q.element = v.format, q.block = v.block, q.rows = c.rows, q.cols = c.cols;
    q.scale_rows = g.rows, q.scale_cols = g.cols;
    q.codes = p.codes;
    q.scales = to_compact(c, g, p.scales);
    answer.push_back({p.outputs[0], v.wide == Format::fp32 ? as_bytes_of(dequantize(q, c.experts))
                                                           : as_bytes_of(dequantize_bf16(q, c.experts))});
  }
  if (v.operation == "scale_layout") {
    Case other = c;
    other.variant.layout = 1 - v.layout;
    answer.push_back({p.outputs[0], as_bytes_of(in_layout(c, g, to_compact(other, g, p.scales)))});
  }
  return answer;
}

Ran run_checked(CandidateRunner& process, const Call& call, const Case& c) {
  Outcome outcome = process.run(call);
  Finding finding;
  if (outcome.kind != OutcomeKind::returned) {
    const Outcome again = process.run(call);  // in the fresh process that run starts
    const bool confirmed = again.kind != OutcomeKind::returned;
    finding.kind = FindingKind::fault;
    finding.summary = how_it_ended(outcome);
    finding.summary += confirmed ? "; again in a fresh process" : "; not in a fresh process: state of earlier calls";
    return {std::nullopt, finding};
  }
  if (outcome.trespass) {
    finding.kind = FindingKind::trespass;
    finding.summary = "the candidate wrote " + *outcome.trespass;
    return {std::nullopt, finding};
  }
  if (outcome.conduct) {
    finding.kind = FindingKind::refused;
    finding.summary = *outcome.conduct;
    return {std::nullopt, finding};
  }
  if (outcome.status != MXCHECK_OK) {
    const bool product_option = is_matmul(c.variant.operation) && is_option(c);
    const bool route_option = is_route(c.variant.operation) && is_route_option(c);
    const bool option = product_option || route_option || c.stride > c.cols ||
                        (!is_matmul(c.variant.operation) && (!c.experts.empty() || c.gather != 0));
    if (outcome.status == MXCHECK_UNSUPPORTED && option && outcome.outputs_untouched) return {};
    finding.kind = FindingKind::refused;
    finding.summary = "the candidate refused a case that it claims to support: status " +
                      std::to_string(outcome.status) + ", \"" + outcome.message + "\"";
    return {std::nullopt, finding};
  }
  return {std::move(outcome), std::nullopt};
}

}  // namespace mxcheck
