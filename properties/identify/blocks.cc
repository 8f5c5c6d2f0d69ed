#include "properties/identify/blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "properties/core/rng.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

void check_size(const QuantizeCall& call, const QuantizeAnswer& a) {
  if (static_cast<std::int64_t>(a.codes.size()) == call.rows * call.cols) return;
  throw Error(ErrorKind::usage, "the box answered " + std::to_string(a.codes.size()) + " codes; x is " +
                                    std::to_string(call.rows) + " x " + std::to_string(call.cols));
}

Bytes bytes_of_words(Format format, const std::vector<std::uint32_t>& words) {
  const std::size_t width = size_of(format);
  Bytes bytes(words.size() * width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(bytes.data() + i * width, &words[i], width);
  return bytes;
}

TensorInfo part_info(const char* name, Format format, std::size_t count, std::int64_t cols, bool any_nan) {
  TensorInfo info;
  info.name = name, info.format = format, info.cols = std::max<std::int64_t>(1, cols);
  info.rows = static_cast<std::int64_t>(count) / info.cols, info.any_nan_is_equal = any_nan;
  return info;
}

// Casts that a box made of these values.
Probe cast_probe_of(const std::string& name, const char* part, Format format, std::vector<double> values,
                    const std::vector<std::uint32_t>& codes, std::int64_t cols) {
  return {name,
          {part_info(part, format, codes.size(), cols, true)},
          {bytes_of_words(format, codes)},
          casts_table(format, std::move(values), 0)};
}

Match cast_match(const std::string& name, const char* part, Format format, const std::vector<double>& values,
                 const std::vector<std::uint32_t>& codes, std::int64_t cols, const std::string& declared) {
  if (codes.size() != values.size()) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(codes.size()) + " codes for " +
                                      std::to_string(values.size()) + " values");
  }
  Probe probe = cast_probe_of(name, part, format, values, codes, cols);
  Match match = match_answers({&probe, 1}, declared);
  probe.table.clear();
  for (const Overflow overflow : {Overflow::saturate, Overflow::non_saturate}) {
    for (Definition& row : cast_slips(format, overflow, values, 0)) {
      row.name += ", " + std::string(to_text(overflow));
      probe.table.push_back(std::move(row));
    }
  }
  try_slips(match, {&probe, 1});
  return match;
}

// Appends the elements with their scales taken out: x / 2^e of the blocks that have a finite scale, and their codes.
void add_elements(const QuantizeCall& call, const QuantizeAnswer& answer, std::vector<double>& x,
                  std::vector<std::uint32_t>& codes) {
  const std::int64_t height = call.block.height(call.rows);
  const std::int64_t width = call.block.width(call.cols);
  const std::int64_t blocks = ceil_div(call.cols, width);
  for (std::int64_t i = 0; i < call.rows * call.cols; ++i) {
    const std::int64_t block = i / call.cols / height * blocks + i % call.cols / width;
    const std::uint32_t byte = answer.scales.at(static_cast<std::size_t>(block));
    if (byte == 255) continue;
    x.push_back(std::ldexp(double{call.x[static_cast<std::size_t>(i)]}, 127 - static_cast<int>(byte)));
    codes.push_back(answer.codes[static_cast<std::size_t>(i)]);
  }
}

Match elements_match(const std::string& name, Format format, const std::vector<double>& x,
                     const std::vector<std::uint32_t>& codes) {
  return cast_match(name, "elements", format, x, codes, 1, "");
}

// All recipes with such scales: scales are output 0, codes output 1.
Probe quantize_probe_of(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& given) {
  check_size(call, given);
  const auto p = std::make_shared<BlocksProblem>();
  p->x = {"x", call.dtype, {call.rows, call.cols}, value_bytes(call.dtype, call.x)};
  p->element = call.format, p->block = call.block;
  p->recipe.name.clear();
  p->recipe.rule = given.fp32_scales ? ScaleRule::fp32 : ScaleRule::rceil;
  const Format scale = p->recipe.scale_format();
  Table rows = recipe_rows(*p, 1, 0);
  for (Definition& row : rows) row.name = row.name.substr(row.name.find(' ') + 1);
  return {name,
          {part_info("scales", scale, given.scales.size(), ceil_div(call.cols, call.block.width(call.cols)),
                     given.fp32_scales),
           part_info("codes", call.format, given.codes.size(), call.cols, false)},
          {bytes_of_words(scale, given.scales), bytes_of_words(call.format, given.codes)},
          owning(std::move(rows), p)};
}

