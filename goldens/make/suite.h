#pragma once
// Suites: a suite is a JSON text that lists goldens, with the whole input of those that are generated.
//
//   {"suite": "blocks", "description": "...", "goldens": [GOLDEN, ...]}
//
// GOLDEN: {"name": NAME, "kind": KIND, "description": TEXT, ...}. NAME is letters, digits, '_' and '-'; the file is
// NAME.h5. What a file of each kind holds (in: given to an implementation; out: the expected output):
//
//   formats     what every code means. Out: one float32 dataset a format of "formats" (all when absent), named by it;
//               index = code.
//   casts       "format" (any but fp32). In: x, float32: every finite value of the format, every midpoint between two
//               of them and beyond the largest, each -1, 0 and +1 ulp, both signs; zeros, infinities, NaNs, subnormals,
//               FLT_MAX. Out: codes by rounding and overflow: nearest_even_saturate, nearest_even_non_saturate,
//               nearest_away_saturate, toward_zero_saturate, toward_zero_non_saturate; stochastic_saturate with the
//               words of input random_words (uint32).
//   scales      "format". In: amax, float32: edges of every binade for the format's largest value and the list that
//               distinguishes all rules (docs/goldens.md). Out: one dataset a recipe, named by it: E8M0 bytes, or
//               float32.
//   layout      "rows", "cols" of scales, "pad_byte". In: scales, bytes [rows, cols], all different from their
//               neighbours. Out: tcgen05 (bytes), deepgemm (uint32 words): reference/quantize/scale_layout.h.
//   dequantize  "format". In: codes [256, n], scales [256, n / 32] for blocks of 1 x 32: every code under every scale
//               byte. Out: values (float32), values_bf16.
//   quantize    "input", "format", "block", "recipe"; optional "offsets", "layouts" (of "tcgen05", "deepgemm"),
//               "pad_byte", "values" (true: the dequantized values too). In: x [rows, cols], offsets (int64) if any.
//               Out: codes, scales (compact; E8M0 bytes or float32), scales_tcgen05, scales_deepgemm, values.
//
// Kinds of goldens of routers (docs/router.md); ROUTER is "top_k" and, if wanted, "groups" with "groups_kept", "nan"
// ("refuse", "last"), "scale" and "bias" (bits of float32, one and a list). In: logits [tokens, experts], bias. Names
// in datasets have '_' for '-'.
//
//   route           "input", ROUTER, "variants" (all when absent). Out: experts_VARIANT (int32) and weights_VARIANT
//                   (float32), [tokens, top_k].
//   route_round     "input", ROUTER, "variant", "rules" (all when absent), "tile", "capacity" (of the rules that have
//                   one), "weights" ("renorm", "raw"), "seed", "layer", "step". Out: chosen, and of each rule
//                   offsets_RULE, row_token_RULE, row_weight_RULE, token_offsets_RULE, token_rows_RULE, as long as
//                   there are rows.
//   route_metadata  "experts", "tile", "slots": the expert of each, -1 for none; "width": slots of a token, or
//                   "token_offsets". In: slot_experts (int32), token_offsets (int64) if any. Out: counts, offsets,
//                   row_slot, row_token, row_expert, as long as there are rows, and slot_row.
//   route_backward  as route. In also: experts_VARIANT and gradient [tokens, top_k]. Out: logits_gradient_VARIANT
//                   (float32).
//   route_losses    "input", ROUTER, "variant", "coefficient" (bits of float32). In: counts too. Out: balance_loss,
//                   balance_gradient, z_loss, z_gradient (float32).
//
// Kinds of goldens of layers (docs/layer.md); inputs are BF16 where nothing else is said.
//
//   swiglu      "gate" and "up", each [rows, n], or "h" [rows, 2n]; "p" [rows, n] and "weights" [rows, 1], BF16 or
//               float32; optional "gate_up" ("halves", "interleaved"), "offsets", "h_codes": {"format", "recipe"} (H as
//               codes and scales of blocks 1 x 32), "codes": a list of {"of": "A", "scaled_A" or "dH", "format",
//               "block": "1xN", "recipe", "along": "columns" or "tokens"}. In: H or H_codes and H_scales, P,
//               row_weight, offsets. Out: A, scaled_A, dH, dS (float32), and OF_FORMAT_BLOCK_RECIPE_codes and _scales;
//               along tokens OF_T_..., of the transpose.
//   layer       "recipe" (mxcheck layer --list), "x" and "d_o" [tokens, d], "logits" [tokens, experts], "gate" and "up"
//               [d, n] and "down" [n, d]: lists of inputs, one an expert; ROUTER, "variant"; optional "gate_up",
//               "closed" (experts that are to get no rows: their logits are the lowest finite number), "rules" (one)
//               with what route_round has. In: logits, bias, X, W1, W2, the routes, dO. Out: every tensor of the run
//               by its name.
//
// "input" is one of
//   {"real": "layer0.w1"}                  an embedded tensor (goldens/data/embedded.h)
//   {"file": "x.npy"}                      relative to the spec; what mxcheck quantize takes, plus "index" and "dtype"
//   {"bits": ["3f80", ...], "rows": R, "cols": C, "dtype": "bf16"}
//   {"patterns": "bf16"}                   all 65,536 of a 16-bit type, as 256 x 256
//   {"ties": "fp32", "rows": R, "cols": C} logits of few values that lie close together (goldens/make/logits.h)
//   {"loads": [0, 3, ...], "dtype": "bf16"}  logits whose largest give expert e that many tokens
//   {"cycle": ["3f80", ...], "rows": R, "cols": C, "dtype": "bf16"}  these bits over and over, row after row
//   {"normal": SEED, "exponent": E, "rows": R, "cols": C, "dtype": "bf16"}  about normal, of variance 2^2E
// Any of them but file may add "rows_of": [0, 70], "cols_of": [0, 97] (half-open) and "plant": [[row, col, "7f80"],
// ...]: bits put over the element.
//
// Untrusted: at most 1 MiB of text, 4,096 goldens, no key twice, no key that is not listed, sizes bounded. Errors:
// Error{usage} with the place ("goldens[3].block") and what would be right.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/format/format.h"
#include "numerics/scale/recipe.h"
#include "reference/common/matrix.h"
#include "reference/layer/layer_recipe.h"
#include "reference/layer/swiglu.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

