#include "properties/identify/blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "properties/core/rng.h"
#include "properties/identify/blocks_probes.h"
#include "properties/identify/values.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

BoxAnswer parts_of(const QuantizeCall& call, const QuantizeAnswer& a) {
  if (static_cast<std::int64_t>(a.codes.size()) != call.rows * call.cols) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(a.codes.size()) + " codes; x is " +
                                      std::to_string(call.rows) + " x " + std::to_string(call.cols));
  }
  const std::int64_t w = call.block.width(call.cols);
  return {{"scales", a.fp32_scales ? Format::fp32 : Format::e8m0, a.scales, (call.cols + w - 1) / w, a.fp32_scales},
          {"codes", call.format, a.codes, call.cols, false}};
}

QuantizeAnswer answer_of(const Recipe& recipe, const QuantizeCall& call) {
  const std::vector<std::byte> bytes = value_bytes(call.dtype, call.x);
  const MatrixView x{call.dtype, bytes.data(), call.rows, call.cols, call.cols};
  const QuantizedTensor q = quantize(x, call.format, call.block, recipe, {}, 1);
  QuantizeAnswer a;
  for (std::size_t i = 0; i < q.codes.size(); ++i) a.codes.push_back(q.codes.code(i));
  for (std::size_t i = 0; i < q.scales().size(); ++i) a.scales.push_back(q.scales().code(i));
  a.fp32_scales = q.scales().format == Format::fp32;
  return a;
}

// x: of floats, or of doubles that are no float.
template <class Number>
std::vector<BoxDefinition> casts_of(Format format, std::span<const Number> x, std::int64_t cols) {
  std::vector<BoxDefinition> definitions;
  for (const auto& [rounding_name, rounding] : kRoundings) {
    if (rounding == Rounding::stochastic) continue;
    for (const auto& [overflow_name, overflow] : kOverflows) {
      definitions.push_back({std::string(rounding_name) + ", " + std::string(overflow_name),
                             [=, rounding = rounding, overflow = overflow](std::size_t) -> BoxAnswer {
                               std::vector<std::uint32_t> codes;
                               for (Number value : x) codes.push_back(encode(format, value, rounding, overflow));
                               return {{"codes", format, std::move(codes), cols, true}};
                             }});
    }
  }
  return definitions;
}

Match cast_match(const std::string& name, Format format, std::span<const float> x, std::vector<std::uint32_t> codes,
                 std::int64_t cols, const std::string& declared) {
  if (codes.size() != x.size()) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(codes.size()) + " codes for " +
                                      std::to_string(x.size()) + " values");
  }
  const BoxAnswer observed{{"codes", format, std::move(codes), cols, true}};
  return match_answers({&name, 1}, {&observed, 1}, casts_of<float>(format, x, cols), declared);
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
                     std::vector<std::uint32_t> codes) {
  const BoxAnswer observed{{"elements", format, std::move(codes), 1, true}};
  return match_answers({&name, 1}, {&observed, 1}, casts_of<double>(format, x, 1));
}

Match quantize_match(std::span<const std::pair<std::string, QuantizeCall>> probes,
                     std::span<const QuantizeAnswer> given, const std::string& declared) {
  std::vector<std::string> names;
  std::vector<BoxAnswer> answers;
  for (std::size_t p = 0; p < probes.size(); ++p) {
    names.push_back(probes[p].first);
    answers.push_back(parts_of(probes[p].second, given[p]));
  }
  std::vector<BoxDefinition> definitions;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.has_e8m0_scales() == given[0].fp32_scales) continue;
    definitions.push_back(
        {recipe.name, [&](std::size_t p) { return parts_of(probes[p].second, answer_of(recipe, probes[p].second)); }});
  }
  return match_answers(names, answers, definitions, declared);
}

}  // namespace

Match identify_cast(Format format, const CastBox& box, const BlocksQuestion& question) {
  const std::vector<float> probe = cast_probe(format, question.x);
  return cast_match("values, middles and their neighbours", format, probe, box(probe), 1, question.declared);
}

Match match_cast(const std::string& name, Format format, std::span<const float> x, std::vector<std::uint32_t> codes,
                 std::int64_t cols) {
  return cast_match(name, format, x, std::move(codes), cols, "");
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
    parts_of(call, answer);  // of the right size
    if (answer.fp32_scales) throw Error(ErrorKind::usage, "elements under FP32 scales have no rounding of their own");
    add_elements(call, answer, x, codes);
  }
  return elements_match("blocks under their own scales", format, x, std::move(codes));
}

Match match_elements(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& answer) {
  std::vector<double> x;
  std::vector<std::uint32_t> codes;
  add_elements(call, answer, x, codes);
  return elements_match(name, call.format, x, std::move(codes));
}

Match identify_scale(Format format, const ScaleBox& box, const BlocksQuestion& question) {
  check_quantized_format(format);
  std::vector<float> probe = amax_probe(format, question.x);
  if (!question.asks_nan) std::erase_if(probe, [](float amax) { return std::isnan(amax); });
  const auto answer = [&](const ScaleBox& scale) -> BoxAnswer {
    AnswerPart part{"scales", Format::e8m0, {}, 1, false};
    for (float amax : probe) part.words.push_back(scale(amax));
    return {part};
  };
  std::vector<BoxDefinition> definitions;
  for (const Recipe& recipe : all_recipes()) {
    if (!recipe.has_e8m0_scales()) continue;
    definitions.push_back(
        {recipe.name, [&, format](std::size_t) {
           return answer([&](float amax) -> std::uint32_t { return scale_byte_for_amax(recipe, format, amax); });
         }});
  }
  const std::string name = "amax where rules differ";
  const BoxAnswer observed = answer(box);
  return match_answers({&name, 1}, {&observed, 1}, definitions, question.declared);
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
