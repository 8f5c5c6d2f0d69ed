// Laws of swiglu and its gradient that hold whatever the reference says: the candidate's outputs are held against each
// other.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {
namespace {

using What = SwigluOutput::What;
using Part = SwigluOutput::Part;

// The variant with these outputs, its other fields those that such a one has.
Variant with_outputs(Variant v, int outputs) {
  LayerVariant own = layer_of(v);
  own.outputs = outputs;
  layer_of(v) = own;
  if (!writes_codes(v)) {
    layer_of(v) = {};
    layer_of(v).gate_up = own.gate_up, layer_of(v).outputs = outputs;
  } else if (!has_scaled_format(v)) {
    layer_of(v).scaled = LayerVariant{}.scaled;
  }
  return v;
}

// The same tensors, of which these outputs are asked for.
SwigluProblem with_outputs(SwigluProblem p, int outputs) {
  p.c.variant = with_outputs(p.c.variant, outputs);
  p.describe_outputs();
  return p;
}

std::vector<int> kinds_of(const Variant& v) {
  std::vector<int> kinds;
  for (const int what : {MXCHECK_VALUES, MXCHECK_ROWS_CODED, MXCHECK_COLUMNS_CODED}) {
    if (writes(v, what)) kinds.push_back(what);
  }
  return kinds;
}

const Bytes* output_of(const Variant& v, const Law::Outputs& got, const SwigluOutput& wanted) {
  const std::vector<SwigluOutput> made_of = swiglu_outputs(v);
  const auto at = std::find(made_of.begin(), made_of.end(), wanted);
  return at == made_of.end() ? nullptr : &got[static_cast<std::size_t>(at - made_of.begin())];
}

void together_as_alone(const Law& law, const Case& c) {
  const SwigluProblem together(c);
  const Law::Outputs all = law.outputs(together);
  for (const int what : kinds_of(c.variant)) {
    const SwigluProblem alone = with_outputs(together, what);
    const Law::Outputs one = law.outputs(alone);
    const std::vector<SwigluOutput> made_of = swiglu_outputs(alone.c.variant);
    for (std::size_t i = 0; i < made_of.size(); ++i) {
      law.equal(alone.outputs[i], one[i], *output_of(c.variant, all, made_of[i]),
                alone.outputs[i].name + " asked for with other outputs are not those asked for alone");
    }
  }
}

// Each code and scale against the candidate's own values, which the reference quantizes.
void codes_of_values(const Law& law, const Case& c) {
  const SwigluProblem coded(c);
  const Law::Outputs codes = law.outputs(coded);
  const SwigluProblem plain = with_outputs(coded, MXCHECK_VALUES);
  const Law::Outputs values = law.outputs(plain);
  const LayerVariant& v = layer_of(c.variant);
  const Recipe recipe = recipe_named(v.recipe);
  const std::vector<SwigluOutput> made_of = swiglu_outputs(c.variant);
  for (std::size_t i = 0; i < made_of.size(); ++i) {
    const SwigluOutput& o = made_of[i];
    if (o.part != Part::codes) continue;
    const std::int64_t cols = o.what == What::dh ? 2 * c.cols : c.cols;
    const Bytes& words = *output_of(plain.c.variant, values, {o.what, Part::values, false});
    const MatrixView view{Format::bf16, words.data(), c.rows, cols, cols};
    const Format format = coded.outputs[i].format;
    const CodedBytes want = o.transposed ? coded_columns(view, format, recipe, v.block, c.experts)
                                         : coded_rows(view, format, recipe, v.block);
    const std::string of = " are not those of the values that the candidate gives";
    law.equal(coded.outputs[i + 1], want.scales, codes[i + 1], coded.outputs[i + 1].name + of);
    law.equal(coded.outputs[i], want.codes, codes[i], coded.outputs[i].name + of);
  }
}

template <class T>
void rotate_rows(std::vector<T>& values, std::int64_t rows, std::int64_t by) {
  if (rows == 0) return;
  const std::int64_t line = std::ssize(values) / rows;
  std::rotate(values.begin(), values.begin() + by * line, values.end());
}
template <class T>
void copy_row(std::vector<T>& to, const std::vector<T>& from, std::int64_t rows, std::int64_t row) {
  const std::int64_t line = std::ssize(to) / rows;
  std::copy_n(from.begin() + row * line, line, to.begin() + row * line);
}

bool is_replaced(std::int64_t row) { return row % 3 == 1; }

// Rows moved a third of the way round, and every third of them another one.
void rows_alone(const Law& law, const Case& c) {
  if (c.rows < 2) law.says_nothing();
  const SwigluProblem p(c);
  const Law::Outputs before = law.outputs(p);
  Case others = c;
  others.seed = mix64(c.seed), others.data = Data::specials;
  const SwigluProblem replacing(others);
  SwigluProblem moved = p;
  const std::int64_t by = 1 + c.rows / 3;
  const auto change = [&](auto member) {
    if ((moved.*member).empty()) return;
    rotate_rows(moved.*member, c.rows, by);
    for (std::int64_t i = 0; i < c.rows; ++i) {
      if (is_replaced(i)) copy_row(moved.*member, replacing.*member, c.rows, i);
    }
  };
  change(&SwigluProblem::h), change(&SwigluProblem::h_codes), change(&SwigluProblem::h_scales);
  change(&SwigluProblem::p), change(&SwigluProblem::weights);
  const Law::Outputs after = law.outputs(moved);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    Bytes want = rotated(before[i], c.rows, by);
    for (std::int64_t row = 0; row < c.rows; ++row) {
      if (is_replaced(row)) copy_row(want, after[i], c.rows, row);
    }
    law.equal(p.outputs[i], want, after[i],
              p.outputs[i].name + " of a row are others where it stands elsewhere among other rows");
  }
}

