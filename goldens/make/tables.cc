#include "goldens/make/tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "goldens/make/boundaries.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kScaleBytes = 256;
constexpr std::int64_t kBlock = 32;

class Builder {
 public:
  explicit Builder(const GoldenSpec& golden) { table_.info.attributes = common_attributes(golden); }

  template <class T>
  void add(Role role, const std::string& name, Format format, std::vector<std::int64_t> shape,
           const std::vector<T>& values, Attributes attributes = {}) {
    constexpr Dtype kDtype = sizeof(T) == 1 ? Dtype::u8 : sizeof(T) == 2 ? Dtype::u16 : Dtype::u32;
    table_.info.datasets.push_back(
        {name, role, std::string(spec(format).dtype_name), kDtype, std::move(shape), std::move(attributes)});
    table_.data.push_back(to_bytes(values));
  }
  // Codes in the smallest unsigned integer that holds them.
  void add_codes(Role role, const std::string& name, Format format, std::vector<std::int64_t> shape,
                 const std::vector<std::uint32_t>& codes, Attributes attributes = {}) {
    if (spec(format).bits <= 8) {
      add(role, name, format, std::move(shape), std::vector<std::uint8_t>(codes.begin(), codes.end()),
          std::move(attributes));
    } else {
      add(role, name, format, std::move(shape), std::vector<std::uint16_t>(codes.begin(), codes.end()),
          std::move(attributes));
    }
  }
  void words(Role role, const std::string& name, std::vector<std::int64_t> shape,
             const std::vector<std::uint32_t>& values, Attributes attributes) {
    add(role, name, Format::fp32, std::move(shape), values, std::move(attributes));
    table_.info.datasets.back().format = "uint32";
  }
  void attribute(const std::string& key, const std::string& value) { table_.info.attributes.emplace_back(key, value); }
  Table take() { return std::move(table_); }

 private:
  Table table_;
};

std::vector<std::int64_t> vector_of(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

Table make_formats(const GoldenSpec& golden) {
  Builder table(golden);
  for (const Format format : golden.formats) {
    std::vector<std::uint32_t> values;
    for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(format).bits; ++code) {
      const auto value = static_cast<float>(decode(format, code));  // every format's values are floats
      values.push_back(std::isnan(value) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(value));
    }
    table.add(Role::output, std::string(spec(format).name), Format::fp32, vector_of(values.size()), values,
              {{"meaning", "value of every code of " + std::string(spec(format).dtype_name) + "; index = code"}});
  }
  return table.take();
}

// Words whose carries lie on the edges, then a fixed scramble of the index.
std::uint32_t stochastic_word(std::size_t index) {
  constexpr std::uint32_t kEdges[] = {0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF};
  if (index % 2 == 0) return kEdges[index / 2 % 4];
  return static_cast<std::uint32_t>(index) * 2654435761U;
}

Table make_casts(const GoldenSpec& golden) {
  Builder table(golden);
  table.attribute("format", std::string(spec(golden.format).name));
  const std::vector<std::uint32_t> x = cast_boundaries(golden.format);
  table.add(Role::input, "x", Format::fp32, vector_of(x.size()), x, {{"meaning", "bits of the floats to cast"}});
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < x.size(); ++i) words.push_back(stochastic_word(i));
  table.words(Role::input, "random_words", vector_of(x.size()), words,
              {{"meaning", "for stochastic_saturate: added to the first 32 bits of the discarded fraction"}});
  std::vector<Rounding> roundings;
  for (const auto& entry : kElementRoundings) roundings.push_back(entry.value);
  if (golden.format == Format::e8m0) roundings.push_back(Rounding::upward);
  const auto add = [&](Rounding how, Overflow beyond) {
    const std::string rounding(to_text(how)), overflow(to_text(beyond));
    std::vector<std::uint32_t> codes;
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes.push_back(encode(golden.format, std::bit_cast<float>(x[i]), how, beyond, words[i]));
    }
    table.add_codes(Role::output, rounding + "_" + overflow, golden.format, vector_of(codes.size()), codes,
                    {{"rounding", rounding}, {"overflow", overflow}});
  };
  for (const Rounding how : roundings) {
    for (const auto& entry : kOverflows) add(how, entry.value);
  }
  add(Rounding::stochastic, Overflow::saturate);
  return table.take();
}

