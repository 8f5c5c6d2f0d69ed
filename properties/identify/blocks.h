#pragma once
// Finds the rounding of a black box that casts, and the recipe of one that quantizes: docs/identify.md.
//
//   const CastBox cast = [](std::span<const float> x) { return codes; };
//   identify_cast(Format::e4m3, cast).explaining        // {"nearest_even, saturate"}
//   const QuantizeBox quantizes = [](const QuantizeCall& call) { return QuantizeAnswer{codes, scales}; };
//   identify_quantize(Format::e4m3, {1, 32}, quantizes).match // .explaining of recipes by name
//
// Casts are compared on every code's value, every middle between two codes and its neighbours in FP32, special values,
// every word of BF16 (or FP16, where that is read); any two NaN codes are equal. Recipes are compared on blocks of amax
// values at which rules differ, with elements at ties, and blocks with NaN and Inf: bytes are equal or they are not.
// An explanation of these is held to the gate's own cases too, of every kind of data, in whole blocks and without
// options. Two recipes that give the same bytes there are both named.
//
// A cast of which each code is one of the two beside its value, as often the upper one as it is due, is "stochastic".
//
// Errors: Error{usage} for formats that are not quantized to, and answers of another size; what the box throws.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/json/json.h"
#include "numerics/format/codec.h"
#include "numerics/format/format.h"
#include "properties/core/definitions.h"
#include "reference/common/matrix.h"
#include "reference/quantize/word_order.h"

namespace mxcheck {

// declared: what the box claims to follow; x: the type of what it reads, FP32, BF16 or FP16, to which the inputs are
// rounded first.
struct BlocksQuestion {
  std::string declared;
  Format x = Format::fp32;
  std::vector<std::string> names = {};  // of a quantization: recipes to try in place of all
  std::int64_t most_cols = 0;           // the gate's cases that are wider are not asked; 0: no limit
};

using CastBox = std::function<std::vector<std::uint32_t>(std::span<const float> values)>;
Match identify_cast(Format format, const CastBox& box, const BlocksQuestion& question = {});
// Codes that are there already, as a dump's are. cols: of the matrix, for places. words: random words, one an element,
// with which a stochastic cast is tried too.
Match match_cast(const std::string& name, Format format, std::span<const float> x,
                 const std::vector<std::uint32_t>& codes, std::int64_t cols,
                 const std::vector<std::uint32_t>& words = {});

struct QuantizeCall {
  Format format = Format::e4m3;
  BlockShape block;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> x;
  Format dtype = Format::fp32;  // of x, which has values of that type alone
};
struct QuantizeAnswer {
  std::vector<std::uint32_t> codes;   // rows x cols
  std::vector<std::uint32_t> scales;  // row-major: E8M0 bytes, or FP32 words
  bool fp32_scales = false;
};
using QuantizeBox = std::function<QuantizeAnswer(const QuantizeCall& call)>;

// scales, elements: of a quantization with E8M0 scales that no recipe explains. Its scales alone, but for blocks with
// NaN, which some recipes look past; how elements are rounded under the scales that the box itself gave, a cast of
// x / 2^e, as if exact, where that scale is no NaN.
struct QuantizeMatch {
  Match match;
  std::optional<Match> scales = {};
  std::optional<Match> elements = {};
};
std::string to_text(const QuantizeMatch& found);
// The members of a match, and "scales" and "elements": likewise, or null.
Json to_json(const QuantizeMatch& found);

QuantizeMatch identify_quantize(Format format, BlockShape block, const QuantizeBox& box,
                                const BlocksQuestion& question = {});
// Codes and scales that are there already.
QuantizeMatch match_quantize(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& answer);
// The scale bytes alone, which are E8M0, also where a recipe explains all. Error{usage} for FP32.
Match identify_scales(Format format, BlockShape block, const QuantizeBox& box, const BlocksQuestion& question = {});

// The inputs of black boxes that cast and quantize: values at which roundings differ, amax values at which rules of
// scales do, special values. The same on every run.
//
// Errors: Error{usage} for types that no box reads.

struct CastProbe {
  std::string name;
  std::vector<float> x;
};
std::vector<CastProbe> cast_probes(Format format, Format type);
std::vector<std::pair<std::string, QuantizeCall>> quantize_probes(Format format, BlockShape block, Format type);
// The gate's own cases of equality, of every kind of data that it draws, in whole blocks.
std::vector<std::pair<std::string, QuantizeCall>> gate_probes(Format format, BlockShape block, Format type);

// Numbers as a tensor of FP32, BF16 or FP16 holds them.

// Rounded to nearest, ties to even.
inline std::vector<std::uint32_t> value_words(Format type, std::span<const float> values) {
  std::vector<std::uint32_t> words;
  for (float x : values) words.push_back(encode(type, x, Rounding::nearest_even, Overflow::non_saturate));
  return words;
}

inline std::vector<std::byte> value_bytes(Format type, std::span<const float> values) {
  const std::size_t width = type == Format::fp32 ? 4 : 2;
  std::vector<std::byte> bytes(values.size() * width);
  std::size_t at = 0;
  for (std::uint32_t word : value_words(type, values)) {
    std::memcpy(bytes.data() + at, &word, width);
    at += width;
  }
  return bytes;
}

// --- NVFP4
//
// Finds the recipe of two levels of scales that made a quantized matrix: NVFP4's codes, block scales and scale of the
// tensor.
//
//   Nvfp4Dump dump{rows, cols, Format::bf16, x, codes, {1, 16}, scales, 0.0123F};
//   match_nvfp4("dump", dump).explaining          // {"nvfp4_te, tensor_scale as amax"}
//
// Every recipe is tried with the scale of the tensor as it is given, read as each of the three numbers that are stored
// for it (s, its inverse S, the amax), and with that of the matrix's own amax. Where each row of a block has the same
// scale, blocks of 16 x 16 that repeat theirs are tried too.
//
// With a seed the codes may be rounded stochastically: a recipe that has every scale, under the
// scale of the tensor as it stores it, is tried with the words of each
// order (reference/quantize/word_order.h), as each output of a kernel, with the bytes of a word in both orders, and
// with the words of an element's number plus the seed's first call.
//
//   dump.seed = {{rng_state_0, rng_state_1}};
//   match_nvfp4("dump", dump).explaining          // {"nvfp4_te, words te_tuned:rows, bytes 0213"}
//
// Errors: Error{usage} for sizes that do not fit one another.

struct Nvfp4Dump {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Format dtype = Format::fp32;        // of x: fp32, bf16 or fp16
  std::vector<float> x;               // rows x cols
  std::vector<std::uint8_t> codes;    // rows x cols, one a byte
  BlockShape block{1, 16};            // 1 x 16, 16 x 1 or 16 x 16
  std::vector<std::uint8_t> scales;   // compact
  std::optional<float> tensor_scale;  // none: of the matrix's own amax
  std::optional<WordSeed> seed;       // of stochastic rounding; its bytes count for nothing, both orders are tried
};

Match match_nvfp4(const std::string& name, const Nvfp4Dump& dump);

}  // namespace mxcheck