// Gate and up value (i, j) of a case are the same in either order.
void either_order(const Law& law, const Case& c) {
  Case halves = c;
  layer_of(halves.variant).gate_up = MXCHECK_HALVES;
  const SwigluProblem p(halves);
  const Law::Outputs by_halves = law.outputs(p);
  const Law::Outputs interleaved = law.outputs(SwigluProblem(c));
  const std::vector<SwigluOutput> made_of = swiglu_outputs(c.variant);
  for (std::size_t i = 0; i < made_of.size(); ++i) {
    const bool of_dh = made_of[i].what == What::dh;
    if (of_dh && !made_of[i].transposed && made_of[i].part != Part::values) continue;  // blocks of other columns
    Bytes got = interleaved[i];
    if (of_dh && c.cols != 0)
      got = in_halves(got, c.cols, made_of[i].transposed ? got.size() / static_cast<std::size_t>(2 * c.cols) : 2);
    law.equal(p.outputs[i], by_halves[i], got,
              p.outputs[i].name + " of an interleaved h are not those of the same h in halves");
  }
}

constexpr int kExponent = 7;  // where it begins in BF16

int exponent_of(std::uint16_t word) { return word >> kExponent & 0xFF; }

void scaled_up_value(const Law& law, const Case& c) {
  const int k = 1 + static_cast<int>(c.seed % 8);
  const SwigluProblem p(c);
  const Law::Outputs before = law.outputs(p);
  SwigluProblem other = p;
  const std::int64_t stride = stride_of_h(c);
  const auto word_of_up = [&](std::int64_t i, std::int64_t j) -> std::uint16_t& {
    return other.h[static_cast<std::size_t>(i * stride + other.up_column(j))];
  };
  const auto is_exact = [&](std::uint16_t word) { return exponent_of(word) >= 1 && exponent_of(word) + k < 0xFF; };
  std::vector<bool> moved;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      std::uint16_t& up = word_of_up(i, j);
      moved.push_back(is_exact(up));
      if (moved.back()) up = static_cast<std::uint16_t>(up + (k << kExponent));
    }
  }
  const Law::Outputs after = law.outputs(other);
  auto want = values_in<std::uint16_t>(after[0]);
  const auto was = values_in<std::uint16_t>(before[0]);
  std::int64_t claimed = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    // Not where a product is subnormal or too large.
    if (!moved[i] || exponent_of(was[i]) < 16 || exponent_of(was[i]) > 240) continue;
    want[i] = static_cast<std::uint16_t>(was[i] + (k << kExponent)), ++claimed;
  }
  if (claimed == 0) law.says_nothing();
  law.equal(p.outputs[0], to_bytes(want), after[0],
            fmt::format("A of 2^{} times the up values is not 2^{} times A", k, k));
}

