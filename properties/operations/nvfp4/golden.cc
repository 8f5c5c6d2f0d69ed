#include "properties/operations/nvfp4/golden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"
#include "properties/operations/nvfp4/dequantize.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/golden.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostInMemory = std::int64_t{1} << 26;  // elements
constexpr std::int64_t kEveryByte = 256;
constexpr std::int64_t kEveryCode = 16;

// Datasets that both kinds have. Codes are one a byte, as in every golden: of packed ones, the even column's is the low
// nibble.

void add_codes(GoldenBuilder& golden, Role role, std::span<const std::uint8_t> codes, std::int64_t rows,
               std::int64_t cols) {
  golden.add(role, "codes", Format::e2m1, {rows, cols}, codes, {{"meaning", "one code an element, in the low bits"}});
}

void add_tensor_scale(GoldenBuilder& golden, float stored, const Recipe& recipe) {
  golden.add(Role::input, "tensor_scale", Format::fp32, {1}, std::vector<float>{stored},
             {{"meaning", "the scale of the tensor as the recipe stores it"},
              {"stored", std::string(to_text(recipe.two_level.stored))}});
}

void add_values(GoldenBuilder& golden, const QuantizedTensor& q, std::span<const std::int64_t> offsets) {
  std::vector<std::uint32_t> values;
  for (const float value : dequantize(q, offsets)) values.push_back(std::bit_cast<std::uint32_t>(value));
  golden.add(
      Role::output, "values", Format::fp32, {q.rows(), q.cols()}, values,
      {{"meaning", "code times block scale under the tensor's, rounded once to nearest even; NaN is 0x7fc00000"}});
  golden.add(Role::output, "values_bf16", Format::bf16, {q.rows(), q.cols()}, dequantize_bf16(q, offsets),
             {{"meaning", "the same rounded once from the exact value; NaN is 0x7fc0"}});
}

// The case of a matrix, whose tensors come with it.
Case case_of_golden(std::string_view operation, const std::string& recipe, BlockShape block, std::int64_t rows,
                    std::int64_t cols, Format type, std::vector<std::int64_t> offsets, std::uint8_t pad_byte,
                    int layout = MXCHECK_COMPACT) {
  Case c;
  c.variant = {std::string(operation), type};
  blocks_of(c.variant) = {Format::e2m1, recipe, block, layout};
  c.rows = rows, c.cols = cols, c.experts = std::move(offsets);
  blocks_case(c).pad = pad_byte;
  return c;
}

// ---- quantize_nvfp4

Input read_whole(const InputSpec& spec_of_input, const std::string& directory, std::string& source) {
  InputRows rows = open_input(spec_of_input, directory);
  if (rows.rows > 0 && rows.cols > kMostInMemory / rows.rows) {
    throw Error(ErrorKind::usage, "an input of " + std::to_string(rows.rows) + " x " + std::to_string(rows.cols) +
                                      ": goldens of NVFP4 have at most " + std::to_string(kMostInMemory) + " elements");
  }
  source = rows.source;
  Input x{{}, rows.dtype, rows.rows, rows.cols, rows.cols};
  x.bytes.resize(static_cast<std::size_t>(x.rows) * x.row_bytes());
  rows.reader->read(x.bytes);
  return x;
}

std::vector<std::uint32_t> words_of(const WordsOfGolden& words, std::int64_t rows, std::int64_t cols, int threads) {
  return ordered_words(*words.named.order, word_matrix(words.named.output, rows, cols), words.seed, threads);
}

void add_words(GoldenBuilder& made, const WordsOfGolden& words) {
  made.attribute("words", to_text(words.named));
  made.attribute("word_bytes", std::string(name_in(kWordBytes, words.seed.bytes)));
  made.attribute("seed", std::to_string(words.seed.key));
  made.attribute("first_call", std::to_string(words.seed.first));
  made.attribute("words_read_from", std::string(words.named.order->source));
}

