// The candidate's bytes are the reference's bytes.

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/notation.h"
#include "properties/operations/layer/definitions.h"
#include "properties/operations/moe/operation.h"
#include "properties/operations/moe/problem.h"

namespace mxcheck {
namespace {

// The variants that every run gives more: one of each way to quantize, in one order of gate and up value.
bool is_usual_layer(const Variant& v) {
  const MoeVariant& own = moe_of(v);
  return own.gate_up == MXCHECK_HALVES && (own.recipe == "mxfp8" || own.recipe == "dsv3");
}

// Corner cases of a variant on every run. Widths are multiples of 128 but in one: a library may leave out others.
std::vector<Case> layer_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&](std::int64_t tokens, std::int64_t cols, std::int64_t inner,
                       const std::vector<std::int64_t>& sizes, std::int64_t k, Data data) {
    cases.push_back(moe_corner(v, tokens, cols, inner, sizes, k, data, cases.size() + 1));
  };
  add(0, 128, 128, {0, 0}, 2, Data::zeros);
  add(5, 128, 128, {0, 0}, 2, Data::normal);  // every route was dropped
  add(19, 128, 128, {0, 7, 0, 1, 19}, 2, Data::normal);
  add(9, 128, 128, {9, 9, 7, 0, 2}, 0, Data::boundaries);
  add(13, 128, 128, {13, 6}, 2, Data::specials);
  add(35, 32, 64, {33, 1, 0, 35}, 3, Data::normal);
  if (suite == Suite::quick && !is_usual_layer(v)) return cases;
  add(129, 128, 128, {0, 1, 128, 0}, 1, Data::normal);
  add(130, 128, 128, {127, 128, 129, 64}, 4, Data::normal);
  add(24, 256, 128, {20, 3}, 1, Data::wide);
  add(24, 128, 256, {20, 3}, 1, Data::real);
  if (suite == Suite::quick) return cases;
  add(260, 128, 32, {257, 3}, 1, Data::normal);
  add(260, 256, 128, {257, 0, 255, 256, 1, 31, 32, 33}, 0, Data::normal);
  add(140, 128, 384, {128, 129, 3}, 2, Data::boundaries);
  add(65, 512, 128, {64, 65, 1}, 2, Data::slots);
  return cases;
}

// More than 2^16 tokens, routed rows, slots, rows of one expert, and 2^20 elements of O and dX: indices of 16 or 20
// bits go wrong. An expert follows that has rows beyond 2^16 alone.
constexpr std::int64_t kManyTokens = 65600;
const std::vector<std::int64_t> kManyRows{3, 65560, 0, 129};

bool has_bf16_gemms(const Variant& v) {
  return layer_recipe_of(v).gemm(LayerGemm::up).contract.starts_with("sm90_bf16");
}

// Narrow ones take the reference half a second, and every run meets one of each recipe but those in blocks of 128,
// which are met in the full suite, or where a library has no others, by its first. So are those that a library has
// which takes multiples of 128 alone: 10 G products.
std::vector<Case> beyond_16_bits(std::span<const Variant> variants, Suite suite) {
  std::vector<Case> cases;
  std::vector<std::string> recipes;
  for (const Variant& v : variants) {
    const std::string& recipe = moe_of(v).recipe;
    const bool is_first = std::find(recipes.begin(), recipes.end(), recipe) == recipes.end();
    if (is_first) recipes.push_back(recipe);
    const bool is_quick =
        is_first && (has_bf16_gemms(v) || (recipes.size() == 1 && std::ranges::none_of(variants, has_bf16_gemms)));
    if (is_quick || suite != Suite::quick)
      cases.push_back(moe_corner(v, kManyTokens, 16, 8, kManyRows, 2, Data::normal, 21));
    if (is_first && suite != Suite::quick)
      cases.push_back(moe_corner(v, kManyTokens, 128, 128, kManyRows, 2, Data::normal, 22));
  }
  return cases;
}