Match quantize_match(std::span<const std::pair<std::string, QuantizeCall>> probes,
                     std::span<const QuantizeAnswer> given, const std::string& declared) {
  std::vector<Probe> all;
  for (std::size_t i = 0; i < probes.size(); ++i)
    all.push_back(quantize_probe_of(probes[i].first, probes[i].second, given[i]));
  return match_answers(all, declared);
}

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

Match identify_cast(Format format, const CastBox& box, const BlocksQuestion& question) {
  const std::vector<float> probe = cast_probe(format, question.x);
  return cast_match("values, middles and their neighbours", "codes", format, doubles(probe), box(probe), 1,
                    question.declared);
}

Match match_cast(const std::string& name, Format format, std::span<const float> x,
                 const std::vector<std::uint32_t>& codes, std::int64_t cols) {
  return cast_match(name, "codes", format, doubles(x), codes, cols, "");
}

Match identify_quantize(Format format, BlockShape block, const QuantizeBox& box, const BlocksQuestion& question) {
  check_quantized_format(format);
  const std::vector<std::pair<std::string, QuantizeCall>> probes = quantize_probes(format, block, question.x);
  std::vector<QuantizeAnswer> answers;
  for (const auto& [name, call] : probes) answers.push_back(box(call));
  return quantize_match(probes, answers, question.declared);
}

Match match_quantize(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& answer) {
  check_quantized_format(call.format);
  const std::pair<std::string, QuantizeCall> probe{name, call};
  return quantize_match({&probe, 1}, {&answer, 1}, "");
}

Match identify_elements(Format format, BlockShape block, const QuantizeBox& box, const BlocksQuestion& question) {
  check_quantized_format(format);
  std::vector<double> x;
  std::vector<std::uint32_t> codes;
  for (const auto& [name, call] : quantize_probes(format, block, question.x)) {
    const QuantizeAnswer answer = box(call);
    check_size(call, answer);
    if (answer.fp32_scales) throw Error(ErrorKind::usage, "elements under FP32 scales have no rounding of their own");
    add_elements(call, answer, x, codes);
  }
  return elements_match("blocks under their own scales", format, x, codes);
}

Match match_elements(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& answer) {
  std::vector<double> x;
  std::vector<std::uint32_t> codes;
  add_elements(call, answer, x, codes);
  return elements_match(name, call.format, x, codes);
}

Match identify_scale(Format format, const ScaleBox& box, const BlocksQuestion& question) {
  check_quantized_format(format);
  std::vector<float> probe = amax_probe(format, question.x);
  if (!question.asks_nan) std::erase_if(probe, [](float amax) { return std::isnan(amax); });
  const auto answer = [&](const ScaleBox& scale) {
    std::vector<std::uint32_t> bytes;
    for (float amax : probe) bytes.push_back(scale(amax));
    return bytes_of_words(Format::e8m0, bytes);
  };
  Probe one{"amax where rules differ", {part_info("scales", Format::e8m0, probe.size(), 1, false)}, {answer(box)}, {}};
  for (const Recipe& recipe : all_recipes()) {
    if (!recipe.has_e8m0_scales()) continue;
    one.table.push_back(definition_of_output(
        0, recipe.name,
        [&, format] {
          return answer([&](float amax) -> std::uint32_t { return scale_byte_for_amax(recipe, format, amax); });
        },
        recipe.checked_against));
  }
  return match_answers({&one, 1}, question.declared);
}

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void with_neighbours(std::vector<float>& values, double value) {
  const auto x = static_cast<float>(value);
  for (float y : {std::nextafter(x, -kInf), x, std::nextafter(x, kInf)}) values.insert(values.end(), {y, -y});
}