MadeGolden make_quantize_nvfp4(const GoldenSpec& spec_of_golden, const MakeOptions& options) {
  const auto& golden = spec_of_golden.get<QuantizeNvfp4Golden>();
  Recipe recipe = any_recipe_named(golden.recipe);
  if (golden.words) recipe.rounding = Rounding::stochastic;
  std::string source;
  const Input x = read_whole(golden.input, options.input_directory, source);
  QuantizeExtras extras;
  std::vector<float> outer;
  if (golden.tensor_scale) outer = {*golden.tensor_scale}, extras.outer = outer;
  std::vector<std::uint32_t> words;
  if (golden.words) words = words_of(*golden.words, x.rows, x.cols, options.threads), extras.words = words;
  const QuantizedTensor q =
      quantize(x.view(), Format::e2m1, golden.block, recipe, extras, golden.offsets, options.threads);
  const Tensor& stored = q.levels[1].scales;

  GoldenBuilder made(spec_of_golden);
  made.attribute("source", source);
  made.attribute("source_dtype", std::string(spec(x.dtype).dtype_name));
  made.attribute("format", std::string(spec(Format::e2m1).name));
  made.attribute("block", to_text(golden.block));
  made.attribute("rows", std::to_string(x.rows));
  made.attribute("cols", std::to_string(x.cols));
  made.attribute("pad_byte", std::to_string(golden.pad_byte));
  for (const auto& [key, value] : describe(recipe)) made.attribute(key, value);
  if (golden.words) add_words(made, *golden.words);
  made.bytes(Role::input, "x", spec(x.dtype).dtype_name, bits_of(x.dtype), {x.rows, x.cols}, x.bytes,
             {{"meaning", "bits of the matrix to quantize"}});
  add_tensor_scale(made, stored.empty() ? 1 : std::bit_cast<float>(stored.code(0)), recipe);
  if (!golden.offsets.empty()) {
    made.integers(Role::input, "offsets", vector_of(golden.offsets.size()), golden.offsets,
                  {{"meaning", "first row of each expert, then the number of rows; blocks restart there"}});
  }
  add_codes(made, Role::output, q.codes.as<std::uint8_t>(), x.rows, x.cols);
  made.add(Role::output, "scales", Format::e4m3, q.scales().shape, q.scales().data,
           {{"layout", "compact row-major, one a block"}});
  if (golden.tcgen05) {
    const Case c = case_of_golden("quantize_nvfp4", golden.recipe, golden.block, x.rows, x.cols, x.dtype,
                                  golden.offsets, golden.pad_byte);
    const std::vector<std::uint8_t> tiles =
        in_layout(c, scale_geometry(c, golden.block), values_in<std::uint8_t>(q.scales().data), MXCHECK_TCGEN05);
    made.add(Role::output, "scales_tcgen05", Format::e4m3, vector_of(tiles.size()), tiles,
             {{"layout", "tcgen05: tiles of 128 rows by 4 scale columns, 512 bytes each"}});
  }
  add_values(made, q, golden.offsets);
  return made.take();
}

std::string two_level_name(JsonObject& o) {
  return at_place(o, "recipe", [&] {
    const Recipe recipe = any_recipe_named(o.text("recipe"));
    if (!recipe.has_two_levels())
      throw Error(ErrorKind::usage, "has one level of scales: a recipe of NVFP4 is needed, as nvfp4_te");
    return recipe.name;
  });
}

float parse_tensor_scale(JsonObject& o) {
  const float scale = std::bit_cast<float>(parse_bits(o, "tensor_scale", o.required("tensor_scale"), Format::fp32));
  if (!std::isfinite(scale) || !(scale > 0)) o.refuse("tensor_scale", "is bits of a positive finite float32");
  return scale;
}

std::optional<WordsOfGolden> parse_words_of(JsonObject& o) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (!o.has("words")) {
    for (const char* key : {"word_bytes", "seed", "first_call"})
      if (o.has(key)) o.refuse(key, "is of words");
    return std::nullopt;
  }
  WordsOfGolden words;
  words.named = at_place(o, "words", [&] { return parse_words(o.text("words")); });
  words.seed.key = static_cast<std::uint64_t>(o.integer("seed", 0, kMost));
  if (o.has("first_call")) words.seed.first = static_cast<std::uint64_t>(o.integer("first_call", 0, kMost));
  const std::string bytes = o.text_or("word_bytes", "0213");
  words.seed.bytes = at_place(o, "word_bytes", [&] { return entry_named(kWordBytes, "order of bytes", bytes).value; });
  return words;
}

