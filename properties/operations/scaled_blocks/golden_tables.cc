// The golden kinds that are tables computed in memory: formats, casts, scales, layout, dequantize.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/golden.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostScales = 1 << 20;
constexpr std::int64_t kScaleBytes = 256;
constexpr std::int64_t kBlock = 32;

MadeGolden make_formats(const GoldenSpec& spec_of_golden) {
  GoldenBuilder table(spec_of_golden);
  const auto& golden = spec_of_golden.get<FormatsGolden>();
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

// Codes in the smallest unsigned integer that holds them.
void add_codes(GoldenBuilder& table, const std::string& name, Format format, const std::vector<std::uint32_t>& codes,
               const Attributes& attributes) {
  if (spec(format).bits <= 8) {
    table.add(Role::output, name, format, vector_of(codes.size()),
              std::vector<std::uint8_t>(codes.begin(), codes.end()), attributes);
  } else {
    table.add(Role::output, name, format, vector_of(codes.size()),
              std::vector<std::uint16_t>(codes.begin(), codes.end()), attributes);
  }
}

MadeGolden make_casts(const GoldenSpec& spec_of_golden) {
  GoldenBuilder table(spec_of_golden);
  const auto& golden = spec_of_golden.get<FormatGolden>();
  table.attribute("format", std::string(spec(golden.format).name));
  const std::vector<std::uint32_t> x = cast_boundaries(golden.format);
  table.add(Role::input, "x", Format::fp32, vector_of(x.size()), x, {{"meaning", "bits of the floats to cast"}});
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < x.size(); ++i) words.push_back(stochastic_word(i));
  table.integers(Role::input, "random_words", vector_of(x.size()), words,
                 {{"meaning", "for stochastic_saturate: added to the first 32 bits of the discarded fraction"}});
  std::vector<Rounding> roundings;
  for (const auto& entry : kElementRoundings) {
    if (entry.value != Rounding::upward || golden.format == Format::e8m0) roundings.push_back(entry.value);
  }
  const auto add = [&](Rounding how, Overflow beyond) {
    const std::string rounding(to_text(how)), overflow(to_text(beyond));
    std::vector<std::uint32_t> codes;
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes.push_back(encode(golden.format, std::bit_cast<float>(x[i]), how, beyond, words[i]));
    }
    add_codes(table, rounding + "_" + overflow, golden.format, codes, {{"rounding", rounding}, {"overflow", overflow}});
  };
  for (const Rounding how : roundings) {
    for (const auto& entry : kOverflows) add(how, entry.value);
  }
  add(Rounding::stochastic, Overflow::saturate);
  return table.take();
}

MadeGolden make_scales(const GoldenSpec& spec_of_golden) {
  GoldenBuilder table(spec_of_golden);
  const auto& golden = spec_of_golden.get<FormatGolden>();
  table.attribute("format", std::string(spec(golden.format).name));
  const std::vector<std::uint32_t> amax = amax_boundaries(golden.format);
  table.add(Role::input, "amax", Format::fp32, vector_of(amax.size()), amax,
            {{"meaning", "bits of a block's largest magnitude, as a number"}});
  for (const Recipe& recipe : all_recipes()) {
    const Attributes attributes = describe(recipe);
    if (recipe.rule == ScaleRule::fp32) {
      std::vector<std::uint32_t> scales;
      for (const std::uint32_t bits : amax) {
        const auto value = std::bit_cast<float>(bits);
        const float scale =
            block_scale(recipe, golden.format, {std::isnan(value) ? 0 : std::fabs(value), std::isnan(value)}).scale;
        scales.push_back(std::isnan(scale) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(scale));
      }
      table.add(Role::output, recipe.name, Format::fp32, vector_of(amax.size()), scales, attributes);
      continue;
    }
    std::vector<std::uint8_t> scales;
    for (const std::uint32_t bits : amax) {
      scales.push_back(scale_byte_for_amax(recipe, golden.format, std::bit_cast<float>(bits)));
    }
    table.add(Role::output, recipe.name, Format::e8m0, vector_of(amax.size()), scales, attributes);
  }
  return table.take();
}

MadeGolden make_layout(const GoldenSpec& spec_of_golden) {
  GoldenBuilder table(spec_of_golden);
  const auto& golden = spec_of_golden.get<LayoutGolden>();
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
  table.bytes(Role::output, "deepgemm", spec(Format::e8m0).dtype_name, Format::uint32, vector_of(packed.size()),
              std::as_bytes(std::span(packed)),
              {{"layout", "DeepGEMM: words of four columns' bytes, little-endian, MN-major, rows padded to 4"}});
  return table.take();
}

