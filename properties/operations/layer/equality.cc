// The candidate's bytes are the reference's bytes.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/layer/expand.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

// Rows of 1024 columns: more elements than 20 bits count, where what quick draws has at most 18 bits of them. One
// variant of each kind is enough to show an index that wraps.
constexpr std::int64_t kBeyondAMillion = 1030;
constexpr std::int64_t kBeyond16Bits = 66'001;  // rows, for an index of rows

// Rows and columns that other cases meet by chance: those of models, and those beside powers of two.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 8> kSingleSizes{
    {{1025, 3}, {4097, 3}, {8192, 2}, {3, 192}, {3, 320}, {3, 384}, {2, 5120}, {2, 7168}}};

// Corner cases. Most of a thousand variants differ by recipe, format and block alone: in quick only usual ones get all.
std::vector<Case> swiglu_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&](std::int64_t rows, std::int64_t cols, Data data, std::vector<std::int64_t> experts = {}) {
    cases.push_back(step_corner(v, rows, cols, data, cases.size() + 1));
    cases.back().experts = std::move(experts);
  };
  add(35, 33, Data::boundaries, {0, 0, 2, 35});
  if (suite == Suite::quick && writes_codes(v) && !is_usual(v)) return cases;
  add(0, 5, Data::zeros);
  add(3, 0, Data::zeros, {0, 3});
  add(1, 1, Data::normal);
  add(129, 48, Data::normal, {0, 0, 31, 63, 96, 96, 129});
  add(33, 129, Data::slots, {0, 33, 33});
  add(40, 64, Data::codes, {0, 1, 2, 3, 40});
  add(64, 100, Data::specials);
  add(31, 31, Data::bits);
  add(33, 65, Data::wide, {0, 16, 33});
  add(96, 65, Data::sparse, {0, 64, 96});
  add(257, 2, Data::specials, {0, 128, 257});
  if (!has_coded_h(v)) cases[4].stride = 51;
  if (!writes_codes(v) && !has_coded_h(v)) {
    // An operation in another order differs in the last FP32 bits, which BF16 shows of one element in some ten
    // thousand.
    add(512, 400, Data::normal);
    // Gates that are negative, up values of +0: sums of -0 alone, to which a row of 3, 5 or 7 adds +0 (dS).
    for (const std::int64_t cols : {3, 5, 7}) {
      add(12, cols, Data::every_row);
      layer_case(cases.back()).first_col = 17;
    }
  }
  const bool columns_alone = layer_of(v).outputs == MXCHECK_COLUMNS_CODED && is_usual(v);
  const bool has_large =
      layer_of(v).gate_up == MXCHECK_HALVES && !has_coded_h(v) && (!writes_codes(v) || columns_alone);
  if (has_large) {
    add(kBeyondAMillion, 1024, Data::normal);
    add(kBeyond16Bits, 3, Data::normal);
  }
  if (suite != Suite::quick) {
    add(257, 300, Data::boundaries, {0, 0, 127, 128, 256, 257});
    add(33, 768, Data::real);
  }
  if (!has_large) return cases;
  for (const auto& [rows, cols] : kSingleSizes) add(rows, cols, Data::normal);
  for (const std::vector<std::int64_t>& experts : {std::vector<std::int64_t>{0, 128, 256}, {0, 129, 130}})
    add(experts.back(), 9, Data::normal, experts);
  std::vector<std::int64_t> many{0};  // of 0 to 2 rows
  for (std::int64_t e = 0; e < 160; ++e) many.push_back(many.back() + e % 3);
  add(many.back(), 5, Data::normal, many);
  return cases;
}

// Under this seed the first tokens have as many slots as there may be.
constexpr std::uint64_t kSeedOfMostSlots = 18;
constexpr std::int64_t kTokensWithMostSlots = 5;

