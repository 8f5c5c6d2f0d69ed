#include "properties/operations/layer/definitions.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/operations/layer/step_slips.h"
#include "reference/quantize/hadamard.h"

namespace mxcheck {

std::vector<LayerRow> layer_slips() {
  constexpr std::array kTables{swiglu_slips,
                               swiglu_gradient_slips,
                               weight_gradient_slips,
                               slot_sum_slips,
                               gather_slips,
                               weight_slips,
                               gemm_slips,
                               block_slips};
  std::vector<LayerRow> all;
  for (const auto& table : kTables) std::ranges::move(table(), std::back_inserter(all));
  return all;
}

std::vector<LayerRow> layer_rows(const LayerRecipe& recipe, const std::string& tensor) {
  std::vector<LayerRow> all = layer_slips();
  std::ranges::move(layer_families(recipe), std::back_inserter(all));
  std::erase_if(all, [&](const LayerRow& row) { return std::ranges::find(row.tensors, tensor) == row.tensors.end(); });
  return all;
}

// Rows that are another recipe: of the layer, of an operand, or of a GEMM's sum.

namespace {

// D, and of the operands the codes and scales.
std::vector<std::string> tensors_of_gemm(const LayerGemmSpec& g, bool a, bool b) {
  std::vector<std::string> names;
  const std::string name(g.name);
  for (const char* output : {"H", "Y", "P", "dX_rows", "dW2", "dW1"}) {
    if (gemm_tensor(output)->gemm == g.value) names.emplace_back(output);
  }
  for (const auto& [part, value] : kOperandParts) {
    if (a) names.push_back(name + "_a_" + std::string(part));
    if (b) names.push_back(name + "_b_" + std::string(part));
  }
  return names;
}

// The tensor under a recipe that is this one but for `change`.
template <class Change>
LayerRow under(std::vector<std::string> tensors, std::string text, Change change) {
  return {std::move(tensors), std::move(text), [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v.recipe);
            if (v.recipe == d.recipe) return Bytes();
            check(v.recipe);
            return made_from_values(v, t);
          }};
}

struct SideText {
  bool a, b;
  std::string text;
};
std::array<SideText, 3> sides_of(const LayerGemmSpec& g) {
  return {{{true, true, std::string(g.a) + " and " + std::string(g.b)},
           {true, false, std::string(g.a)},
           {false, true, std::string(g.b)}}};
}

// One family: `set` changes the rule of an operand that is quantized.
template <class Set>
LayerRow of_operands(const LayerGemmSpec& g, const SideText& side, std::string text, Set set) {
  const bool one = side.a != side.b;  // of both alone D depends
  return under(tensors_of_gemm(g, one && side.a, one && side.b), std::move(text),
               [gemm = g.value, side, set](LayerRecipe& r) {
                 for (const Side which : {Side::a, Side::b}) {
                   OperandRule& rule = rule_of(r, gemm, which);
                   if ((which == Side::a ? side.a : side.b) && rule.quantized()) set(rule);
                 }
               });
}

void add_operand_families(const LayerGemmSpec& g, std::vector<LayerRow>& to) {
  constexpr std::array<BlockShape, 8> kBlocks{
      {{1, 16}, {1, 32}, {1, 64}, {1, 128}, {32, 32}, {128, 128}, {0, 0}, {32, 1}}};
  for (const SideText& side : sides_of(g)) {
    for (const Recipe& scales : all_recipes()) {
      to.push_back(of_operands(g, side, "scales of recipe " + scales.name + " of " + side.text,
                               [name = scales.name](OperandRule& rule) { rule.scales = name; }));
    }
    for (const Recipe& scales : two_level_recipes()) {
      to.push_back(of_operands(g, side, "scales of recipe " + scales.name + " of " + side.text,
                               [name = scales.name](OperandRule& rule) {
                                 if (has_two_levels(rule)) rule.scales = name;
                               }));
    }
    for (const Format format : kQuantizedFormats) {
      to.push_back(of_operands(g, side, side.text + " in " + std::string(spec(format).name),
                               [format](OperandRule& rule) { rule.format = format; }));
    }
    for (const BlockShape block : kBlocks) {
      const std::string text =
          block == BlockShape{0, 0} ? "one scale for the whole tensor" : "blocks of " + to_text(block);
      to.push_back(of_operands(g, side, text + " of " + side.text, [block](OperandRule& rule) { rule.block = block; }));
    }
  }
}

void add_contracts(const LayerGemmSpec& g, std::vector<LayerRow>& to) {
  constexpr std::array<const char*, 10> kOnTop{"",
                                               "+decode",
                                               "+promote128",
                                               "+promote32",
                                               "+promote64",
                                               "+promote128+a_first",
                                               "+promote128+b_first",
                                               "+descending",
                                               "+decode+descending",
                                               "+promote128+descending"};
  for (const Contract& sum : all_contracts()) {
    for (const char* on_top : kOnTop) {
      const std::string contract = std::string(sum.name) + on_top;
      LayerRow row{tensors_of_gemm(g, false, false), "the sum of contract " + contract, {}, std::string(sum.note)};
      row.bytes = [contract, gemm = g.value](const LayerData& d, const std::string& t) {
        LayerData v = d;
        v.recipe.gemms[static_cast<std::size_t>(gemm)].contract = contract;
        if (v.recipe == d.recipe) return Bytes();
        check(v.recipe);
        return made_again(v, t);
      };
      to.push_back(std::move(row));
    }
  }
}

// Both operands of a GEMM as they are, where they are rotated.
LayerRow not_rotated(const LayerGemmSpec& g) {
  const SideText both = sides_of(g)[0];
  return of_operands(g, both, both.text + " not rotated",
                     [](OperandRule& rule) { rule.rotates = 0, rule.random_signs = false; });
}

// Both operands rotated in groups of another size, where the signs are random; weights of the backward pass made of the
// other source.
void add_backward_operands(const LayerGemmSpec& g, const LayerRecipe& own, std::vector<LayerRow>& to) {
  const GemmRule& rule = own.gemm(g.value);
  const auto [both, a, b] = sides_of(g);
  for (const int size : kHadamardSizes) {
    if (!rule.a.random_signs || size == rule.a.rotates) continue;
    to.push_back(of_operands(g, both, both.text + " rotated in groups of " + std::to_string(size),
                             [size](OperandRule& of) { of.rotates = size; }));
  }
  if (g.value != LayerGemm::d_down && g.value != LayerGemm::d_up) return;
  const bool again = rule.b.source == OperandSource::requantized;
  to.push_back(of_operands(
      g, b,
      b.text + (again ? " quantized from its values, not from what the forward pass made of it"
                      : " quantized again from what the forward pass made of it, in place of its values"),
      [again](OperandRule& of) { of.source = again ? OperandSource::values : OperandSource::requantized; }));
}

// Operands that are rounded stochastically, to nearest.
void add_roundings(const LayerGemmSpec& g, const LayerRecipe& own, std::vector<LayerRow>& to) {
  for (const SideText& side : sides_of(g)) {
    const bool one = side.a != side.b;
    if (!one || !rule_of(own, g.value, side.a ? Side::a : Side::b).stochastic) continue;
    to.push_back(of_operands(g, side, side.text + " rounded to nearest, not stochastically",
                             [](OperandRule& rule) { rule.stochastic = false; }));
  }
}

// D without the outer scale of an operand, or of both.
void add_outer_scales(const LayerGemmSpec& g, std::vector<LayerRow>& to) {
  for (const SideText& side : sides_of(g)) {
    to.push_back(
        {tensors_of_gemm(g, false, false), "the outer scale of " + side.text + " left out",
         [gemm = g.value, side](const LayerData& d, const std::string&) {
           std::array<LayerOperand, 2> operands{operand_as_held(d, gemm, Side::a), operand_as_held(d, gemm, Side::b)};
           for (const bool b : {false, true}) {
             std::vector<ScaleLevel>& levels = operands[b ? 1 : 0].quantized.levels;
             if (!(b ? side.b : side.a)) continue;
             if (levels.size() < 2) return Bytes();
             levels.resize(1);
           }
           return product(d, gemm, operands[0], operands[1]);
         }});
  }
}

// Other random words.
LayerRow with_words(std::vector<std::string> tensors, std::string text, void (*change)(LayerRandom&)) {
  return {std::move(tensors), std::move(text), [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v.random);
            return is_stochastic(d.recipe) ? made_from_values(v, t) : Bytes();
          }};
}

}  // namespace

