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
// Kinds of goldens of NVFP4 (docs/nvfp4.md); "recipe" is one of two levels. Codes are one a byte.
//
//   quantize_nvfp4    "input", "recipe", "block" ("1x16", "16x16"); optional "tensor_scale" (bits of float32, as the
//                     recipe stores it; else that of the input's own amax), "offsets", "layouts" (["tcgen05"]),
//                     "pad_byte"; "words" (ORDER:OUTPUT, reference/quantize/word_order.h) with "seed", "first_call",
//                     "word_bytes": codes rounded stochastically. In: x, tensor_scale, offsets if any. Out: codes,
//                     scales (E4M3), scales_tcgen05, values (float32), values_bf16.
//   dequantize_nvfp4  "recipe", "tensor_scale". In: codes [256, 16], scales [256, 1]: every code under every scale
//                     byte, and tensor_scale. Out: values, values_bf16.
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
//   case        "case": a case of the gate, of any operation (properties/goldens/case.h). In: the inputs that the gate
//               draws for it. Out: its outputs.
//
// "input" is one of
//   {"real": "layer0.w1"}                  an embedded tensor (goldens/data/embedded.h)
//   {"file": "x.npy"}                      relative to the spec; what mxcheck quantize takes, plus "index" and "dtype"
//   {"bits": ["3f80", ...], "rows": R, "cols": C, "dtype": "bf16"}
//   {"patterns": "bf16"}                   all 65,536 of a 16-bit type, as 256 x 256
//   {"ties": "fp32", "rows": R, "cols": C} logits of few values that lie close together (properties/goldens/input.h)
//   {"loads": [0, 3, ...], "dtype": "bf16"}  logits whose largest give expert e that many tokens
//   {"cycle": ["3f80", ...], "rows": R, "cols": C, "dtype": "bf16"}  these bits over and over, row after row
//   {"normal": SEED, "exponent": E, "rows": R, "cols": C, "dtype": "bf16"}  about normal, of variance 2^2E
// Any of them but file may add "rows_of": [0, 70], "cols_of": [0, 97] (half-open) and "plant": [[row, col, "7f80"],
// ...]: bits put over the element.
//
// Untrusted: at most 1 MiB of text, 4,096 goldens, no key twice, no key that is not listed, sizes bounded. Errors:
// Error{usage} with the place ("goldens[3].block") and what would be right.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "goldens/format/manifest.h"
#include "properties/goldens/kind.h"

namespace mxcheck {

struct GoldenSuite {
  std::string name, description;
  std::vector<GoldenSpec> goldens;
};

GoldenSuite parse_suite(std::string_view text, const std::string& where);
GoldenSuite read_suite(const std::string& path);

// The suites that come with mxcheck, in the order of the documentation; their texts are goldens/suites/*.json.
const std::vector<GoldenSuite>& builtin_suites();
const GoldenSuite& builtin_suite(std::string_view name);  // Error{usage} lists the names

// The texts of goldens/suites/*.json, as they travel inside the library.
struct BuiltinText {
  const char* name;  // "formats"
  std::string_view text;
};
std::span<const BuiltinText> builtin_texts();

// Computes a golden with the reference and writes it.
//
// The bytes depend on the spec and the input alone: not on the number of threads, the machine or the date. A tensor
// from a file is read, quantized and written panel by panel (32 MiB of it at a time); only its scales are held whole.
//
// Errors: those of the input's reader, of quantize and of GoldenWriter, with the golden's name in front.

// Writes DIRECTORY/NAME.h5.
ManifestEntry make_golden(const GoldenSpec& golden, const std::string& directory, const MakeOptions& options);

// Makes the directory if there is none, every golden of the suite, and then the manifest, which keeps the entries of
// other goldens already there. All of them appear, or none: until the last is complete they have temporary names, and a
// failure leaves the directory as it was, or none where there was none. Error{golden} when there is a manifest that
// cannot be read.
Manifest make_suite(const GoldenSuite& suite, const std::string& directory, const MakeOptions& options,
                    const std::function<void(const ManifestEntry&)>& made = {});

}  // namespace mxcheck