std::vector<float> finite_values(Format format) {
  std::vector<float> found;
  for (std::uint32_t code = 0; code <= spec(format).max_code; ++code) {
    found.push_back(static_cast<float>(decode(format, code)));
  }
  return found;
}

std::vector<float> cast_values(Format format) {
  const std::vector<float> values = finite_values(format);
  std::vector<float> probe{
      0.0F, -0.0F, kInf, -kInf, kNan, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()};
  for (std::size_t i = 0; i < values.size(); ++i) {
    with_neighbours(probe, values[i]);
    const bool last = i + 1 == values.size();
    const double step = last ? double{values[i]} - values[i - 1] : double{values[i + 1]} - values[i];
    with_neighbours(probe, values[i] + step / 2);
    if (last) with_neighbours(probe, values[i] + step);
  }
  return probe;
}

// Where published rules differ: powers of two, the format's largest value and its multiples by powers, the ends of
// FP32, the floats at which roundings of a / vmax and of its logarithm go wrong (docs/numerics.md).
std::vector<float> amaxes(Format format) {
  std::vector<float> found{0, kInf, kNan, std::numeric_limits<float>::max(), 1e-4F, 1e-10F, 1e-12F, 480, 496};
  for (std::uint32_t word :
       {0x00000001U, 0x000000e0U, 0x00010000U, 0x00400000U, 0x00400001U, 0x00800000U, 0x01400001U,
        0x04600000U, 0x04600001U, 0x04600002U, 0x04733333U, 0x047FFFFFU, 0x04e00001U, 0x07E00001U,
        0x43ffffffU, 0x47e00001U, 0x63e00001U, 0x7f780000U, 0x7f7c0000U, 0x01000000U, 0x01000001U}) {
    found.push_back(std::bit_cast<float>(word));
  }
  const double largest = decode(format, spec(format).max_code);
  for (int e : {-130, -126, -100, -40, -20, -14, -8, -1, 0, 1, 7, 40, 100}) {
    for (double x :
         {largest, largest * 1.0625, largest * 1.125, largest * 1.25, largest * 1.375, 1.0, 1.5, 1.75, 1.9375}) {
      const auto amax = static_cast<float>(std::ldexp(x, e));
      for (float y : {std::nextafter(amax, 0.0F), amax, std::nextafter(amax, kInf)}) {
        if (std::isfinite(y) && y > 0) found.push_back(y);
      }
    }
  }
  return found;
}

// One block in a row (or a column): its amax first, then elements at codes, at middles and near them, and zeros.
std::vector<float> block_of(Format format, float amax, std::int64_t count, Draw& draw) {
  static constexpr double kParts[] = {1, 0.75, 0.5, 0.25, 0.0625, 0.001};
  const std::uint32_t codes = spec(format).max_code;
  std::vector<float> block{draw.chance(50) ? amax : -amax};
  for (std::int64_t i = 1; i < count; ++i) {
    const double unit = std::isfinite(amax) && amax > 0 ? amax : 1;
    const int e = std::ilogb(unit) - std::ilogb(decode(format, codes));
    double x = 0;
    if (draw.chance(60)) {  // a middle between two codes, under one of the scales that are near
      const auto code = static_cast<std::uint32_t>(draw.below(codes));
      x = std::ldexp((decode(format, code) + decode(format, code + 1)) / 2, e + static_cast<int>(draw.between(-1, 2)));
    } else if (draw.chance(70)) {
      x = unit * kParts[draw.below(6)] * std::ldexp(static_cast<double>(draw.between(1, 1 << 20)), -20);
    }
    if (std::abs(x) > unit) x = unit / 2;
    auto value = static_cast<float>(x);
    if (draw.chance(30)) value = std::nextafter(value, 0.0F);
    block.push_back(draw.chance(50) ? value : -value);
  }
  return block;
}

// Blocks one beside another along their longer side: rows of blocks 1 x n, columns of blocks n x 1.
QuantizeCall call_of(Format format, BlockShape block, const std::vector<float>& all, Draw& draw) {
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t h = block.height(1);
  const std::int64_t w = block.cols == 0 ? 64 : block.cols;
  QuantizeCall call{format, block, count * h, w, {}};
  for (float amax : all) {
    const std::vector<float> one = block_of(format, amax, h * w, draw);
    call.x.insert(call.x.end(), one.begin(), one.end());
  }
  return call;
}

