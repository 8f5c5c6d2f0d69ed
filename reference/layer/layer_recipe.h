#pragma once
// The recipe of a mixture-of-experts layer as data: what each of its six GEMMs multiplies, in which format and blocks,
// under which contract, and what is kept for the backward pass. docs/layer.md has the layer, and the built-in recipes
// as a table.
//
//   const LayerRecipe& recipe = layer_recipe_named("mxfp8");
//   recipe.gemm(LayerGemm::up).a.block          // {1, 32}
//
// A block is one of the operand as the GEMM reads it, k last: 1x32 is 32 numbers along k, 128x128 as many rows of the
// operand; {0, 0} is the whole tensor, before rows are gathered, with all experts. Where k runs along tokens (d_w2,
// d_w1) a block of 1x32 is a column of 32 tokens of one expert, and the next expert starts a new one. Operands whose
// blocks have several rows of tokens are gathered first, and start new blocks at each expert too.
//
// Scales of two levels (the presets of NVFP4): blocks have E4M3 scales, and the whole tensor, all experts together, one
// outer scale s. The GEMM multiplies code * block scale, and alpha is RN(s_a * s_b) (reference/layer/operands.h).
//
// The scales "ms_eden" are of two levels too: MS-EDEN of Quartet II (ms_eden_of_lines, reference/quantize/ms_eden.h),
// which has groups of `rotates` numbers, or of 128 where nothing is rotated, and whose random words round the blocks'
// scales, not the codes.
//
// Errors: Error{usage} of layer_recipe_named, which lists the names, and of check, which says what of the recipe cannot
// be, and why.
//
// Does not promise: that training under a recipe converges.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "numerics/format/format.h"
#include "numerics/names.h"
#include "reference/common/matrix.h"

namespace mxcheck {

enum class LayerGemm : std::uint8_t { up, down, d_down, d_up, d_w2, d_w1 };
inline constexpr int kLayerGemmCount = 6;

// D = A B^T: which tensors these are, and what follows from it for every recipe.
struct LayerGemmSpec {
  LayerGemm value;
  std::string_view name;
  std::string_view formula;
  std::string_view a;
  std::string_view b;
  std::string_view k;  // the dimension that is summed over
  Format output;       // D's type
};
inline constexpr std::array<LayerGemmSpec, kLayerGemmCount> kLayerGemms{{
    {LayerGemm::up, "up", "H = X[gather] W1", "X", "W1", "d", Format::bf16},
    {LayerGemm::down, "down", "Y = A W2", "A", "W2", "n", Format::bf16},
    {LayerGemm::d_down, "d_down", "P = dO[gather] W2^T", "dO", "W2", "d", Format::fp32},
    {LayerGemm::d_up, "d_up", "dX~ = dH W1^T", "dH", "W1", "2n", Format::bf16},
    {LayerGemm::d_w2, "d_w2", "dW2 = A'^T dO[gather]", "A'", "dO", "tokens", Format::fp32},
    {LayerGemm::d_w1, "d_w1", "dW1 = X[gather]^T dH", "X", "dH", "tokens", Format::fp32},
}};
constexpr const LayerGemmSpec& spec(LayerGemm gemm) { return kLayerGemms[static_cast<std::size_t>(gemm)]; }

// The source of a quantized operand: the BF16 values, or the tensor as it was quantized for another GEMM, dequantized
// to FP32. Along tokens that is the GEMM that reads it along its rows (X of up, dO of d_down, dH of d_up), of weights
// in the backward pass the one of the forward pass (W2 of down for d_down, W1 of up for d_up).
enum class OperandSource : std::uint8_t { values, requantized };
inline constexpr std::array<Named<OperandSource>, 2> kOperandSources{
    {{"values", OperandSource::values}, {"requantized", OperandSource::requantized}}};

// TransformerEngine's NVFP4 recipe: the group of the Hadamard transform, and its signs: bit i set, element i of each
// group changes its sign.
inline constexpr int kRotationSize = 16;
inline constexpr std::uint32_t kRotationSigns = 0xD7E8;

// A block format, or BF16 as it is.
struct OperandRule {
  Format format = Format::bf16;  // bf16: not quantized, and nothing below counts
  BlockShape block{1, 32};
  std::string scales;  // a recipe of numerics/scale/recipe.h
  OperandSource source = OperandSource::values;
  // Before it is quantized, groups of so many numbers along k are rotated by the Hadamard transform
  // (reference/quantize/hadamard.h: butterfly, BF16): 16, 32, 64 or 128; 0: none are. Of a row of k, or of an expert's
  // tokens, smaller groups take what whole ones leave (reference/quantize/stretches.h).
  int rotates = 0;
  bool random_signs =
      false;                // of the rotation: other signs in each step and layer; else kRotationSigns, of groups of 16
  bool stochastic = false;  // codes are rounded by random words: LayerRandom, reference/layer/operands.h

  [[nodiscard]] bool quantized() const { return format != Format::bf16; }
  [[nodiscard]] bool of_whole_tensor() const { return block == BlockShape{0, 0}; }
  friend bool operator==(const OperandRule&, const OperandRule&) = default;
};

struct GemmRule {
  OperandRule a;
  OperandRule b;
  std::string contract;  // as text: reference/matmul/matmul.h
  friend bool operator==(const GemmRule&, const GemmRule&) = default;
};

struct LayerRecipe {
  std::string name;
  std::string meaning;
  std::array<GemmRule, kLayerGemmCount> gemms;  // by LayerGemm

  // The tensors kept from the forward pass for the backward one, beside the routing. X as BF16, or as up's operand
  // (codes and scales), from which every use of it in the backward pass is then made. H as BF16, or quantized in blocks
  // of its rows; the backward pass then has A and dH from the dequantized H.
  bool keeps_quantized_x = false;
  OperandRule kept_h;

  [[nodiscard]] const GemmRule& gemm(LayerGemm g) const { return gemms[static_cast<std::size_t>(g)]; }
  friend bool operator==(const LayerRecipe&, const LayerRecipe&) = default;
};

inline constexpr std::string_view kMsEdenScales = "ms_eden";
inline bool is_ms_eden(const OperandRule& rule) { return rule.quantized() && rule.scales == kMsEdenScales; }

// The type of a quantized operand's block scales, and whether an outer scale is beside them.
Format scale_format_of(const OperandRule& rule);
bool has_two_levels(const OperandRule& rule);

// Error{usage} for a name that is no recipe of scales, with the names.
void check_scales(const std::string& name);

// True if all elements of the tensor share a scale: the only one, or the outer one of two levels.
bool has_scale_of_tensor(const OperandRule& rule);

// True if an operand is rounded stochastically, or rotated under random signs: outputs depend on LayerRandom then.
bool is_stochastic(const LayerRecipe& recipe);

std::span<const LayerRecipe> all_layer_recipes();
const LayerRecipe& layer_recipe_named(std::string_view name);

// True if the layer can be computed so: formats and blocks that each contract takes, scale recipes that there are, and
// that what is requantized and what is kept exists. Needs no tensors.
void check(const LayerRecipe& recipe);

}  // namespace mxcheck
