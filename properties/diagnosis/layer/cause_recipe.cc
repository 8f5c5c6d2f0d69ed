// Causes that are another recipe: of the layer, of an operand, or of a GEMM's sum.

#include <algorithm>
#include <array>
#include <utility>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/diagnosis/layer/causes.h"

namespace mxcheck {
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

}  // namespace mxcheck