bool asks_together(const Variant& v, std::span<const Variant> all) {
  const std::vector<int> kinds = is_swiglu(v) ? kinds_of(v) : std::vector<int>{};
  return kinds.size() > 1 &&
         std::all_of(kinds.begin(), kinds.end(), [&](int what) { return offers(all, with_outputs(v, what)); });
}
bool has_values_too(const Variant& v, std::span<const Variant> all) {
  return writes_codes(v) && offers(all, with_outputs(v, MXCHECK_VALUES));
}
bool is_by_rows(const Variant& v, std::span<const Variant>) {
  return is_swiglu(v) && !writes(v, MXCHECK_COLUMNS_CODED);
}
bool has_either_order(const Variant& v, std::span<const Variant> all) {
  if (!is_swiglu(v) || layer_of(v).gate_up != MXCHECK_INTERLEAVED || has_coded_h(v)) return false;
  Variant halves = v;
  layer_of(halves).gate_up = MXCHECK_HALVES;
  return offers(all, halves);
}
bool gives_a(const Variant& v, std::span<const Variant>) {
  return is_swiglu(v) && !is_backward(v) && !writes_codes(v) && !has_coded_h(v);
}

}  // namespace

std::vector<Statement> swiglu_law_statements() {
  std::vector<Statement> s{
      step_law("outputs_asked_together_are_those_asked_alone",
               "values, codes along rows and codes along tokens from one call are those of three calls", asks_together,
               together_as_alone),
      step_law("codes_of_a_step_are_those_of_its_values",
               "codes and scales are those that the reference makes of the values in BF16 that the candidate gives",
               has_values_too, codes_of_values),
      step_law("a_row_of_a_step_depends_on_itself_alone",
               "values, codes along rows and dS of a row are the same wherever it stands and whatever other rows hold",
               is_by_rows, rows_alone),
      step_law("interleaved_and_in_halves_give_the_same",
               "H with its columns in the other order gives the same A and dS, and dH in that order", has_either_order,
               either_order),
      step_law("powers_of_two_pass_from_the_up_value_to_a",
               "2^k times the up values gives 2^k times A where nothing overflows or is subnormal", gives_a,
               scaled_up_value),
  };
  s[2].experts = 0;
  s[4].data = {Data::normal, Data::slots, Data::boundaries, Data::wide};
  return s;
}

// Laws of aggregation that hold whatever the reference says: the candidate's outputs are held against each other.

namespace {

// The outputs of both are the same.
void same(const Law& law, const AggregateProblem& one, const AggregateProblem& other, const char* what) {
  const Law::Outputs a = law.outputs(one);
  const Law::Outputs b = law.outputs(other);
  law.equal(one.outputs[0], a[0], b[0], what);
}

void tokens_permuted(const Law& law, const Case& c) {
  if (c.rows < 2) law.says_nothing();
  const AggregateProblem p(c);
  const Law::Outputs before = law.outputs(p);
  const std::int64_t by = 1 + c.rows / 3;
  AggregateProblem moved = p;
  moved.slots = {{0}, {}};
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const auto from = static_cast<std::size_t>((t + by) % c.rows);
    const auto first = p.slots.token_rows.begin();
    moved.slots.token_rows.insert(moved.slots.token_rows.end(), first + p.slots.token_offsets[from],
                                  first + p.slots.token_offsets[from + 1]);
    moved.slots.token_offsets.push_back(std::ssize(moved.slots.token_rows));
  }
  const Law::Outputs after = law.outputs(moved);
  law.equal(p.outputs[0], rotated(before[0], c.rows, by), after[0], "o of tokens that moved is another");
}

