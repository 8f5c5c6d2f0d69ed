// The candidate's bytes are the reference's bytes.

#include "properties/operations/layer/expand.h"
#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/statements.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

std::optional<Finding> equals_reference(CheckContext& context, const Case& c) {
  const Posed posed = posed_of(context, c);
  return equals_answer(context, *posed.problem, posed.answer, {});
}

// Rows of 1024 columns: more elements than 20 bits count, where what quick draws has at most 18 bits of them. One
// variant of each kind is enough to show an index that wraps.
constexpr std::int64_t kBeyondAMillion = 1030;
constexpr std::int64_t kBeyond16Bits = 66'001;  // rows, for an index of rows

// What every variant meets on every run; most of the thousand differ by recipe, format and block alone.
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
  if (layer_of(v).gate_up == MXCHECK_HALVES && !has_coded_h(v) && (!writes_codes(v) || columns_alone)) {
    add(kBeyondAMillion, 1024, Data::normal);
    add(kBeyond16Bits, 3, Data::normal);
  }
  if (suite == Suite::quick) return cases;
  add(257, 300, Data::boundaries, {0, 0, 127, 128, 256, 257});
  add(33, 768, Data::real);
  return cases;
}

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
  if (suite == Suite::quick) return cases;
  add(1031, 768, Data::normal, 8248, 8, 0);
  add(300, 129, Data::boundaries, 700, 200, 5);
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
  s.experts = operation == "aggregate" ? 0 : 50;
  s.check = equals_reference;
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
  s.check = equals_reference;
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
  s[4].applies = [](const Variant& v, std::span<const Variant>) {
    return is_swiglu(v) && !writes_codes(v) && !has_coded_h(v);
  };
  s[5].applies = [](const Variant& v, std::span<const Variant>) { return is_swiglu(v) && !has_coded_h(v); };
  return s;
}

}  // namespace mxcheck