std::any parse_quantize_nvfp4(JsonObject& o) {
  QuantizeNvfp4Golden golden;
  golden.input = parse_input(o.required("input"), o.place() + ".input");
  golden.block = at_place(o, "block", [&] { return block_shape_named(o.text("block")); });
  const bool square = golden.block == BlockShape{16, 16};
  if (!square && golden.block != BlockShape{1, 16}) o.refuse("block", "is \"1x16\" or \"16x16\"");
  golden.recipe = two_level_name(o);
  if (o.has("tensor_scale")) golden.tensor_scale = parse_tensor_scale(o);
  golden.offsets = parse_offsets(o);
  golden.pad_byte = parse_pad_byte(o);
  golden.words = parse_words_of(o);
  if (!o.has("layouts")) return golden;
  for (const Json& layout : o.list("layouts", 1)) {
    if (text_in(layout) != "tcgen05" || square) o.refuse("layouts", "are [\"tcgen05\"], of blocks of 1x16");
    golden.tcgen05 = true;
  }
  return golden;
}

// ---- dequantize_nvfp4

MadeGolden make_dequantize_nvfp4(const GoldenSpec& spec_of_golden, const MakeOptions&) {
  const auto& golden = spec_of_golden.get<DequantizeNvfp4Golden>();
  const Recipe recipe = any_recipe_named(golden.recipe);
  std::vector<std::uint8_t> codes, scales;
  for (std::int64_t i = 0; i < kEveryByte * kEveryCode; ++i) codes.push_back(static_cast<std::uint8_t>(i % kEveryCode));
  for (std::int64_t i = 0; i < kEveryByte; ++i) scales.push_back(static_cast<std::uint8_t>(i));
  GoldenBuilder made(spec_of_golden);
  made.attribute("format", std::string(spec(Format::e2m1).name));
  made.attribute("block", "1x16");
  made.attribute("rows", std::to_string(kEveryByte));
  made.attribute("cols", std::to_string(kEveryCode));
  for (const auto& [key, value] : describe(recipe)) made.attribute(key, value);
  add_codes(made, Role::input, codes, kEveryByte, kEveryCode);
  made.add(Role::input, "scales", Format::e4m3, {kEveryByte, 1}, scales);
  add_tensor_scale(made, golden.tensor_scale, recipe);
  add_values(
      made,
      nvfp4_tensor({1, 16}, recipe, {kEveryByte, kEveryCode}, codes, {kEveryByte, 1}, scales, golden.tensor_scale), {});
  return made.take();
}

std::any parse_dequantize_nvfp4(JsonObject& o) {
  DequantizeNvfp4Golden golden;
  golden.recipe = two_level_name(o);
  golden.tensor_scale = parse_tensor_scale(o);
  return golden;
}

// ---- why a candidate's dataset differs

BlockShape block_of(const GoldenInfo& info) {
  const BlockShape block = block_shape_named(attribute(info.attributes, "block"));
  if (block != BlockShape{1, 16} && block != BlockShape{16, 16})
    throw Error(ErrorKind::golden, "attribute block is " + to_text(block) + ": must be 1x16 or 16x16");
  return block;
}

// The parts of a golden, and those of them that the candidate has in the right form.
struct Nvfp4Parts {
  std::int64_t rows = 0, cols = 0;
  std::vector<std::int64_t> offsets;
  float tensor_scale = 1;
  Case c;
  Tensor codes, scales;