// Widths of production, far beyond the domain's, with the other one small, of each recipe; once for each contract the
// same in multiples of 128, for libraries that take no others, and several blocks of 128 along both widths and along an
// expert's rows; and, of the first variant, the experts and slots of DeepSeek-V3: in multiples of 128 of the forward
// pass alone, for that has 2^22 elements of weights.
std::vector<Case> of_production(std::span<const Variant> variants, Suite) {
  std::vector<Case> cases;
  std::vector<std::string> recipes, contracts;
  const auto is_new = [](std::vector<std::string>& met, const std::string& name) {
    if (std::find(met.begin(), met.end(), name) != met.end()) return false;
    met.push_back(name);
    return true;
  };
  for (const Variant& v : variants) {
    const auto add = [&](std::int64_t tokens, std::int64_t cols, std::int64_t inner,
                         const std::vector<std::int64_t>& sizes) {
      cases.push_back(moe_corner(v, tokens, cols, inner, sizes, 1, Data::normal, 23 + cases.size()));
    };
    if (is_new(recipes, moe_of(v).recipe)) add(4, 7168, 16, {3}), add(4, 16, 4096, {3});
    if (is_new(contracts, layer_recipe_of(v).gemm(LayerGemm::up).contract))
      add(4, 7168, 128, {3}), add(4, 128, 4096, {3}), add(150, 256, 256, {129, 0, 21});
  }
  if (variants.empty()) return cases;
  std::vector<std::int64_t> sizes(256, 1);
  for (std::size_t e = 0; e < sizes.size(); e += 4) sizes[e] = 2;
  const Variant& first = variants.front();
  cases.push_back(moe_corner(first, 40, 16, 8, sizes, 8, Data::normal, 23));
  if (!is_moe_backward(first)) cases.push_back(moe_corner(first, 40, 128, 128, sizes, 8, Data::normal, 24));
  return cases;
}

// --- single sizes
//
// Numbers of tokens, rows, experts, slots and columns in which a kernel is compiled or has a limit, and which cases of
// other sizes meet by chance. Each is one small case, of the next variant in turn: there it is the size that matters.

struct LayerShape {
  std::int64_t tokens, cols, inner;
  std::vector<std::int64_t> sizes;
  std::int64_t k;
};

// So many rows, one more for the first experts where they are no multiple, and `behind` experts without.
std::vector<std::int64_t> even_sizes(std::int64_t experts, std::int64_t rows, std::int64_t behind = 0) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(experts - behind), rows / (experts - behind));
  for (std::int64_t e = 0; e < rows % (experts - behind); ++e) ++sizes[static_cast<std::size_t>(e)];
  sizes.resize(static_cast<std::size_t>(experts), 0);
  return sizes;
}

// Shapes for GEMMs whose tiles are 64 to 256 rows: an expert's last tile is whole, or has a row more or less.
std::vector<LayerShape> wide_shapes() {
  return {
      {257, 128, 128, {127, 0}, 1},   {257, 128, 128, {256, 0}, 1},
      {128, 128, 128, {128, 128}, 2}, {257, 128, 128, {63, 65, 127}, 1},
      {128, 128, 128, {128, 0}, 1},   {4, 384, 128, {3}, 1},
      {4, 4096, 128, {3}, 1},         {4, 128, 1408, {3}, 1},
  };
}

// Shapes for kernels that count, gather and add up, whatever the width; and widths of models.
std::vector<LayerShape> narrow_shapes() {
  std::vector<std::int64_t> crowded = even_sizes(384, 600, 1);
  crowded[7] = 129;
  return {
      {4097, 8, 8, {95, 96, 97, 191, 192, 193, 255, 256, 257, 383, 384, 385}, 1},
      {4095, 8, 8, {511, 512, 513, 1023, 1024, 1025, 0}, 2},
      {48, 8, 8, even_sizes(31, 90), 2},
      {191, 8, 8, even_sizes(63, 380), 2},
      {192, 8, 8, even_sizes(127, 1024, 1), 32},
      {513, 8, 8, even_sizes(128, 500), 6},
      {193, 8, 8, even_sizes(160, 386), 2},
      {257, 8, 8, even_sizes(255, 2056), 8},
      {511, 8, 8, even_sizes(383, 300, 83), 6},
      {512, 8, 8, std::move(crowded), 8},
      {1025, 8, 8, even_sizes(512, 1100), 10},
      {63, 8, 8, even_sizes(513, 1008), 16},
      {96, 8, 8, even_sizes(257, 384), 4},
      {97, 8, 8, even_sizes(511, 600), 7},
      {1024, 8, 8, even_sizes(1025, 1100), 2},
      {131072, 8, 8, {131071, 0, 1}, 1},
      {4, 40, 8, {3}, 1},
      {4, 192, 8, {1, 2}, 1},
      {4, 264, 8, {3}, 1},
      {4, 320, 8, {1, 2}, 1},
      {4, 768, 8, {3}, 1},
      {4, 1536, 8, {3}, 1},
      {4, 8, 40, {1, 2}, 1},
      {4, 8, 768, {3}, 1},
      {4, 8, 1536, {1, 2}, 1},
      {4, 120, 24, {3}, 1},
      {4, 136, 192, {1, 2}, 1},
      {4, 2880, 8, {1, 2}, 1},
      {4, 5120, 8, {3}, 1},
      {4, 6144, 8, {3}, 1},
      {4, 8192, 8, {1, 2}, 1},
      {4, 8, 264, {3}, 1},
      {4, 8, 320, {1, 2}, 1},
      {4, 8, 2880, {3}, 1},
      {4, 8, 8192, {1, 2}, 1},
      {4, 8, 16384, {3}, 1},
  };
}