std::vector<LayerRow> layer_families(const LayerRecipe& own) {
  std::vector<LayerRow> all;
  std::vector<std::string> every;
  for (const LayerGemmSpec& g : kLayerGemms) {
    for (std::string& name : tensors_of_gemm(g, true, true)) every.push_back(std::move(name));
  }
  for (const LayerRecipe& r : all_layer_recipes()) {
    if (r.name == own.name) continue;
    all.push_back(under(every, "layer recipe " + r.name, [&r](LayerRecipe& to) { to = r; }));
  }
  for (const LayerGemmSpec& g : kLayerGemms) add_operand_families(g, all);
  for (const LayerGemmSpec& g : kLayerGemms) {
    const bool along_tokens = g.value == LayerGemm::d_w2 || g.value == LayerGemm::d_w1;
    if (along_tokens || own.gemm(g.value).a.rotates != 0) all.push_back(not_rotated(g));
  }
  for (const LayerGemmSpec& g : kLayerGemms) add_roundings(g, own, all), add_outer_scales(g, all);
  for (const LayerGemmSpec& g : kLayerGemms) add_backward_operands(g, own, all);
  for (const OtherWords& words : kOtherWords) all.push_back(with_words(every, std::string(words.name), words.change));
  for (const LayerGemmSpec& g : kLayerGemms) add_contracts(g, all);
  return all;
}

