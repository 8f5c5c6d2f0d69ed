#include "properties/diagnosis/layer/causes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/core/compare.h"
#include "properties/diagnosis/layer/cause_search.h"
#include "properties/diagnosis/layer/cause_tables.h"
#include "properties/diagnosis/layer/inputs.h"

namespace mxcheck {

std::vector<LayerCause> structure_causes() {
  constexpr std::array kTables{swiglu_causes, swiglu_gradient_causes, weight_gradient_causes, slot_sum_causes,
                               gather_causes, weight_causes,          product_causes,         block_causes};
  std::vector<LayerCause> all;
  for (const auto& table : kTables) {
    for (LayerCause& cause : table()) all.push_back(std::move(cause));
  }
  return all;
}

std::vector<LayerCause> layer_causes(const LayerRecipe& recipe, const std::string& tensor) {
  std::vector<LayerCause> all;
  const auto take = [&](std::vector<LayerCause> from) {
    for (LayerCause& cause : from) {
      const bool shows = std::find(cause.tensors.begin(), cause.tensors.end(), tensor) != cause.tensors.end();
      if (shows) all.push_back(std::move(cause));
    }
  };
  take(structure_causes());
  take(recipe_causes(recipe));
  return all;
}

void make_nans_equal(const LayerTensor& t, Bytes& bytes) {
  if (t.dtype == Format::bf16 || t.dtype == Format::fp32)
    make_nans_equal(bytes, t.dtype == Format::bf16 ? Format::bf16 : Format::fp32);
}

CausesFound LayerCauseSearch::causes(const LayerTensor& t, const Bytes& again, const Bytes& found) {
  const Observed data{again, found, size_of(t.dtype)};
  std::vector<Hypothesis> hypotheses;
  double work = 0;
  std::size_t left_out = 0;
  const auto take = [&](const std::string& tensor, double cost) {
    for (LayerCause& cause : layer_causes(own_.recipe, tensor)) {
      work += cost;
      work > kMostWork ? void(++left_out) : hypotheses.push_back(hypothesis(std::move(cause), tensor, t.name));
    }
  };
  const auto likeliest = [&] {
    for (Hypothesis& each : hypotheses) {
      each.bytes = [bytes = std::move(each.bytes), &t] {
        Bytes all = bytes();
        make_nans_equal(t, all);
        return all;
      };
    }
    return likeliest_causes(data, std::exchange(hypotheses, {}), "element", 3);
  };
  const auto is_exact = [](const std::vector<std::string>& texts) {
    return !texts.empty() && texts[0].starts_with("every ");
  };
  double cost = cost_of(own_, t.name);
  take(t.name, cost);
  for (Hypothesis& whole : whole_layers(t.name)) hypotheses.push_back(std::move(whole));
  CausesFound result{likeliest(), ""};
  const std::vector<std::string> before = upstream(t.name);
  if (!is_exact(result.texts) && !before.empty()) {  // which costs more, as all between is made again too
    for (const std::string& tensor : before) cost += cost_of(own_, tensor);
    for (const std::string& tensor : before) take(tensor, cost);
    std::vector<std::string> further = likeliest();
    if (is_exact(further) || result.texts.empty()) result.texts = std::move(further);
  }
  if (result.texts.empty()) result.texts = constant_tail(data, "element");
  if (left_out != 0 && !is_exact(result.texts))
    result.note = std::to_string(left_out) +
                  " causes were not tried: the layer is too large; a dump of fewer tokens or experts is quicker";
  return result;
}

// The whole layer of the dump's own inputs computed otherwise: what a dump of few tensors is held against.
std::vector<Hypothesis> LayerCauseSearch::whole_layers(const std::string& name) {
  if (!others_) compute_others();
  std::vector<Hypothesis> all;
  for (auto& other : *others_) {
    LayerData& data = other.second;
    all.push_back({other.first, [&data, name] {
                     for (const LayerTensor& t : tensors_of(data)) {
                       if (t.name == name) return Bytes(t.data.begin(), t.data.end());
                     }
                     return Bytes();
                   }});
  }
  return all;
}

void LayerCauseSearch::compute_others() {
  others_.emplace();
  double work = 0;
  for (const char* output : {"H", "Y", "P", "dX_rows", "dW2", "dW1"}) work += cost_of(own_, output);
  const auto add = [&](const std::string& text, const LayerRecipe& recipe, GateUp order) {
    if (work * static_cast<double>(others_->size() + 1) > kMostWork) return;
    LayerData v = own_;
    v.recipe = recipe, v.gate_up = order;
    compute(v);
    others_->emplace_back(text, std::move(v));
  };
  for (const LayerRecipe& r : all_layer_recipes()) {
    if (r.name != own_.recipe.name) add("a layer under recipe " + r.name + " throughout", r, own_.gate_up);
  }
  const bool halves = own_.gate_up == GateUp::halves;
  add(std::string("a layer with the columns of W1 ") + (halves ? "interleaved" : "in halves") + " throughout",
      own_.recipe, halves ? GateUp::interleaved : GateUp::halves);
}

// Tensors that this one is made of, directly or over others, and that the dump lacks: their faults show here first.
// GEMM operands are left out: all their faults are among the GEMM's own causes.
std::vector<std::string> LayerCauseSearch::upstream(const std::string& name) const {
  std::vector<std::string> found;
  for (const std::string& parent : made_of(name)) {
    if (std::find(lacking_.begin(), lacking_.end(), parent) == lacking_.end()) continue;
    for (const std::string& further : upstream(parent)) found.push_back(further);
    found.push_back(parent);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// The cause's bytes in `tensor`, and what then comes of them in `shown`.
Hypothesis LayerCauseSearch::hypothesis(LayerCause cause, const std::string& tensor, const std::string& shown) const {
  const std::string text = tensor == shown ? cause.text : cause.text + " (in " + tensor + ")";
  return {text, [this, cause = std::move(cause), tensor, shown]() -> Bytes {
            try {
              Bytes bytes = cause.bytes(own_, tensor);
              return tensor == shown ? bytes : carried(tensor, bytes, shown);
            } catch (const Error&) {
              return {};  // a recipe that cannot be
            }
          }};
}

Bytes LayerCauseSearch::carried(const std::string& tensor, const Bytes& bytes, const std::string& shown) const {
  LayerData v = own_;
  set_tensor(v, tensor, bytes);
  const std::vector<std::string> between = upstream(shown);
  const auto needed = [&](const std::string& name) {
    if (name.starts_with("kept_h") || std::find(between.begin(), between.end(), name) != between.end()) return true;
    const std::optional<GemmTensor> operand = gemm_tensor(name);
    return operand && !operand->is_output &&
           (operand->gemm == gemm_of(shown) || std::any_of(between.begin(), between.end(), [&](const auto& each) {
              return operand->gemm == gemm_of(each);
            }));
  };
  const auto begin = std::find(lacking_.begin(), lacking_.end(), tensor);
  for (auto at = begin; at < lacking_.end(); ++at) {
    if (*at != tensor && *at != shown && needed(*at)) set_tensor(v, *at, made_again(v, *at));
  }
  return made_again(v, shown);
}

// Causes that are another recipe: of the layer, of an operand, or of a GEMM's sum.

namespace {

// D, and of the operands the codes and scales.
std::vector<std::string> tensors_of_gemm(const LayerGemmSpec& g, bool a, bool b) {
  std::vector<std::string> names;
  const std::string name(g.name);
  for (const char* output : {"H", "Y", "P", "dX_rows", "dW2", "dW1"}) {
    if (gemm_tensor(output)->gemm == g.value) names.emplace_back(output);
  }
  for (const char* part : {"_codes", "_scales"}) {
    if (a) names.push_back(name + "_a" + part);
    if (b) names.push_back(name + "_b" + part);
  }
  return names;
}

// The tensor under a recipe that is this one but for `change`.
template <class Change>
LayerCause under(std::vector<std::string> tensors, std::string text, Change change) {
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
LayerCause of_operands(const LayerGemmSpec& g, const SideText& side, std::string text, Set set) {
  const bool one = side.a != side.b;  // of both alone D depends
  return under(tensors_of_gemm(g, one && side.a, one && side.b), std::move(text),
               [gemm = g.value, side, set](LayerRecipe& r) {
                 for (const Side which : {Side::a, Side::b}) {
                   OperandRule& rule = rule_of(r, gemm, which);
                   if ((which == Side::a ? side.a : side.b) && rule.quantized()) set(rule);
                 }
               });
}

void add_operand_families(const LayerGemmSpec& g, std::vector<LayerCause>& to) {
  constexpr std::array<BlockShape, 8> kBlocks{
      {{1, 16}, {1, 32}, {1, 64}, {1, 128}, {32, 32}, {128, 128}, {0, 0}, {32, 1}}};
  for (const SideText& side : sides_of(g)) {
    for (const Recipe& scales : all_recipes()) {
      to.push_back(of_operands(g, side, "scales of recipe " + scales.name + " of " + side.text,
                               [name = scales.name](OperandRule& rule) { rule.scales = name; }));
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

void add_contracts(const LayerGemmSpec& g, std::vector<LayerCause>& to) {
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
      LayerCause cause{{tensors_of_gemm(g, false, false)}, "the sum of contract " + contract, {}};
      cause.bytes = [contract, gemm = g.value](const LayerData& d, const std::string& t) {
        LayerData v = d;
        v.recipe.gemms[static_cast<std::size_t>(gemm)].contract = contract;
        if (v.recipe == d.recipe) return Bytes();
        check(v.recipe);
        return made_again(v, t);
      };
      to.push_back(std::move(cause));
    }
  }
}

}  // namespace

std::vector<LayerCause> recipe_causes(const LayerRecipe& own) {
  std::vector<LayerCause> all;
  std::vector<std::string> every;
  for (const LayerGemmSpec& g : kLayerGemms) {
    for (std::string& name : tensors_of_gemm(g, true, true)) every.push_back(std::move(name));
  }
  for (const LayerRecipe& r : all_layer_recipes()) {
    if (r.name == own.name) continue;
    all.push_back(under(every, "layer recipe " + r.name, [&r](LayerRecipe& to) { to = r; }));
  }
  for (const LayerGemmSpec& g : kLayerGemms) add_operand_families(g, all);
  for (const LayerGemmSpec& g : kLayerGemms) add_contracts(g, all);
  return all;
}

// Causes in the blocks of operands along tokens.

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
    if (!rule.quantized() || rule.of_whole_tensor() || rule.source != OperandSource::values)
      throw Error(ErrorKind::usage, "no blocks along tokens");
    const LayerOperand values = gathered_values(d, g.gemm, side);
    const BlockShape block = by_rows ? rule.block : rule.block.transposed();
    LayerOperand x = values;
    x.is_quantized = true;
    x.quantized = quantize(view(values.values, values.rows, values.cols), rule.format, block, recipe_named(rule.scales),
                           {}, d.threads);
    return x;
  };
  if (!g.is_output) {
    const QuantizedTensor q = operand(g.side).quantized;
    return g.is_codes ? q.codes.data : q.scales().data;
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

std::vector<LayerCause> block_causes() {
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

}  // namespace mxcheck