std::vector<Case> of_single_sizes(std::span<const Variant> variants) {
  std::vector<Case> cases;
  if (variants.empty()) return cases;
  // Variants of recipes with BF16 GEMMs, where there are some: a library may take others in multiples of 128 alone.
  std::vector<Variant> of_any_width;
  for (const Variant& v : variants) {
    if (has_bf16_gemms(v)) of_any_width.push_back(v);
  }
  if (of_any_width.empty()) of_any_width.assign(variants.begin(), variants.end());
  const auto deal = [&](std::span<const Variant> to, const std::vector<LayerShape>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const LayerShape& s = shapes[i];
      cases.push_back(
          moe_corner(to[i % to.size()], s.tokens, s.cols, s.inner, s.sizes, s.k, Data::normal, 41 + cases.size()));
    }
  };
  deal(variants, wide_shapes());
  deal(of_any_width, narrow_shapes());
  // The first layer at the first step under a seed of 0, and the ends of the three numbers: once for each recipe.
  std::string_view last;
  for (const Variant& v : variants) {
    const bool is_next = moe_of(v).recipe != std::exchange(last, moe_of(v).recipe);
    if (!is_next || !is_stochastic(layer_recipe_of(v))) continue;
    for (const int zero : {5, 6, 7}) {
      cases.push_back(moe_corner(v, 9, 128, 128, {5, 4}, 1, Data::normal, 41 + cases.size()));
      moe_case(cases.back()).zero = zero;
    }
  }
  return cases;
}

Statement layer_equality(std::string_view name, std::string_view operation, std::string_view sentence) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/layer.md; kernels/candidate_moe.h";
  s.applies = [operation](const Variant& v, std::span<const Variant>) {
    return v.operation == operation && !keeps_weights(v);
  };
  s.data = {Data::normal, Data::normal,     Data::boundaries, Data::codes, Data::slots,
            Data::wide,   Data::every_word, Data::specials,   Data::real,  Data::sparse};
  s.strides = false;
  s.check = equals_the_reference;
  s.corners = layer_corners;
  s.shared_corners = [](std::span<const Variant> variants, Suite suite) {
    std::vector<Case> cases = beyond_16_bits(variants, suite);
    std::ranges::move(of_production(variants, suite), std::back_inserter(cases));
    std::ranges::move(of_single_sizes(variants), std::back_inserter(cases));
    return cases;
  };
  s.covers_pairs = true;
  return s;
}

}  // namespace

std::vector<Statement> moe_equality_statements() {
  return {
      layer_equality("moe_forward_equals_the_reference", "moe_forward",
                     "O of each token, and H and X as they are kept, are the reference's"),
      layer_equality("moe_backward_equals_the_reference", "moe_backward",
                     "dX of each token, the gradients of the weights and dS are the reference's"),
  };
}

// The part of a counterexample that a person reads first: the tensor, whose row it is, and which recipe or mistake
// gives exactly these outputs.