// Slips in the blocks of operands along tokens.

namespace {

using Names = std::vector<std::string>;
const Names kAlongTokens{"d_w2_a_codes", "d_w2_a_scales", "d_w2_b_codes", "d_w2_b_scales", "dW2",
                         "d_w1_a_codes", "d_w1_a_scales", "d_w1_b_codes", "d_w1_b_scales", "dW1"};

// The scale of each element, as blocks of 1x1, for a GEMM whose blocks are not those of its contract.
LayerOperand spread(const LayerOperand& x, std::span<const std::int64_t> starts) {
  LayerOperand out = x;
  QuantizedTensor& q = out.quantized;
  const QuantizedTensor& from = x.quantized;
  q.levels.front().block = {1, 1};
  q.scales() = make_tensor(from.scales().format, {q.rows(), q.cols()});
  const std::int64_t wide = from.block().width(from.cols());
  std::int64_t scale_row = -1;
  for (std::int64_t r = 0; r < q.rows(); ++r) {
    while (scale_row + 1 < std::ssize(starts) && starts[static_cast<std::size_t>(scale_row + 1)] <= r) ++scale_row;
    for (std::int64_t c = 0; c < q.cols(); ++c) {
      q.scales().set_code(static_cast<std::size_t>(r * q.cols() + c),
                          from.scales().code(static_cast<std::size_t>(scale_row * from.scale_cols() + c / wide)));
    }
  }
  return out;
}

// The values that the operand along tokens is made of, gathered.
LayerOperand gathered_values(const LayerData& d, LayerGemm gemm, Side side) {
  LayerData v = d;
  v.recipe = layer_recipe_named("bf16");
  return operand_from_values(v, gemm, side);
}

// Along tokens, quantized as one run of rows, or in rows.
Bytes other_blocks(const LayerData& d, const std::string& tensor, bool by_rows) {
  const GemmTensor g = *gemm_tensor(tensor);
  LayerData v = d;
  const auto operand = [&](Side side) {
    const OperandRule& rule = rule_of(d.recipe, g.gemm, side);
    if (!rule.quantized() || rule.of_whole_tensor() || rule.source != OperandSource::values || rule.rotates != 0 ||
        rule.stochastic)
      throw Error(ErrorKind::usage, "no blocks along tokens");
    const LayerOperand values = gathered_values(d, g.gemm, side);
    const BlockShape block = by_rows ? rule.block : rule.block.transposed();
    LayerOperand x = values;
    x.is_quantized = true;
    x.quantized = quantize(view(values.values, values.rows, values.cols), rule.format, block,
                           any_recipe_named(rule.scales), {}, d.threads);
    return x;
  };
  if (!g.is_output) {
    const QuantizedTensor q = operand(g.side).quantized;
    return g.part == OperandPart::codes ? q.codes.data : g.part == OperandPart::scales ? q.scales().data : Bytes();
  }
  const auto spread_operand = [&](Side side) {
    const LayerOperand x = operand(side);
    const std::vector<std::int64_t> starts = block_row_starts(x.rows, x.quantized.block().rows, {});
    rule_of(v.recipe, g.gemm, side).block = {1, 1};
    return spread(x, starts);
  };
  const LayerOperand a = spread_operand(Side::a), b = spread_operand(Side::b);
  return product(v, g.gemm, a, b);
}

}  // namespace