MadeGolden make_dequantize(const GoldenSpec& spec_of_golden) {
  GoldenBuilder table(spec_of_golden);
  const auto& golden = spec_of_golden.get<FormatGolden>();
  const std::size_t codes = std::size_t{1} << spec(golden.format).bits;
  const std::size_t cols = std::max<std::size_t>(kBlock, codes);
  const std::size_t scale_cols = cols / kBlock;
  QuantizedTensor q = make_quantized(golden.format, kScaleBytes, static_cast<std::int64_t>(cols), {1, kBlock},
                                     Format::e8m0, kScaleBytes, static_cast<std::int64_t>(scale_cols));
  for (std::size_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, static_cast<std::uint32_t>(i % cols % codes));
  for (std::size_t i = 0; i < q.scales().size(); ++i) {
    q.scales().set_code(i, static_cast<std::uint32_t>(i / scale_cols));
  }
  table.attribute("format", std::string(spec(golden.format).name));
  table.attribute("block", "1x32");
  table.attribute("rows", std::to_string(q.rows()));
  table.attribute("cols", std::to_string(q.cols()));
  table.add(Role::input, "codes", golden.format, q.codes.shape, q.codes.data);
  table.add(Role::input, "scales", Format::e8m0, q.scales().shape, q.scales().data);
  std::vector<std::uint32_t> values;
  for (const float value : dequantize(q)) values.push_back(std::bit_cast<std::uint32_t>(value));
  table.add(Role::output, "values", Format::fp32, {q.rows(), q.cols()}, values,
            {{"meaning", "code times scale, rounded once to nearest even; NaN is 0x7fc00000"}});
  table.add(Role::output, "values_bf16", Format::bf16, {q.rows(), q.cols()}, dequantize_bf16(q),
            {{"meaning", "code times scale, rounded once to nearest even; NaN is 0x7fc0"}});
  return table.take();
}

constexpr auto kTabled = std::span(kAllFormats).first<kAllFormats.size() - 1>();  // FP32 has 2^32 codes

std::any parse_formats(JsonObject& o) {
  FormatsGolden golden;
  if (!o.has("formats")) return FormatsGolden{{kTabled.begin(), kTabled.end()}};
  for (const Json& name : o.list("formats", kAllFormats.size()))
    golden.formats.push_back(format_named(o, "formats", text_in(name), kTabled));
  return golden;
}

std::any parse_tabled(JsonObject& o) { return FormatGolden{format_named(o, "format", o.text("format"), kTabled)}; }

std::any parse_element(JsonObject& o) {
  return FormatGolden{format_named(o, "format", o.text("format"), kElementFormats)};
}

std::any parse_layout(JsonObject& o) {
  LayoutGolden golden;
  golden.pad_byte = parse_pad_byte(o);
  golden.rows = o.integer("rows", 0, kMostScales);
  golden.cols = o.integer("cols", 0, kMostScales);
  if (golden.rows * golden.cols > kMostScales) o.refuse("rows", "times cols must be at most 1048576");
  return golden;
}

// Why a candidate's dataset differs.

Table rows_of_decoding(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const auto d = std::make_shared<Decoding>();
  d->codes = in_format(golden, "codes", format_of_golden(golden.info), {kAnyExtent, kAnyExtent});
  d->scales = in_format(golden, "scales", Format::e8m0, {d->codes.shape[0], (d->codes.shape[1] + 31) / 32});
  d->values = dataset.dtype == Format::uint16 ? Format::bf16 : Format::fp32;
  for (std::size_t i = 0; i < d->codes.size(); ++i) d->scale_index.push_back(static_cast<std::int64_t>(i / 32));
  return owning(decoding_table(*d, 0), d);
}

Table rows_of_layouts(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const auto p = std::make_shared<BlocksProblem>();
  p->pad_byte = static_cast<std::uint8_t>(number_of(golden.info, "pad_byte"));
  p->block = {1, 32};
  const std::int64_t rows = number_of(golden.info, "rows"), cols = number_of(golden.info, "cols");
  p->expected.levels = {{p->block, ScaleRule::rceil, in_format(golden, "scales", Format::e8m0, {rows, cols})}};
  p->expected.codes.shape = {rows, cols * 32};
  return owning(layout_table(*p, dataset.name == "tcgen05" ? ScaleLayout::tcgen05 : ScaleLayout::deepgemm, 0), p);
}

// Casts of another kind than those in the golden.
Table rows_of_casts(const GoldenTensors& golden, const DatasetInfo&) {
  const auto values = std::make_shared<std::vector<double>>();
  for (const float x : golden_tensor(golden, "x", Format::fp32, {kAnyExtent}).as<float>())
    values->push_back(static_cast<double>(x));
  Table all;
  for (const Overflow overflow : {Overflow::saturate, Overflow::non_saturate}) {
    for (Definition& row : owning(cast_slips(format_of_golden(golden.info), overflow, *values, 0), values))
      all.push_back(std::move(row));
  }
  return all;
}