std::vector<Case> aggregate_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&](std::int64_t rows, std::int64_t cols, Data data, std::int64_t y, std::int64_t most, int drops) {
    cases.push_back(step_corner(v, rows, cols, data, cases.size() + 1));
    LayerCase& own = layer_case(cases.back());
    own.y_rows = y, own.most = most, own.drops = drops;
  };
  add(0, 5, Data::zeros, 3, 2, 0);
  add(3, 0, Data::zeros, 3, 2, 0);
  add(5, 7, Data::normal, 0, 3, 0);  // every route was dropped
  add(7, 3, Data::normal, 5, 0, 0);  // and there was none
  add(1, 1, Data::boundaries, 1, 1, 0);
  for (const Data data : {Data::normal, Data::boundaries, Data::slots, Data::specials, Data::bits, Data::wide,
                          Data::codes, Data::sparse}) {
    add(33, 65, data, 100, 8, 10);
    add(130, 33, data, 60, 3, 0);  // rows that several tokens have
  }
  add(9, 300, Data::boundaries, 500, 64, 50);
  if (layer_of(v).weighted) add(300, 1024, Data::normal, kBeyondAMillion, 8, 10);
  if (suite != Suite::quick) {
    add(1031, 768, Data::normal, 8248, 8, 0);
    add(300, 129, Data::boundaries, 700, 200, 5);
  }
  // Single sizes, which others meet by chance: of tokens, and of models whose tokens have as many slots each.
  for (const std::int64_t tokens : {65, 257, 512, 1025, 2048, 4097, 8192}) add(tokens, 3, Data::normal, 100, 2, 0);
  for (const auto& [cols, slots] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {7168, 8}, {4096, 8}, {128, 2}, {768, 4}, {64, 10}, {64, 16}, {33, 256}}) {
    add(kTokensWithMostSlots, cols, Data::normal, slots * kTokensWithMostSlots, slots, 0);
    cases.back().seed = kSeedOfMostSlots;
  }
  return cases;
}

std::vector<Case> transposed_corners(const Variant& v, Suite suite) {
  const ScaledBlocksVariant& own = blocks_of(v);
  const std::int64_t block = own.block.rows;
  Case grouped = blocks_corner(v, block + 3, 33, Data::boundaries, 1);
  grouped.experts = {0, 0, 2, block + 3};
  const bool usual = own.recipe == "rceil" && (own.format == Format::e4m3 || own.format == Format::e5m2);
  if (suite == Suite::quick && !usual) return {grouped};
  std::vector<Case> cases = usual_corners(v, suite);
  if (suite == Suite::quick) std::erase_if(cases, [](const Case& c) { return c.elements() > 100'000; });
  cases.push_back(grouped);
  Case gathered = blocks_corner(v, 2 * block + 1, 35, Data::slots, 2);
  gathered.gather = block;  // rows come twice
  cases.push_back(gathered);
  gathered.gather = 3 * block, gathered.experts = {0, 1, block, 2 * block + 1}, gathered.stride = 40;
  cases.push_back(gathered);
  if (own.recipe == "rceil" && own.format == Format::e4m3 && block == 32)
    cases.push_back(blocks_corner(v, kBeyondAMillion, 1024, Data::normal, 3));
  if (own.recipe == "rceil" && own.format == Format::e4m3) {  // single sizes, which others meet by chance
    for (const auto& [rows, cols] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
             {191, 257}, {3, 320}, {1025, 5}, {4097, 3}, {256, 33}})
      cases.push_back(blocks_corner(v, rows, cols, Data::normal, 4));
    cases.back().experts = {0, 128, 256};
  }
  for (Case& c : cases) blocks_case(c).pad = 0;
  return cases;
}

Statement equality(std::string_view name, std::string_view operation, std::string_view sentence,
                   std::vector<Case> (*corners)(const Variant&, Suite)) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/layer.md; kernels/candidate_layer.h";
  s.applies = [operation](const Variant& v, std::span<const Variant>) { return v.operation == operation; };
  s.data = {Data::normal,   Data::boundaries, Data::boundaries, Data::codes,  Data::slots,
            Data::specials, Data::bits,       Data::wide,       Data::sparse, Data::real};
  s.experts = 50;
  s.check = equals_the_reference;
  s.corners = corners;
  s.covers_pairs = true;
  return s;
}