std::vector<LayerRow> block_slips() {
  return {
      {kAlongTokens, "blocks along tokens that do not start again at each expert",
       [](const LayerData& d, const std::string& t) { return other_blocks(d, t, false); }},
      {kAlongTokens, "the scales of blocks along rows in place of blocks along tokens",
       [](const LayerData& d, const std::string& t) { return other_blocks(d, t, true); }},
      {kAlongTokens, "quantized again from what the GEMM along rows made of it, in place of the values",
       [](const LayerData& d, const std::string& t) {
         LayerData v = d;
         const GemmTensor g = *gemm_tensor(t);
         if (g.gemm == LayerGemm::d_w1) rule_of(v.recipe, g.gemm, Side::a).source = OperandSource::requantized;
         rule_of(v.recipe, g.gemm, Side::b).source = OperandSource::requantized;
         check(v.recipe);
         return made_from_values(v, t);
       }},
      {kAlongTokens, "quantized from the values, not from what the GEMM along rows made of it",
       [](const LayerData& d, const std::string& t) {
         LayerData v = d;
         const GemmTensor g = *gemm_tensor(t);
         rule_of(v.recipe, g.gemm, Side::a).source = rule_of(v.recipe, g.gemm, Side::b).source = OperandSource::values;
         v.recipe.keeps_quantized_x = false;
         return made_from_values(v, t);
       }},
  };
}

// One step by itself.

std::shared_ptr<LayerData> layer_of_swiglu(std::vector<std::uint16_t> h, std::vector<float> p,
                                           std::vector<float> weights, std::vector<std::int64_t> offsets,
                                           GateUp order) {
  auto d = std::make_shared<LayerData>();
  const auto rows = weights.size();
  const std::int64_t n = rows == 0 ? 0 : std::ssize(h) / (2 * std::ssize(weights));
  if (offsets.empty()) offsets = {0, std::ssize(weights)};
  d->shape = {std::ssize(weights), 1, n, std::ssize(offsets) - 1};
  d->recipe = layer_recipe_named("bf16"), d->gate_up = order;
  const auto matrices = static_cast<std::size_t>(d->shape.experts * n);
  d->x.resize(rows), d->d_o.resize(rows), d->w1.resize(2 * matrices), d->w2.resize(matrices);
  d->forward.y.resize(rows), d->backward.dx_rows.resize(rows);
  LayerRoutes& routes = d->routes;
  routes = {
      std::move(offsets), std::vector<std::int32_t>(rows), std::move(weights), std::vector<std::int64_t>(rows + 1), {}};
  std::iota(routes.row_token.begin(), routes.row_token.end(), 0);
  std::iota(routes.token_offsets.begin(), routes.token_offsets.end(), 0);
  routes.token_rows = routes.row_token;
  d->has_backward = !p.empty();
  p.resize(static_cast<std::size_t>(std::ssize(routes.row_token) * n));
  d->forward.h = std::move(h), d->backward.p = std::move(p);
  LayerOperand& kept = d->forward.kept.h;
  kept.rows = d->rows(), kept.cols = 2 * n, kept.values = d->forward.h;
  d->forward.a = d->backward.a = values_in<std::uint16_t>(made_again(*d, "A"));
  d->backward.scaled_a = values_in<std::uint16_t>(made_again(*d, "scaled_A"));
  return d;
}