void without_dropped(const Law& law, const Case& c) {
  const AggregateProblem p(c);
  AggregateProblem less = p;
  less.slots = {{0}, {}};
  for (std::size_t t = 0; t + 1 < p.slots.token_offsets.size(); ++t) {
    for (std::int64_t slot = p.slots.token_offsets[t]; slot < p.slots.token_offsets[t + 1]; ++slot) {
      const std::int32_t row = p.slots.token_rows[static_cast<std::size_t>(slot)];
      if (row >= 0) less.slots.token_rows.push_back(row);
    }
    less.slots.token_offsets.push_back(std::ssize(less.slots.token_rows));
  }
  if (less.slots.token_rows.size() == p.slots.token_rows.size()) law.says_nothing();
  same(law, p, less, "o is another where slots that were dropped are left out");
}

// Rows of y that no slot names, and their weights, made NaN.
void unused_rows(const Law& law, const Case& c) {
  const AggregateProblem p(c);
  std::vector<bool> used(static_cast<std::size_t>(layer_case(c).y_rows));
  for (const std::int32_t row : p.slots.token_rows) {
    if (row >= 0) used[static_cast<std::size_t>(row)] = true;
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) law.says_nothing();
  AggregateProblem other = p;
  for (std::size_t row = 0; row < used.size(); ++row) {
    if (used[row]) continue;
    const auto first = other.y.begin() + static_cast<std::ptrdiff_t>(row) * c.cols;
    std::fill(first, first + c.cols, std::uint16_t{0x7FC0});
    if (!other.weights.empty()) other.weights[row] = std::numeric_limits<float>::quiet_NaN();
  }
  same(law, p, other, "o is another where rows of y that no token has hold NaN");
}

void weights_of_one(const Law& law, const Case& c) {
  AggregateProblem weighted(c);
  std::fill(weighted.weights.begin(), weighted.weights.end(), 1.0F);
  AggregateProblem plain = weighted;
  plain.weights.clear();
  layer_of(plain.c.variant).weighted = false;
  same(law, plain, weighted, "o with weights of 1 is not that without weights");
}

bool aggregates(const Variant& v, std::span<const Variant>) { return is_aggregate(v); }
bool has_both(const Variant& v, std::span<const Variant> all) {
  if (!is_aggregate(v) || !layer_of(v).weighted) return false;
  Variant plain = v;
  layer_of(plain).weighted = false;
  return offers(all, plain);
}

}  // namespace

std::vector<Statement> aggregate_law_statements() {
  std::vector<Statement> s{
      step_law("permuting_tokens_permutes_o", "o of a token does not depend on where it stands among others",
               aggregates, tokens_permuted),
      step_law("a_dropped_slot_is_as_one_that_is_absent", "slots of -1 add nothing and may as well be left out",
               aggregates, without_dropped),
      step_law("rows_that_no_token_has_change_nothing",
               "what y and weights hold in rows that no slot names is not read", aggregates, unused_rows),
      step_law("weights_of_one_add_up_as_none", "o with weights of 1 is o without weights", has_both, weights_of_one),
  };
  for (Statement& one : s) one.experts = 0;
  return s;
}

// Laws of blocks along tokens that hold whatever the reference says: blocks end with their expert.