  explicit Nvfp4Parts(const GoldenTensors& golden) {
    const GoldenInfo& info = golden.info;
    rows = number_of(info, "rows"), cols = number_of(info, "cols");
    codes = in_format(golden, "codes", Format::e2m1, {rows, cols});
    if (info.find("offsets") != nullptr) {
      offsets = values_in<std::int64_t>(golden_tensor(golden, "offsets", Format::int64, {kAnyExtent}).data);
      check_offsets(offsets, rows);
    }
    tensor_scale = golden_tensor(golden, "tensor_scale", Format::fp32, {1}).as<float>()[0];
    const std::uint8_t pad = attribute(info.attributes, "pad_byte").empty()
                                 ? std::uint8_t{0}
                                 : static_cast<std::uint8_t>(number_of(info, "pad_byte"));
    const Recipe recipe = any_recipe_named(attribute(info.attributes, "recipe"));
    if (!recipe.has_two_levels() || !std::isfinite(tensor_scale) || !(tensor_scale > 0))
      throw Error(ErrorKind::golden, "its recipe has one level of scales, or its tensor_scale is not positive");
    c = case_of_golden("quantize_nvfp4", recipe.name, block_of(info), rows, cols, Format::bf16, offsets, pad);
    const ScaleGeometry g = scale_geometry(c, blocks_of(std::as_const(c.variant)).block);
    scales = in_format(golden, "scales", Format::e4m3, {g.rows, g.cols});
  }

  // Replaces a part by the candidate's.
  bool take(const CandidateTensor& candidate, const char* name, Tensor& part) const {
    std::optional<Tensor> own = candidate(name);
    if (!own || own->data.size() != part.data.size() || own->data == part.data) return false;
    if (part.format == Format::e2m1) {
      for (const std::byte code : own->data) {
        if (code > std::byte{0xF}) return false;
      }
    }
    part.data = std::move(own->data);
    return true;
  }
};

Table rows_of_values(const Nvfp4Parts& parts, const GoldenInfo& info, const DatasetInfo& dataset,
                     const CandidateTensor& candidate) {
  Case c = parts.c;
  c.variant.operation = "dequantize_nvfp4";
  c.variant.dtype = dataset.name == "values" ? Format::fp32 : Format::bf16;
  const auto problem = [&](const Tensor& codes, const Tensor& scales) {
    return DequantizeNvfp4Problem(c, values_in<std::uint8_t>(packed_rows(codes.as<std::uint8_t>(), parts.cols)),
                                  values_in<std::uint8_t>(scales.data), parts.tensor_scale);
  };
  Table all;
  Tensor codes = parts.codes, scales = parts.scales;
  const bool is_output = info.find("codes")->role == Role::output;
  const bool has_codes = is_output && parts.take(candidate, "codes", codes);
  const bool has_scales = is_output && parts.take(candidate, "scales", scales);
  if (has_codes || has_scales) {
    const auto own = std::make_shared<DequantizeNvfp4Problem>(problem(codes, scales));
    all.push_back(definition_of_output(
        0, "values follow from the candidate's own codes and scales", [own] { return own->answer()[0].bytes; }, {},
        true));
  }
  for (Definition& row : problem(parts.codes, parts.scales).definitions({})) all.push_back(std::move(row));
  return all;
}

// The words of a golden's attributes.
WordsOfGolden words_in(const GoldenInfo& info) {
  WordsOfGolden words;
  words.named = parse_words(attribute(info.attributes, "words"));
  const auto number = [&](const char* key) {
    const auto found = parse_number<std::uint64_t>(attribute(info.attributes, key));
    if (!found) throw Error(ErrorKind::golden, std::string("attribute ") + key + " is no number below 2^64");
    return *found;
  };
  words.seed = {number("seed"), number("first_call"),
                entry_named(kWordBytes, "order of bytes", attribute(info.attributes, "word_bytes")).value};
  return words;
}

// The codes of a golden's x, rounded otherwise.
struct CodesOfGolden {
  std::shared_ptr<const Tensor> x;
  Recipe recipe;
  BlockShape block;
  float tensor_scale;
  std::vector<std::int64_t> offsets;

  [[nodiscard]] Bytes rounded(Rounding rounding, const std::optional<WordsOfGolden>& by) const {
    Recipe own = recipe;
    own.rounding = rounding;
    std::vector<std::uint32_t> words;
    if (by) words = words_of(*by, x->rows(), x->cols(), 0);
    const std::vector<float> outer{tensor_scale};
    const MatrixView view{x->format, x->data.data(), x->rows(), x->cols(), x->cols()};
    return quantize(view, Format::e2m1, block, own, {.outer = outer, .words = words}, offsets).codes.data;
  }
};