// Each special gate with each special up value, and in rows each special gradient with each special weight.
std::vector<Case> special_products(const Variant& v, Suite suite) {
  const bool plain = !writes_codes(v);
  if (!plain && suite == Suite::quick && !(is_usual(v) && layer_of(v).gate_up == MXCHECK_HALVES)) return {};
  return {step_corner(v, is_backward(v) ? kSpecialRows : plain ? 2 : 33, kSpecialCols, Data::every_row, 1)};
}

// All 65,536, in rows of 256; in halves of the matrix other up values.
std::vector<Case> every_gate(const Variant& v, Suite suite) {
  std::vector<Case> cases{step_corner(v, 256, 256, Data::every_word, 0)};
  if (suite == Suite::quick) return cases;
  for (const std::uint64_t seed : {37U, 74U, 111U}) cases.push_back(step_corner(v, 256, 256, Data::every_word, seed));
  return cases;
}

Statement enumerated(std::string_view name, std::string_view sentence,
                     std::vector<Case> (*corners)(const Variant&, Suite)) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "reference/layer/swiglu.h";
  s.check = equals_the_reference;
  s.corners = corners;
  return s;
}

}  // namespace

std::vector<Statement> step_equality_statements() {
  std::vector<Statement> s{
      equality("swiglu_equals_the_reference", "swiglu",
               "A, its codes and scales along rows and, transposed, along tokens are the reference's", swiglu_corners),
      equality("swiglu_backward_equals_the_reference", "swiglu_backward",
               "dS, A' and dH, their codes and scales along rows and along tokens are the reference's", swiglu_corners),
      equality("aggregate_equals_the_reference", "aggregate",
               "each token has its rows added up in the order of its slots, to the reference's bits",
               aggregate_corners),
      equality("quantize_transposed_equals_the_reference", "quantize_transposed",
               "codes and scales of blocks along tokens are the transposes of the reference's", transposed_corners),
      enumerated("every_bf16_gate_is_activated_as_the_reference",
                 "each of the 65,536 BF16 gates gives the reference's A and gradients", every_gate),
      enumerated("special_gates_values_gradients_and_weights_meet_as_in_the_reference",
                 "each special gate with each special up value, gradient and weight gives the reference's bits",
                 special_products),
  };
  s[2].experts = 0;  // of aggregate
  s[4].applies = [](const Variant& v, std::span<const Variant>) {
    return promises_bits(v) && is_swiglu(v) && !writes_codes(v) && !has_coded_h(v);
  };
  s[5].applies = [](const Variant& v, std::span<const Variant>) {
    return promises_bits(v) && is_swiglu(v) && !has_coded_h(v);
  };
  return s;
}

// The part of a counterexample that a person reads first: gate and up value, each step of the formula, and of codes the
// block.

namespace {

using What = SwigluOutput::What;
using Part = SwigluOutput::Part;

std::string fp32(float value) { return notations(Format::fp32, std::bit_cast<std::uint32_t>(value)); }

// Rows [row, end_row), columns [col, end_col) of the tensor before it was transposed.
struct Place {
  std::int64_t row, end_row, col, end_col;
};

// The block of a code or a scale, which starts again at its expert.
Place block_of(const SwigluProblem& p, const SwigluOutput& o, const Difference::Element& e, std::int64_t cols) {
  const std::int64_t block = layer_of(p.c.variant).block;
  if (!o.transposed) {
    const std::int64_t first = o.part == Part::scales ? e.col * block : e.col / block * block;
    return {e.row, e.row + 1, first, std::min(cols, first + block)};
  }
  const std::vector<std::int64_t> ends = p.c.experts.empty() ? std::vector<std::int64_t>{0, p.c.rows} : p.c.experts;
  std::int64_t number = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    for (std::int64_t row = ends[i - 1]; row < ends[i]; row += block, ++number) {
      const std::int64_t end = std::min(ends[i], row + block);
      if (o.part == Part::scales ? number == e.col : e.col >= row && e.col < end) return {row, end, e.row, e.row + 1};
    }
  }
  return {0, 0, e.row, e.row + 1};
}