namespace {

constexpr std::int64_t kMostShown = 12;               // slots of a report
constexpr std::int64_t kMostOfMatches = 100'000'000;  // multiplications of a case that is compared with other recipes

std::string weight_text(const LayerRoutes& routes, std::int64_t row) {
  return notations(Format::fp32, std::bit_cast<std::uint32_t>(routes.row_weight[static_cast<std::size_t>(row)]));
}

std::int64_t expert_of(const LayerRoutes& routes, std::int64_t row) {
  return std::upper_bound(routes.offsets.begin(), routes.offsets.end(), row) - routes.offsets.begin() - 1;
}

// A routed row in words: its expert, its token, its weight.
std::string row_text(const LayerRoutes& routes, std::int64_t row) {
  const std::int64_t expert = expert_of(routes, row);
  const auto at = static_cast<std::size_t>(expert);
  return fmt::format("row {}: row {} of {} of expert {}, token {}, weight {}", row, row - routes.offsets[at],
                     routes.offsets[at + 1] - routes.offsets[at], expert,
                     routes.row_token[static_cast<std::size_t>(row)], weight_text(routes, row));
}

void explain_token(const LayerRoutes& routes, std::int64_t token, std::int64_t col, Finding& finding) {
  const auto at = static_cast<std::size_t>(token);
  const std::int64_t begin = routes.token_offsets[at];
  const std::int64_t end = routes.token_offsets[at + 1];
  finding.element.push_back(fmt::format("token     {}, column {}: {} slots", token, col, end - begin));
  for (std::int64_t slot = begin; slot < end && slot - begin < kMostShown; ++slot) {
    const std::int32_t row = routes.token_rows[static_cast<std::size_t>(slot)];
    finding.element.push_back(
        fmt::format("slot      {}: {}", slot, row < 0 ? std::string("dropped") : row_text(routes, row)));
  }
}

void explain_matrix(const LayerRoutes& routes, const char* rows_are, std::int64_t rows_of_expert, std::int64_t row,
                    std::int64_t col, Finding& finding) {
  const std::int64_t expert = row / rows_of_expert;
  const auto at = static_cast<std::size_t>(expert);
  finding.element.push_back(fmt::format(
      "expert    {}, {} {}, column {}: a sum over its {} rows, {} to {}", expert, rows_are, row % rows_of_expert, col,
      routes.offsets[at + 1] - routes.offsets[at], routes.offsets[at], routes.offsets[at + 1] - 1));
}

}  // namespace

void MoeProblem::explain(std::size_t output, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const std::string& name = outputs[output].name;
  const auto add = [&](std::string line) { finding.element.push_back(std::move(line)); };
  add(fmt::format("layer     recipe {}, {} tokens, d {}, inner {}, {} experts, {} rows", moe_of(c.variant).recipe,
                  c.rows, c.cols, moe_case(c).inner, moe_experts(c), moe_routed(c)));
  if (name == "o" || name == "dx") {
    explain_token(routes, e.row, e.col, finding);
  } else if (name == "dw1") {
    explain_matrix(routes, "row of W1", c.cols, e.row, e.col, finding);
  } else if (name == "dw2") {
    explain_matrix(routes, "row of W2", moe_case(c).inner, e.row, e.col, finding);
  } else if (name == "ds") {
    add("weight    of " + row_text(routes, e.col));
  } else if (name.front() == 'h') {
    add(fmt::format("kept      column {} of {}", e.col, row_text(routes, e.row)));
  } else {
    add(fmt::format("kept      column {} of token {}", e.col, e.row));
  }
  finding.relevant.push_back({e.row, e.col, 0});
  add("expected  " + expected_text(*finding.difference));
  add("observed  " + observed_text(*finding.difference));
}