Table make_scales(const GoldenSpec& golden) {
  Builder table(golden);
  table.attribute("format", std::string(spec(golden.format).name));
  const std::vector<std::uint32_t> amax = amax_boundaries(golden.format);
  table.add(Role::input, "amax", Format::fp32, vector_of(amax.size()), amax,
            {{"meaning", "bits of a block's largest magnitude, as a number"}});
  for (const Recipe& recipe : all_recipes()) {
    Attributes attributes = describe(recipe);
    if (recipe.rule == ScaleRule::fp32) {
      std::vector<std::uint32_t> scales;
      for (const std::uint32_t bits : amax) {
        const auto value = std::bit_cast<float>(bits);
        const float scale =
            block_scale(recipe, golden.format, {std::isnan(value) ? 0 : std::fabs(value), std::isnan(value)}).scale;
        scales.push_back(std::isnan(scale) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(scale));
      }
      table.add(Role::output, recipe.name, Format::fp32, vector_of(amax.size()), scales, std::move(attributes));
      continue;
    }
    std::vector<std::uint8_t> scales;
    for (const std::uint32_t bits : amax) {
      scales.push_back(scale_byte_for_amax(recipe, golden.format, std::bit_cast<float>(bits)));
    }
    table.add(Role::output, recipe.name, Format::e8m0, vector_of(amax.size()), scales, std::move(attributes));
  }
  return table.take();
}

Table make_layout(const GoldenSpec& golden) {
  Builder table(golden);
  table.attribute("rows", std::to_string(golden.rows));
  table.attribute("cols", std::to_string(golden.cols));
  table.attribute("pad_byte", std::to_string(golden.pad_byte));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(golden.rows * golden.cols));
  for (std::size_t i = 0; i < scales.size(); ++i) {  // never the pad byte, and scrambled: a slot shows where it is from
    const auto byte = static_cast<std::uint8_t>((static_cast<std::uint32_t>(i) * 2654435761U) >> 24);
    scales[i] = byte == golden.pad_byte ? static_cast<std::uint8_t>(byte ^ 1) : byte;
  }
  table.add(Role::input, "scales", Format::e8m0, {golden.rows, golden.cols}, scales, {{"layout", "compact row-major"}});
  const ScaleShape shape{{golden.rows}, golden.cols};
  const std::vector<std::uint8_t> tiles = to_layout(ScaleLayout::tcgen05, shape, scales, golden.pad_byte);
  table.add(Role::output, "tcgen05", Format::e8m0, vector_of(tiles.size()), tiles,
            {{"layout", "tcgen05: tiles of 128 rows by 4 columns, 512 bytes each"}});
  const std::vector<std::uint8_t> bytes = to_layout(ScaleLayout::deepgemm, shape, scales, golden.pad_byte);
  const auto packed = values_in<std::uint32_t>(std::as_bytes(std::span(bytes)));
  table.add(Role::output, "deepgemm", Format::e8m0, vector_of(packed.size()), packed,
            {{"layout", "DeepGEMM: words of four columns' bytes, little-endian, MN-major, rows padded to 4"}});
  return table.take();
}

Table make_dequantize(const GoldenSpec& golden) {
  Builder table(golden);
  Quantized q;
  q.element = golden.format, q.block = {1, kBlock};
  const std::int64_t codes = std::int64_t{1} << spec(golden.format).bits;
  q.rows = kScaleBytes, q.cols = std::max(kBlock, codes);
  q.scale_rows = q.rows, q.scale_cols = q.cols / kBlock;
  for (std::int64_t i = 0; i < q.rows * q.cols; ++i) q.codes.push_back(static_cast<std::uint8_t>(i % q.cols % codes));
  for (std::int64_t i = 0; i < q.rows * q.scale_cols; ++i) {
    q.scales.push_back(static_cast<std::uint8_t>(i / q.scale_cols));
  }
  table.attribute("format", std::string(spec(golden.format).name));
  table.attribute("block", "1x32");
  table.attribute("rows", std::to_string(q.rows));
  table.attribute("cols", std::to_string(q.cols));
  table.add(Role::input, "codes", golden.format, {q.rows, q.cols}, q.codes);
  table.add(Role::input, "scales", Format::e8m0, {q.rows, q.scale_cols}, q.scales);
  std::vector<std::uint32_t> values;
  for (const float value : dequantize(q)) values.push_back(std::bit_cast<std::uint32_t>(value));
  table.add(Role::output, "values", Format::fp32, {q.rows, q.cols}, values,
            {{"meaning", "code times scale, rounded once to nearest even; NaN is 0x7fc00000"}});
  table.add(Role::output, "values_bf16", Format::bf16, {q.rows, q.cols}, dequantize_bf16(q),
            {{"meaning", "code times scale, rounded once to nearest even; NaN is 0x7fc0"}});
  return table.take();
}

}  // namespace

Attributes common_attributes(const GoldenSpec& golden) {
  return {{"kind", std::string(to_text(golden.kind))}, {"name", golden.name}, {"description", golden.description}};
}

Table make_table(const GoldenSpec& golden) {
  switch (golden.kind) {
    case GoldenKind::formats: return make_formats(golden);
    case GoldenKind::casts: return make_casts(golden);
    case GoldenKind::scales: return make_scales(golden);
    case GoldenKind::layout: return make_layout(golden);
    case GoldenKind::dequantize: return make_dequantize(golden);
    default: break;
  }
  throw Error(ErrorKind::internal, "a golden that is no table");
}

}  // namespace mxcheck
