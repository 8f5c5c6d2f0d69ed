#include "properties/operations/scaled_blocks/operation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "reference/quantize/cast.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
OperationModule quantize_module() {
  ScaledBlocksTraits traits{"quantize"};
  traits.can_be_asked = [](const Variant&) { return true; };
  traits.invalid_calls = [] {
    std::vector<InvalidCall> all = invalid_scaled_blocks(disagreeing_extents({unknown_format(), unknown_recipe()}));
    add_invalid(all, {invalid_row_index()});
    return all;
  };
  traits.depends_on_recipe = true;
  static const OperationOf<QuantizeProblem, ScaledBlocksOperation> kQuantize(traits);
  traits.name = "quantize_dual";
  // Its columns are the rows turned: its blocks have one row.
  traits.can_be_asked = [](const Variant& v) { return blocks_of(v).block.rows == 1 && blocks_of(v).block.cols > 1; };
  static const OperationOf<QuantizeProblem, ScaledBlocksOperation> kDual(traits);
  OperationModule module{{&kQuantize, &kDual}, quantize_equality_statements()};
  for (const auto& family : {quantize_algebra_statements(), quantize_layout_statements(), large_tensor_statements()}) {
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  }
  return module;
}

namespace {

// Elements of a case that rows of its table are compared with: each computes an answer, and there are about 30 recipes
// and 150 slips.
constexpr std::int64_t kMostToMatch = 1'000'000;
constexpr std::int64_t kMostForSlips = std::int64_t{1} << 18;

// Without what lies behind the rows.
Bytes dense_rows(const Input& input) {
  const auto line = static_cast<std::size_t>(input.cols) * value_bytes(input.dtype);
  Bytes bytes;
  for (std::int64_t i = 0; i < input.rows; ++i) {
    const auto from =
        input.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * input.row_bytes());
    bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(line));
  }
  return bytes;
}

// x as it is drawn, before rows are gathered.
Input drawn(Case c) {
  c.gather = 0;
  if (c.variant.dtype != Format::fp64) return expand(c);
  c.variant.dtype = Format::fp32;
  const Input words = expand(c);
  Input wide{{}, Format::fp64, words.rows, words.cols, words.stride};
  wide.bytes.resize(2 * words.bytes.size());
  const auto count = static_cast<std::int64_t>(words.bytes.size() / sizeof(std::uint32_t));
  parallel_ranges(count, count, 0, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, words.bytes.data() + i * sizeof(word), sizeof(word));
      const std::uint64_t bits = fp64_of(word, c.seed);
      std::memcpy(wide.bytes.data() + i * sizeof(bits), &bits, sizeof(bits));
    }
  });
  return wide;
}

}  // namespace

std::uint64_t fp64_of(std::uint32_t word, std::uint64_t seed) {
  constexpr std::uint64_t kInfinity = std::uint64_t{0x7FF} << 52;
  constexpr int kBitsBelowFp32 = 52 - 23;
  constexpr int kFar[] = {300, -300, 890, -930};  // of 2^128 and 2^-126: finite, and subnormal
  const std::uint32_t magnitude = word & 0x7FFFFFFF;
  const std::uint64_t sign = std::uint64_t{word >> 31} << 63;
  const std::uint64_t hash = random_word(seed ^ 0xF640, word);
  const std::uint64_t low = hash >> 32 & ((std::uint64_t{1} << kBitsBelowFp32) - 1);
  if (magnitude == 0) return sign;
  if (magnitude >= 0x7F800000) {
    const std::uint64_t payload = std::uint64_t{magnitude & 0x7FFFFF} << kBitsBelowFp32;
    return sign | kInfinity | (payload != 0 && hash % 2 == 0 ? low | 1 : payload);
  }
  const double value = decode(Format::fp32, magnitude);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t kind = hash % 32;
  if (kind < 8) return sign | bits;
  if (kind < 15) return sign | (bits + 1);
  if (kind < 22) return sign | (bits - 1);
  if (kind < 30) return sign | bits | low;
  return sign | std::bit_cast<std::uint64_t>(std::ldexp(value, kFar[hash >> 8 & 3]));
}

QuantizeProblem::QuantizeProblem(const Case& c) : Problem(c), input(drawn(c)) {
  if (c.gather != 0) gather(c.gather);
  if (c.col_stride != 0) lay_out();
  describe_outputs();
}