// Codes by other words under the same seed, and without words.
Table rows_of_words(const GoldenInfo& info, const Nvfp4Parts& parts, const Tensor& x) {
  const WordsOfGolden own = words_in(info);
  const CodesOfGolden codes{std::make_shared<Tensor>(x), any_recipe_named(attribute(info.attributes, "recipe")),
                            block_of(info), parts.tensor_scale, parts.offsets};
  Table rows;
  const auto add = [&](std::string name, Rounding rounding, const std::optional<WordsOfGolden>& by = {}) {
    rows.push_back(definition_of_output(
        0, std::move(name), [codes, rounding, by] { return codes.rounded(rounding, by); },
        by ? std::string(by->named.order->source) : ""));
  };
  add("codes: rounded to nearest, without the words", Rounding::nearest_even);
  add("codes: truncated, as under words of 0", Rounding::toward_zero);
  for (const WordOrder& order : word_orders()) {
    for (const auto& output : kWordOutputs) {
      if (!has_words(order, word_matrix(output.value, x.rows(), x.cols()))) continue;
      for (const auto& bytes : kWordBytes) {
        const NamedWords named{&order, output.value};
        if (to_text(named) == to_text(own.named) && bytes.value == own.seed.bytes) continue;
        add("words " + to_text(named) + ", bytes " + std::string(bytes.name), Rounding::stochastic,
            WordsOfGolden{named, {own.seed.key, own.seed.first, bytes.value}});
      }
    }
  }
  if (own.seed.first != 0) {
    add("words from call 0: the first call is ignored", Rounding::stochastic,
        WordsOfGolden{own.named, {own.seed.key, 0, own.seed.bytes}});
  }
  if (own.seed.key >> 32 != 0) {
    add("words: the high half of the seed is dropped", Rounding::stochastic,
        WordsOfGolden{own.named, {own.seed.key & 0xFFFFFFFF, own.seed.first, own.seed.bytes}});
  }
  return rows;
}

Table rows_of_nvfp4(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate) {
  const Nvfp4Parts parts(golden);
  if (dataset.name.starts_with("values")) return rows_of_values(parts, golden.info, dataset, candidate);
  const DatasetInfo* x_info = golden.info.find("x");
  if (x_info == nullptr) return {};
  const Format type = format_of_dataset(golden, "x");
  const bool tiled = dataset.name == "scales_tcgen05";
  const bool square = blocks_of(std::as_const(parts.c.variant)).block.rows != 1;
  if ((type != Format::bf16 && type != Format::fp16 && type != Format::fp32) || (tiled && square))
    throw Error(ErrorKind::golden, "its x has another type than bfloat16, float16, float32, or its scales no tiles");
  const Tensor x = in_format(golden, "x", type, {parts.rows, parts.cols});
  if (dataset.name == "codes" && !attribute(golden.info.attributes, "words").empty())
    return rows_of_words(golden.info, parts, x);
  Case c = parts.c;
  c.variant.dtype = type;
  if (tiled) blocks_of(c.variant).layout = MXCHECK_TCGEN05;
  const Nvfp4Problem problem(c, Input{x.data, type, parts.rows, parts.cols, parts.cols}, parts.tensor_scale);
  std::vector<Bytes> observed;
  Tensor scales = parts.scales;
  if (!tiled && parts.take(candidate, "scales", scales))
    observed = {packed_rows(parts.codes.as<std::uint8_t>(), parts.cols), scales.data};
  const bool are_codes = dataset.name == "codes";
  return rows_of_dataset(
      problem.definitions(observed), are_codes ? 0 : 1,
      [are_codes, cols = parts.cols](const Bytes& b) { return are_codes ? to_bytes(unpacked_rows(b, cols)) : b; });
}

}  // namespace

std::vector<const GoldenKind*> nvfp4_golden_kinds() {
  static const GoldenKind kQuantize("quantize_nvfp4", parse_quantize_nvfp4, make_quantize_nvfp4, rows_of_nvfp4);
  static const GoldenKind kDequantize("dequantize_nvfp4", parse_dequantize_nvfp4, make_dequantize_nvfp4, rows_of_nvfp4);
  return {&kQuantize, &kDequantize};
}

}  // namespace mxcheck