// Elements at middles times an FP32 scale, and one float beside: a product with a reciprocal that was rounded once more
// falls on the other side.
QuantizeCall middles_of_fp32_scales(Format format, BlockShape block, Draw& draw) {
  std::vector<float> all;
  for (int i = 0; i < 128; ++i) {
    all.push_back(static_cast<float>(std::ldexp(static_cast<double>(draw.between(1 << 23, 1 << 24)), -20)));
  }
  QuantizeCall call = call_of(format, block, all, draw);
  const std::uint32_t codes = spec(format).max_code;
  const std::int64_t per = call.cols * block.height(1);
  for (std::size_t i = 0; i < call.x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at % per == 0) continue;
    const float scale = all[static_cast<std::size_t>(at / per)] / static_cast<float>(decode(format, codes));
    const auto code = static_cast<std::uint32_t>(draw.below(codes));
    auto x = static_cast<float>((decode(format, code) + decode(format, code + 1)) / 2 * scale);
    if (draw.chance(60)) x = std::nextafter(x, draw.chance(50) ? 0.0F : kInf);
    call.x[i] = x;
  }
  return call;
}

// Blocks of one column, made one below the other, four side by side: an answer with rows and columns exchanged is
// another one then.
QuantizeCall side_by_side(const QuantizeCall& from) {
  constexpr std::int64_t kColumns = 4;
  const std::int64_t height = from.block.rows;
  const std::int64_t count = from.rows / height;
  QuantizeCall call{from.format, from.block, (count + kColumns - 1) / kColumns * height, kColumns, {}};
  for (std::int64_t i = 0; i < call.rows * kColumns; ++i) {
    const std::int64_t row = i / kColumns;
    const std::int64_t block = std::min(count - 1, row / height * kColumns + i % kColumns);
    call.x.push_back(from.x[static_cast<std::size_t>(block * height + row % height)]);
  }
  return call;
}

std::vector<float> rounded(std::vector<float> values, Format type) {
  if (type == Format::fp32) return values;
  if (!spec(type).is_value) throw Error(ErrorKind::usage, "x is FP32, BF16 or FP16");
  for (float& x : values) {
    x = static_cast<float>(decode(type, encode(type, x, Rounding::nearest_even, Overflow::non_saturate)));
  }
  return values;
}

}  // namespace

std::vector<float> cast_probe(Format format, Format type) { return rounded(cast_values(format), type); }

std::vector<float> amax_probe(Format format, Format type) { return rounded(amaxes(format), type); }

std::vector<std::pair<std::string, QuantizeCall>> quantize_probes(Format format, BlockShape block, Format type) {
  Draw draw(derived_seed(0, "identify quantize"));
  std::vector<std::pair<std::string, QuantizeCall>> probes;
  probes.emplace_back("amax where rules differ", call_of(format, block, amaxes(format), draw));
  QuantizeCall special = call_of(format, block, {1, 448, 1e-30F, 3, 0, 7, 1}, draw);
  const std::int64_t per = special.cols * block.height(1);
  const auto at = [&](std::int64_t n, std::int64_t i) -> float& {
    return special.x[static_cast<std::size_t>(n * per + i)];
  };
  at(0, 1) = kNan, at(1, 1) = kInf, at(2, 1) = -kInf, at(3, 1) = kNan, at(3, 2) = kInf, at(4, 1) = kNan;
  at(5, 1) = -0.0F, at(5, 2) = std::bit_cast<float>(0x80000001U), at(6, 1) = -1e-30F, at(6, 2) = -0.0F;
  probes.emplace_back("middles of FP32 scales", middles_of_fp32_scales(format, block, draw));
  probes.emplace_back("NaN, Inf and negative zeros", std::move(special));
  for (auto& [name, call] : probes) {
    if (block.cols == 1) call = side_by_side(call);
    call.x = rounded(std::move(call.x), type), call.dtype = type;
  }
  return probes;
}

}  // namespace mxcheck