namespace {

std::int64_t swiglu_laws_block_of(const Variant& v) {
  return is_transpose(v) ? blocks_of(v).block.rows : layer_of(v).block;
}

// The same with empty experts before, between and after those that there are.
std::vector<std::int64_t> with_empty_experts(const Case& c) {
  const std::vector<std::int64_t> ends = c.experts.empty() ? std::vector<std::int64_t>{0, c.rows} : c.experts;
  std::vector<std::int64_t> all{0};
  for (const std::int64_t end : ends) all.insert(all.end(), 1 + static_cast<std::size_t>(c.seed % 2), end);
  all.push_back(c.rows);
  return all;
}

void empty_experts(const Law& law, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const Law::Outputs before = law.outputs(*p);
  Case more = c;
  more.experts = with_empty_experts(c);
  const Law::Outputs after = law.outputs(*make_problem(more));
  law.all_equal(*p, before, after, "are others with experts that have no rows");
}

// Columns [first, first + count) of a tensor of `cols` columns, whose lines are all that is known of it.
Bytes columns_of(const Bytes& from, const TensorInfo& info, std::int64_t first, std::int64_t count) {
  const auto element = static_cast<std::int64_t>(bytes_of_element(info));
  Bytes to;
  for (std::int64_t i = 0; i < info.rows; ++i) {
    const auto begin = from.begin() + (i * info.cols + first) * element;
    to.insert(to.end(), begin, begin + count * element);
  }
  return to;
}

// The rows [first, first + rows) as a problem of their own.
std::unique_ptr<Problem> alone(const Case& c, std::int64_t first, std::int64_t rows) {
  Case one = c;
  one.experts.clear(), one.rows = rows;
  if (!is_transpose(c.variant)) {
    layer_case(one).first_row += first;
    return std::make_unique<SwigluProblem>(one);
  }
  auto p = std::make_unique<TransposedProblem>(c);
  const Input all = p->gathered();
  const auto line = static_cast<std::ptrdiff_t>(all.row_bytes());
  p->c = one, p->c.gather = 0, p->index.clear();
  p->x = all, p->x.rows = rows;
  p->x.bytes.assign(all.bytes.begin() + first * line, all.bytes.begin() + (first + rows) * line);
  p->describe_outputs();
  return p;
}

void expert_alone(const Law& law, const Case& c) {
  if (c.experts.size() < 3) law.says_nothing();
  const std::unique_ptr<Problem> p = make_problem(c);
  const Law::Outputs all = law.outputs(*p);
  const auto rows_of = [&](std::size_t e) { return c.experts[e + 1] - c.experts[e]; };
  std::size_t largest = 0;
  for (std::size_t e = 1; e + 1 < c.experts.size(); ++e) {
    if (rows_of(e) > rows_of(largest)) largest = e;
  }
  const std::int64_t first = c.experts[largest];
  const std::int64_t block = swiglu_laws_block_of(c.variant);
  const std::int64_t scales_before = scales_along_rows(first, block, std::span(c.experts).first(largest + 1));
  const std::unique_ptr<Problem> one = alone(c, first, rows_of(largest));
  const Law::Outputs got = law.outputs(*one);
  for (std::size_t i = 0; i < p->outputs.size(); ++i) {
    const TensorInfo& info = p->outputs[i];
    if (info.name.find("transposed") == std::string::npos) continue;
    const bool is_codes = info.name.find("codes") != std::string::npos;
    const Bytes part = columns_of(all[i], info, is_codes ? first : scales_before, one->outputs[i].cols);
    law.equal(one->outputs[i], got[i], part, info.name + " of an expert among others are not those of it alone");
  }
}

bool has_offsets(const Variant& v, std::span<const Variant>) { return is_swiglu(v) || is_transpose(v); }
bool is_along_tokens(const Variant& v, std::span<const Variant>) {
  return writes(v, MXCHECK_COLUMNS_CODED) || is_transpose(v);
}

}  // namespace

std::vector<Statement> expert_law_statements() {
  std::vector<Statement> s{
      step_law("an_expert_without_rows_changes_nothing",
               "offsets that name further experts without rows, anywhere, give the same outputs", has_offsets,
               empty_experts),
      step_law("blocks_along_tokens_end_with_their_expert",
               "codes and scales along tokens of an expert among others are those of it alone", is_along_tokens,
               expert_alone),
  };
  s[1].experts = 100;
  return s;
}

}  // namespace mxcheck