namespace {

constexpr double kMostWorkOfRows = 8e8;  // products of two numbers that all rows of a table may take

// The run of the whole layer whose outputs the problem asks for.
std::shared_ptr<LayerData> run_of(const MoeProblem& p) {
  auto d = std::make_shared<LayerData>();
  const Layer layer = p.layer();
  d->shape = layer.shape, d->recipe = *layer.recipe, d->gate_up = layer.gate_up;
  d->x = p.in.x, d->w1 = p.in.w1, d->w2 = p.in.w2, d->d_o = p.in.d_o, d->routes = p.routes;
  d->has_backward = is_moe_backward(p.c.variant);
  d->random = p.random;
  compute(*d);
  return d;
}

// The outputs of a run in which this tensor is another one, and all that follows from it.
std::vector<Bytes> outputs_with(LayerData d, const std::string& tensor, const Bytes& bytes) {
  std::vector<std::string> names;
  for (const LayerTensor& t : tensors_of(d)) names.push_back(t.name);
  const auto at = bytes == bytes_of_tensor(d, tensor) ? names.end() : std::ranges::find(names, tensor);
  if (at != names.end()) set_tensor(d, tensor, bytes);
  for (auto next = at == names.end() ? at : at + 1; next != names.end(); ++next)
    set_tensor(d, *next, made_again(d, *next));
  if (!d.recipe.kept_h.quantized()) d.forward.kept.h.values = d.forward.h;
  if (d.has_backward)
    return {to_bytes(d.backward.dx), to_bytes(d.backward.dw1), to_bytes(d.backward.dw2), to_bytes(d.backward.ds)};
  std::vector<Bytes> outputs{to_bytes(d.forward.o)};
  for (KeptTensor& t : kept_tensors("h", d.recipe.kept_h, d.forward.kept.h)) outputs.push_back(std::move(t.bytes));
  if (!d.recipe.keeps_quantized_x) return outputs;
  for (KeptTensor& t : kept_tensors("x", kept_x_rule(d.recipe), d.forward.kept.x))
    outputs.push_back(std::move(t.bytes));
  return outputs;
}

// The rows of the layer's table, each in every tensor in which it shows, carried on to the outputs.
Table carried_rows(const MoeProblem& p, double work) {
  const std::shared_ptr<LayerData> d = run_of(p);
  std::vector<std::string> made;  // by this pass, and no operands: those have their GEMM's row
  for (const LayerTensor& t : tensors_of(*d)) {
    const bool is_operand = t.name.ends_with("_codes") || t.name.ends_with("_scales");
    const bool is_backward = t.name.starts_with("d") || t.name == "P" || t.name == "A_again" || t.name == "scaled_A";
    if (t.role == Role::output && !is_operand && is_backward == d->has_backward) made.push_back(t.name);
  }
  std::vector<LayerRow> rows = layer_slips();
  std::ranges::move(layer_families(d->recipe), std::back_inserter(rows));
  const auto memo = std::make_shared<AnswerMemo>();
  const auto spent = std::make_shared<double>(0);  // by rows that were asked for
  Table table;
  for (const LayerRow& row : rows) {
    for (const std::string& tensor : row.tensors) {
      if (std::ranges::find(made, tensor) == made.end()) continue;
      table.push_back(definition_of_all(
          row.name + " (in " + tensor + ")",
          [d, row, tensor, spent, work]() -> std::vector<Bytes> {
            if ((*spent += work) > kMostWorkOfRows) throw RowNotComputed();
            try {
              return outputs_with(*d, tensor, row.bytes(*d, tensor));
            } catch (const Error&) {  // not applicable
              return {};
            }
          },
          memo, row.source));
    }
  }
  return table;
}

}  // namespace

Table MoeProblem::definitions(std::span<const Bytes>) const {
  Table table;
  if (operation_named(c.variant.operation).work(c) > kMostOfMatches) return table;
  const auto memo = std::make_shared<AnswerMemo>();
  for (OtherLayer& row : other_layers(*layer().recipe)) {
    const auto answer_of = [this, change = std::move(row.change)] {
      Layer other = layer();
      LayerRecipe recipe = *other.recipe;
      LayerRoutes changed = routes;
      change(recipe, other.gate_up, changed);
      other.recipe = &recipe;
      std::vector<Bytes> answer;
      for (ExpectedTensor& t : answer_with(other, changed)) answer.push_back(std::move(t.bytes));
      return answer;
    };
    table.push_back(definition_of_all(row.name, answer_of, memo));
  }
  for (const OtherWords& words : kOtherWords) {
    const auto answer_of = [this, change = words.change] {
      Layer other = layer();
      change(other.random);
      std::vector<Bytes> answer;
      for (ExpectedTensor& t : answer_with(other, routes)) answer.push_back(std::move(t.bytes));
      return answer;
    };
    if (is_stochastic(*layer().recipe) && is_moe_backward(c.variant))
      table.push_back(definition_of_all(std::string(words.name), answer_of, memo));
  }
  merge(table, carried_rows(*this, static_cast<double>(
                                       std::max<std::int64_t>(1, operation_named(c.variant.operation).work(c)))));
  return table;
}

}  // namespace mxcheck