void explain_gate(const SwigluProblem& p, const SwigluOutput& o, std::int64_t row, std::int64_t col, Finding& finding) {
  const std::int64_t n = p.c.cols;
  const bool of_dh = o.what == What::dh;
  const bool halves = layer_of(p.c.variant).gate_up == MXCHECK_HALVES;
  const std::int64_t j = !of_dh ? col : halves ? col % n : col / 2;
  const bool is_up = of_dh && col == p.up_column(j);
  const std::vector<float> h = p.values_of_h();
  const float g = h[static_cast<std::size_t>(row * 2 * n + p.gate_column(j))];
  const float u = h[static_cast<std::size_t>(row * 2 * n + p.up_column(j))];
  const float q = swiglu_sigmoid(g);
  const float a = std::bit_cast<float>(std::uint32_t{layer_bf16(swiglu(g, u))} << 16);
  const auto add = [&](std::string line) { finding.element.push_back(std::move(line)); };
  add(fmt::format("input     g = h({}, {}) = {}", row, p.gate_column(j), fp32(g)));
  add(fmt::format("input     u = h({}, {}) = {}", row, p.up_column(j), fp32(u)));
  add("sigmoid   q = " + fp32(q));
  if (!is_backward(p.c.variant)) return add("value     a = " + fp32(a) + ", in BF16");
  const float gradient = p.p[static_cast<std::size_t>(row * n + j)];
  const float weight = p.weights[static_cast<std::size_t>(row)];
  add(fmt::format("input     p({}, {}) = {}", row, j, fp32(gradient)));
  add(fmt::format("input     weight({}) = {}", row, fp32(weight)));
  if (!of_dh) return add("value     a = " + fp32(a) + ", in BF16; weight * a = " + fp32(weight * a));
  const SwigluGradient d = swiglu_gradient(g, u, weight * gradient);
  add("value     dA = " + fp32(weight * gradient) +
      (is_up ? "; du = dA * RN(g * q) = " + fp32(d.du)
             : "; dg = dA * RN(u * RN(q * fma(g, RN(1 - q), 1))) = " + fp32(d.dg)));
}

// The block's amax, of the values that the reference coded.
void explain_block(const SwigluProblem& p, const SwigluOutput& o, const Place& b, Format format, Finding& finding) {
  SwigluProblem values = p;  // the same with its tensors in BF16
  layer_of(values.c.variant).outputs = MXCHECK_VALUES;
  values.describe_outputs();
  const std::vector<SwigluOutput> made_of = swiglu_outputs(values.c.variant);
  const std::vector<ExpectedTensor> answer = values.answer();
  BlockAmax amax;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (made_of[i].what != o.what) continue;
    const auto words = values_in<std::uint16_t>(answer[i].bytes);
    for (std::int64_t row = b.row; row < b.end_row; ++row) {
      for (std::int64_t col = b.col; col < b.end_col; ++col) {
        const std::uint16_t word = words[static_cast<std::size_t>(row * answer[i].info.cols + col)];
        const auto value = std::bit_cast<float>(std::uint32_t{word} << 16);
        if (std::isnan(value)) amax.has_nan = true;
        if (std::fabs(value) > amax.amax) amax.amax = std::fabs(value);
      }
    }
  }
  finding.element.push_back(fmt::format("block     rows {} to {}, columns {} to {}; amax {}{}", b.row, b.end_row - 1,
                                        b.col, b.end_col - 1, fp32(amax.amax), amax.has_nan ? "; it holds a NaN" : ""));
  const BlockScale scale = block_scale(recipe_named(layer_of(p.c.variant).recipe), format, amax);
  finding.element.push_back("scale     " + notations(static_cast<double>(scale.scale)) + " by the reference");
}

}  // namespace