enum class GoldenKind : std::uint8_t {
  formats,
  casts,
  scales,
  layout,
  dequantize,
  quantize,
  route,
  route_round,
  route_metadata,
  route_backward,
  route_losses,
  swiglu,
  layer,
};

enum class SyntheticLogits : std::uint8_t { none, ties, loads };  // goldens/make/logits.h

struct Planted {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::uint32_t bits = 0;
};

// Half-open.
struct Range {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

struct InputSpec {
  std::string real, file, patterns;  // exactly one of these, or bits, or synthetic
  std::vector<std::uint32_t> bits;
  bool cycle = false;                   // bits over and over
  std::optional<std::uint32_t> normal;  // the seed
  int exponent = 0;
  SyntheticLogits synthetic = SyntheticLogits::none;
  std::vector<std::int64_t> loads;
  Format dtype = Format::bf16;  // of bits, patterns and synthetic logits
  std::string file_dtype;       // of file: "bf16" or "fp16" for unsigned 16-bit integers
  std::optional<std::int64_t> index;
  std::optional<Range> row_range, col_range;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<Planted> plants;
};

struct RouteSpec {
  std::vector<const RouterVariant*> variants;
  Router router;            // without variant and bias
  std::vector<float> bias;  // empty: none
  std::vector<TokenRoundingRule> rules;
  TokenRounding token_rounding;  // without rule; route_metadata: its tile
  std::int64_t experts = 0, width = 0;
  std::vector<std::int32_t> slots;
  std::vector<std::int64_t> token_offsets;
  float coefficient = 0;
};

// Codes and scales of one of SwiGLU's outputs.
struct SwigluCodes {
  std::string of;  // "A", "scaled_A", "dH"
  Format format = Format::e4m3;
  std::int64_t block = 32;  // along the depth
  std::string recipe;
  bool along_tokens = false;  // of the transpose, blocks starting again at each expert
};
std::string name_of(const SwigluCodes& codes);  // "dH_T_e4m3_1x32_rceil"; its datasets are this and "_codes", "_scales"

struct SwigluSpec {
  InputSpec gate, up, h, p, weights;  // gate and up, or h
  bool has_h = false;
  std::optional<SwigluCodes> h_codes;  // its format and recipe alone
  std::vector<SwigluCodes> codes;
};

struct LayerGoldenSpec {
  const LayerRecipe* recipe = nullptr;
  InputSpec x, d_o;
  std::vector<InputSpec> gate, up, down;  // an expert each
  std::vector<std::int64_t> closed;
};

struct GoldenSpec {
  std::string name, description;
  GoldenKind kind = GoldenKind::quantize;
  std::vector<Format> formats;
  Format format = Format::e4m3;
  BlockShape block;
  std::string recipe = "rceil";
  std::int64_t rows = 0;  // layout
  std::int64_t cols = 0;
  std::vector<std::int64_t> offsets;
  bool tcgen05 = false, deepgemm = false, values = false;
  std::uint8_t pad_byte = 0;
  RouteSpec route;
  GateUp gate_up = GateUp::halves;
  SwigluSpec swiglu;
  LayerGoldenSpec layer;
  InputSpec input;  // of a layer: its logits
};

struct GoldenSuite {
  std::string name, description;
  std::vector<GoldenSpec> goldens;
};

GoldenSuite parse_suite(std::string_view text, const std::string& where);
GoldenSuite read_suite(const std::string& path);

// The suites that come with mxcheck, in the order of the documentation; their texts are goldens/suites/*.json.
const std::vector<GoldenSuite>& builtin_suites();
const GoldenSuite& builtin_suite(std::string_view name);  // Error{usage} lists the names

std::string_view to_text(GoldenKind kind);

}  // namespace mxcheck
