#include "properties/identify/blocks.h"

#include <bit>
#include <cmath>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
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
  const Quantized q = quantize(x, call.format, call.block, recipe, {}, 1);
  QuantizeAnswer a;
  a.codes.assign(q.codes.begin(), q.codes.end());
  a.codes.insert(a.codes.end(), q.codes16.begin(), q.codes16.end());
  a.scales.assign(q.scales.begin(), q.scales.end());
  a.fp32_scales = !recipe.has_e8m0_scales();
  for (float scale : q.scales_fp32) a.scales.push_back(std::bit_cast<std::uint32_t>(scale));
  return a;
}

// x: of floats, or of doubles that are no float.
template <class Number>
std::vector<Definition> casts_of(Format format, std::span<const Number> x, std::int64_t cols) {
  std::vector<Definition> definitions;
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

// Of a call, after its scales have been taken out: x / 2^e of the blocks that have a finite one, and their codes.
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
  std::vector<Definition> definitions;
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
  std::vector<Definition> definitions;
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

}  // namespace mxcheck