void SwigluProblem::explain(std::size_t output, Finding& finding) const {
  const SwigluOutput o = swiglu_outputs(c.variant)[output];
  const Difference::Element& e = finding.difference->first;
  if (o.what == What::ds) {
    finding.element.push_back(fmt::format("row       {}: the pairwise sum of RN(p * a) over {} columns; weight {}",
                                          e.col, c.cols, fp32(weights[static_cast<std::size_t>(e.col)])));
    finding.relevant.push_back({e.col, -1, 0});
  } else if (o.part == Part::values) {
    explain_gate(*this, o, e.row, e.col, finding);
    const std::int64_t j = o.what != What::dh                              ? e.col
                           : layer_of(c.variant).gate_up == MXCHECK_HALVES ? e.col % c.cols
                                                                           : e.col / 2;
    finding.relevant.push_back({e.row, j, 0});
  } else {
    const Place b = block_of(*this, o, e, o.what == What::dh ? 2 * c.cols : c.cols);
    if (o.part == Part::codes)
      explain_gate(*this, o, o.transposed ? e.col : e.row, o.transposed ? e.row : e.col, finding);
    explain_block(*this, o, b, outputs[o.part == Part::codes ? output : output - 1].format, finding);
    finding.relevant.push_back({b.row, o.what == What::dh ? -1 : b.col, 0});
  }
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

// quantize_transposed: the fields, cases and domain of the operations on scaled blocks, with outputs along tokens.

namespace {

Case without_gather(Case c) {
  c.gather = 0;
  return c;
}

}  // namespace

const Operation& quantize_transposed_operation() {
  ScaledBlocksTraits traits{"quantize_transposed"};
  traits.can_be_asked = [](const Variant& v) {
    const ScaledBlocksVariant& own = blocks_of(v);
    return own.block.cols == 1 && own.layout == MXCHECK_COMPACT && v.dtype != Format::fp16;
  };
  traits.invalid_calls = invalid_transposes;
  traits.depends_on_recipe = traits.takes_fp32_scales = true;
  traits.any_nan_is_equal = true;  // of FP32 scales
  traits.is_transposed = true;
  traits.has_row_index_on_host = true;
  // The codes and scales are computed as in quantize: its own are the places.
  traits.usual_in_quick = std::int64_t{1} << 18;
  static const OperationOf<TransposedProblem, ScaledBlocksOperation> kOperation(traits);
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

namespace {
constexpr std::int64_t kMostCodes = 1'000'000;  // elements: each row of the table computes an answer
}  // namespace

TransposedProblem::TransposedProblem(const Call& call) : Problem(case_of(call, input_number(call, 0).dtype)) {
  const CallTensor& first = input_number(call, 0);
  if (first.shape.size() != 2) throw Error(ErrorKind::usage, "x is a matrix");
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

std::vector<ProblemInput> TransposedProblem::inputs() const {
  std::vector<ProblemInput> all{
      {values_tensor(x.dtype, x.rows, x.cols, x.stride, x.bytes), values_info("x", x.dtype, x.rows, x.stride)}};
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  if (c.gather != 0) all.push_back(vector_input("row_index", index));
  return all;
}

std::vector<ExpectedTensor> TransposedProblem::answer() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const Input matrix = gathered();
  CodedBytes coded = coded_columns(matrix.view(), v.format, recipe_named(v.recipe), v.block.rows, c.experts);
  return {{outputs[0], std::move(coded.codes)}, {outputs[1], std::move(coded.scales)}};
}

Table TransposedProblem::definitions(std::span<const Bytes> observed) const {
  if (c.elements() == 0 || c.elements() > kMostCodes) return {};
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const Input matrix = gathered();
  const std::size_t line = static_cast<std::size_t>(c.cols) * value_bytes(matrix.dtype);
  BlocksProblem p;
  p.x = {"x", matrix.dtype, {c.rows, c.cols}, {}};
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const auto from =
        matrix.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * matrix.row_bytes());
    p.x.data.insert(p.x.data.end(), from, from + static_cast<std::ptrdiff_t>(line));
  }
  p.element = v.format, p.block = v.block, p.recipe = recipe_named(v.recipe), p.offsets = c.experts;
  return coded_table(std::move(p), true, 0, 1, observed);
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

}  // namespace mxcheck