Table step_definitions(const std::shared_ptr<const LayerData>& d, const std::vector<std::string>& tensors) {
  Table table;
  std::vector<std::shared_ptr<std::vector<LayerRow>>> parts;  // of a row, those of its name
  for (LayerRow& slip : layer_slips()) {
    const auto shows = [&](const std::string& t) { return std::ranges::find(slip.tensors, t) != slip.tensors.end(); };
    if (std::ranges::none_of(tensors, shows)) continue;
    const auto same = std::ranges::find(table, slip.name, &Definition::name);
    if (same != table.end()) {
      parts[static_cast<std::size_t>(same - table.begin())]->push_back(std::move(slip));
      continue;
    }
    const std::string name = slip.name;
    parts.push_back(std::make_shared<std::vector<LayerRow>>(1, std::move(slip)));
    table.push_back({name, [d, tensors, rows = parts.back()](std::size_t output) -> Bytes {
                       for (const LayerRow& row : *rows) {
                         if (std::ranges::find(row.tensors, tensors[output]) == row.tensors.end()) continue;
                         try {
                           Bytes bytes = row.bytes(*d, tensors[output]);
                           // Zeros alone tell no row from another.
                           const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
                           if (std::ranges::all_of(bytes, is_zero)) throw RowNotComputed();
                           return bytes;
                         } catch (const RowNotComputed&) {
                           throw;
                         } catch (const Error&) {
                           return {};
                         }
                       }
                       return {};
                     }});
  }
  return table;
}

// Whole layers.

std::vector<OtherLayer> other_layers(const LayerRecipe& own) {
  std::vector<OtherLayer> all;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    if (recipe.name != own.name)
      all.push_back({"recipe " + recipe.name, [&recipe](LayerRecipe& to, GateUp&, LayerRoutes&) { to = recipe; }});
  }
  const auto add = [&](const char* name, auto change) { all.push_back({name, change}); };
  add("gate and up values taken in the other order", [](LayerRecipe&, GateUp& order, LayerRoutes&) {
    order = order == GateUp::halves ? GateUp::interleaved : GateUp::halves;
  });
  add("all weights of routes taken for 1",
      [](LayerRecipe&, GateUp&, LayerRoutes& r) { std::ranges::fill(r.row_weight, 1.0F); });
  add("the weight of each route applied twice", [](LayerRecipe&, GateUp&, LayerRoutes& r) {
    for (float& w : r.row_weight) w *= w;
  });
  const auto each_token = [&](const char* name, auto change) {
    add(name, [change](LayerRecipe&, GateUp&, LayerRoutes& r) {
      for (std::size_t t = 0; t + 1 < r.token_offsets.size(); ++t)
        change(r.token_rows.begin() + r.token_offsets[t], r.token_rows.begin() + r.token_offsets[t + 1]);
    });
  };
  each_token("the rows of each token in their order, not in that of its slots",
             [](auto begin, auto end) { std::sort(begin, end); });
  each_token("the slots of each token from the last to the first",
             [](auto begin, auto end) { std::reverse(begin, end); });
  return all;
}

}  // namespace mxcheck