QuantizeProblem::QuantizeProblem(const Case& with, Input x) : Problem(with), input(std::move(x)) {
  if (c.col_stride != 0) c.set_contiguous();
  if (c.gather != 0) gather(std::max(c.gather, c.rows));
  describe_outputs();
}

QuantizeProblem::QuantizeProblem(const Call& call)
    : QuantizeProblem(case_of(call, call.inputs[0].dtype), matrix_of_call(call, case_of(call, call.inputs[0].dtype))) {}

void QuantizeProblem::describe_outputs() {
  const BlockShape block = blocks_of(std::as_const(c.variant)).block;
  const std::string& operation = c.variant.operation;
  if (operation != "quantize_dual") {
    outputs = {codes_info(c, "codes", block)};
    if (operation == "quantize") outputs.push_back(scales_info(c, "scales", block));
  } else {
    outputs = {codes_info(c, "row codes", block), scales_info(c, "row scales", block),
               codes_info(c, "column codes", block.transposed()), scales_info(c, "column scales", block.transposed())};
  }
}

void QuantizeProblem::gather(std::int64_t source_rows) {
  c.gather = source_rows;
  gathered = gather_from(input, c.seed, source_rows);
}

void QuantizeProblem::lay_out() {
  const std::size_t width = value_bytes(input.dtype);
  const std::int64_t rows = c.rows_of_x();
  if (rows * c.cols == 0) return;
  laid_out.assign(static_cast<std::size_t>((rows - 1) * c.stride + (c.cols - 1) * c.col_stride + 1) * width,
                  std::byte{0xFF});
  const std::byte* from = c.gather != 0 ? gathered.source.data() : input.bytes.data();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j, from += width)
      std::memcpy(laid_out.data() + static_cast<std::size_t>(i * c.stride + j * c.col_stride) * width, from, width);
  }
}

double QuantizeProblem::value_at(std::int64_t row, std::int64_t col) const {
  if (input.dtype != Format::fp64) return static_cast<double>(input.view().at(row, col));
  double value = 0;
  std::memcpy(&value, input.bytes.data() + static_cast<std::size_t>(row * input.stride + col) * sizeof(value),
              sizeof(value));
  return value;
}

std::vector<double> QuantizeProblem::values() const {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(c.elements()));
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) all.push_back(value_at(i, j));
  }
  return all;
}

// The input of a code, which is the relevant one: of FP64 the word that it was drawn in, and what FP32 makes of it.
void QuantizeProblem::explain_input(std::int64_t row, std::int64_t col, Finding& finding) const {
  const std::string x = "input     x" + place_text(row, col) + " = ";
  if (input.dtype != Format::fp64) {
    finding.element.push_back(x + notations(input.dtype, input.bits(row, col)));
    finding.relevant.push_back(input.plant(row, col));
    return;
  }
  const double value = value_at(row, col);
  finding.element.push_back(x +
                            fmt::format("0x{:016x} = {:a} = {}", std::bit_cast<std::uint64_t>(value), value, value));
  const std::uint32_t nearest = encode(Format::fp32, value, Rounding::nearest_even, Overflow::non_saturate);
  if (!std::isnan(value) && decode(Format::fp32, nearest) != value)
    finding.element.push_back("in FP32   " + notations(Format::fp32, nearest) + ", rounded");
  Case words = c;
  words.variant.dtype = Format::fp32, words.gather = 0;
  finding.relevant.push_back(expand(words).plant(row, col));
}

std::vector<ProblemInput> QuantizeProblem::inputs() const {
  const bool gathers = c.gather != 0;
  std::vector<ProblemInput> all{
      {values_tensor(c.variant.dtype, c.rows_of_x(), c.cols, input.stride, gathers ? gathered.source : input.bytes),
       {}}};
  if (c.col_stride != 0) {
    CallTensor& x = all[0].tensor;
    x.strides = {c.stride, c.col_stride};
    x.data = laid_out.data(), x.bytes = laid_out.size();
  }
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  if (gathers) all.push_back(vector_input("row_index", gathered.index));
  return all;
}

std::vector<ExpectedTensor> QuantizeProblem::answer() const {
  return answer(recipe_named(blocks_of(c.variant).recipe));
}