GoldenKind table_kind(std::string_view name, GoldenKind::Parse parse, MadeGolden (*make)(const GoldenSpec&),
                      Table (*rows)(const GoldenTensors&, const DatasetInfo&) = nullptr) {
  GoldenKind::Rows all;
  if (rows != nullptr)
    all = [rows](const GoldenTensors& g, const DatasetInfo& dataset, const CandidateTensor&) {
      return rows(g, dataset);
    };
  return {name, parse, [make](const GoldenSpec& g, const MakeOptions&) { return make(g); }, std::move(all)};
}

}  // namespace

std::vector<const GoldenKind*> blocks_golden_kinds() {
  static const GoldenKind kFormats = table_kind("formats", parse_formats, make_formats);
  static const GoldenKind kCasts = table_kind("casts", parse_tabled, make_casts, rows_of_casts);
  static const GoldenKind kScales = table_kind("scales", parse_element, make_scales);
  static const GoldenKind kLayout = table_kind("layout", parse_layout, make_layout, rows_of_layouts);
  static const GoldenKind kDequantize = table_kind("dequantize", parse_element, make_dequantize, rows_of_decoding);
  return {&kFormats, &kCasts, &kScales, &kLayout, &kDequantize, &quantize_golden_kind()};
}

// Inputs at which results of casts and scale rules change.

namespace {

constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kSpecials[] = {0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x7F7FFFFF,
                                       0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF};

// Tells apart every pair of scale rules in use that differ anywhere: zeros and subnormals around 2^-133 and 2^-127, the
// single exceptions of the FP32 shortcuts (0x04600001, 0x07e00001, 0x01400001, 0x047fffff), approximate logarithms
// (0x01000000, 0x01000001), amax clamps (1e-10, 1e-4), 448 times 1.125, 1.25 and 1.375, and E4M3's rounding of 464,
// 480.
constexpr std::uint32_t kRules[] = {0x00000000, 0x80000000, 0x00000001, 0x000000E0, 0x00010000, 0x00400000, 0x00400001,
                                    0x01000000, 0x01000001, 0x01400000, 0x01400001, 0x01400002, 0x04600000, 0x04600001,
                                    0x04600002, 0x04733333, 0x047FFFFF, 0x04E00001, 0x07E00000, 0x07E00001, 0x07E00002,
                                    0x2EDBE6FF, 0x38D1B717, 0x43CC0000, 0x43E00000, 0x43E00001, 0x43E80000, 0x43F00000,
                                    0x43F80000, 0x43FC0000, 0x440C0000, 0x441A0000, 0x43FFFFFF, 0x47E00001, 0x63E00001,
                                    0x7F7FFFFF, 0x7F800000, 0x7FC00000};

// By magnitude, the positive one of two first.
std::vector<std::uint32_t> sorted(const std::set<std::uint32_t>& patterns) {
  std::vector<std::uint32_t> all(patterns.begin(), patterns.end());
  std::sort(all.begin(), all.end(), [](std::uint32_t a, std::uint32_t b) {
    return std::pair(a & ~kSign, a & kSign) < std::pair(b & ~kSign, b & kSign);
  });
  return all;
}

void add_around(std::set<std::uint32_t>& patterns, double magnitude) {
  const auto value = static_cast<float>(magnitude);
  if (!std::isfinite(value) || static_cast<double>(value) != magnitude) return;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
    if (near < kInfinity) patterns.insert(near);  // bits - 1 of zero is none
  }
}

}  // namespace

std::vector<std::uint32_t> cast_boundaries(Format format) {
  std::set<double> values;
  for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(format).bits; ++code) {
    const double value = std::fabs(decode(format, code));
    if (std::isfinite(value)) values.insert(value);
  }
  const double largest = *values.rbegin();
  values.insert(largest + (largest - *std::next(values.rbegin())));
  std::set<std::uint32_t> patterns(std::begin(kSpecials), std::end(kSpecials));
  double below = 0;
  for (const double value : values) {
    add_around(patterns, value);
    add_around(patterns, (below + value) / 2);
    below = value;
  }
  std::set<std::uint32_t> both = patterns;
  for (const std::uint32_t bits : patterns) both.insert(bits | kSign);
  return sorted(both);
}

std::vector<std::uint32_t> amax_boundaries(Format element) {
  std::set<std::uint32_t> patterns(std::begin(kRules), std::end(kRules));
  const double largest = decode(element, spec(element).max_code);
  constexpr int kFirst = -149;
  constexpr int kLast = 127;
  for (int k = kFirst; k <= kLast; ++k) {
    add_around(patterns, std::ldexp(1.0, k));
    add_around(patterns, std::ldexp(1.5, k));
    add_around(patterns, largest * std::ldexp(1.0, k - std::ilogb(largest)));
  }
  return sorted(patterns);
}

}  // namespace mxcheck