std::vector<ExpectedTensor> QuantizeProblem::answer(const Recipe& recipe) const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  if (input.dtype == Format::fp64)
    return {{outputs[0], to_bytes(cast(values(), v.format, recipe.rounding, recipe.overflow))}};
  if (c.variant.operation == "cast") return {{outputs[0], to_bytes(cast(input.view(), v.format, recipe))}};
  std::vector<ExpectedTensor> answer;
  const auto add_direction = [&](std::size_t at, BlockShape block) {
    QuantizedTensor q = quantize(input.view(), v.format, block, recipe, c.experts);
    answer.push_back({outputs[at], std::move(q.codes.data)});
    std::vector<std::uint8_t> scales = values_in<std::uint8_t>(q.scales().data);
    answer.push_back({outputs[at + 1], to_bytes(in_layout(c, scale_geometry(c, block), std::move(scales), v.layout))});
  };
  add_direction(0, v.block);
  if (outputs.size() == 4) add_direction(2, v.block.transposed());
  return answer;
}

// The rows of codes and scales as outputs number `at` and at + 1.
Table QuantizeProblem::definitions_of(std::size_t at, BlockShape block, std::span<const Bytes> observed) const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, block);
  const auto p = std::make_shared<BlocksProblem>();
  p->x = {"x", input.dtype, {c.rows, c.cols}, dense_rows(input)};
  p->element = v.format, p->block = block, p->recipe = recipe_named(v.recipe);
  p->pad_byte = blocks_case(c).pad, p->offsets = c.experts;
  p->expected = quantize(p->view(), v.format, block, p->recipe, c.experts);
  p->own_scales =
      tensor_of(Format::e8m0, {g.rows, g.cols}, to_compact(g, values_in<std::uint8_t>(observed[at + 1]), v.layout));
  p->own_codes = observed[at];
  Table rows = c.elements() <= kMostForSlips ? blocks_table(*p, at, at + 1) : recipe_rows(*p, at, at + 1);
  if (v.layout == MXCHECK_COMPACT) return owning(std::move(rows), p);
  for (Definition& row : rows) {
    row.bytes = [bytes = std::move(row.bytes), at, g, from = c](std::size_t output) {
      const Bytes plain = bytes(output);
      if (output != at + 1 || plain.empty()) return plain;
      return to_bytes(in_layout(from, g, values_in<std::uint8_t>(plain), MXCHECK_TCGEN05));
    };
  }
  for (Definition& row : layout_table(*p, ScaleLayout::tcgen05, at + 1)) {
    if (!row.derived) rows.push_back(std::move(row));  // the candidate's scales are known from this layout alone
  }
  return owning(std::move(rows), p);
}

Table QuantizeProblem::definitions(std::span<const Bytes> observed) const {
  if (c.elements() > kMostToMatch || input.bytes.empty()) return {};
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  if (c.variant.operation == "cast") {
    const auto all = std::make_shared<std::vector<double>>(values());
    return owning(cast_slips(v.format, recipe_named(v.recipe).overflow, *all, 0, input.dtype), all);
  }
  Table rows = definitions_of(0, v.block, observed);
  if (c.gather != 0 && c.elements() <= kMostForSlips) merge(rows, gathers());
  if (outputs.size() == 2) return rows;
  // A row of quantize_dual is about both directions.
  Table columns = definitions_of(2, v.block.transposed(), observed);
  merge(rows, std::move(columns));
  return rows;
}

// Other source rows.
Table QuantizeProblem::gathers() const {
  return gather_table(gathered, input, c.experts, [own = std::make_shared<QuantizeProblem>(*this)](Input x) {
    QuantizeProblem other = *own;
    other.input = std::move(x);
    std::vector<Bytes> bytes;
    for (ExpectedTensor& tensor : other.answer()) bytes.push_back(std::move(tensor.bytes));
    return bytes;
  });
}

std::vector<SavedTensor> QuantizeProblem::saved() const {
  if (input.bytes.empty()) return {};
  TensorInfo info;
  info.format = input.dtype, info.rows = input.rows, info.cols = input.stride;
  return {{"x", info, input.bytes}};
}

std::vector<std::size_t> QuantizeProblem::order() const {
  if (outputs.size() == 1) return {0};
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < outputs.size(); i += 2) order.insert(order.end(), {i + 1, i});
  return order;
}

}  // namespace mxcheck
