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
#include "properties/identify/reveal.h"
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

// Casts of values, and the codes that the box made of them.
struct CastAnswer {
  std::string name;
  std::vector<double> values;
  std::vector<std::uint32_t> codes;
  std::vector<std::uint32_t> words = {};  // random ones, where they are known
};

Match cast_match(std::span<const CastAnswer> given, const char* part, Format format, std::int64_t cols,
                 const std::string& declared) {
  std::vector<Probe> probes;
  std::vector<double> values;
  std::vector<std::uint32_t> codes;
  for (const CastAnswer& one : given) {
    if (one.codes.size() != one.values.size()) {
      throw Error(ErrorKind::usage, "the box answered " + std::to_string(one.codes.size()) + " codes for " +
                                        std::to_string(one.values.size()) + " values");
    }
    probes.push_back({one.name,
                      {part_info(part, format, one.codes.size(), cols, true)},
                      {bytes_of_words(format, one.codes)},
                      casts_table(format, one.values, 0)});
    if (!one.words.empty()) {
      for (Definition& row : stochastic_table(format, one.values, one.words, 0))
        probes.back().table.push_back(std::move(row));
    }
    values.insert(values.end(), one.values.begin(), one.values.end());
    codes.insert(codes.end(), one.codes.begin(), one.codes.end());
  }
  Match match = match_answers(probes, declared);
  for (const auto& [name, overflow] : kOverflows) {
    if (match.explained() || !is_stochastic_cast(format, overflow, values, codes)) continue;
    match.explaining.push_back("stochastic, " + std::string(name));
    match.remarks.emplace_back("each code is one of the two beside its value, as often the upper one as is due");
  }
  if (match.explained()) return match;
  for (std::size_t i = 0; i < given.size(); ++i) {
    probes[i].table.clear();
    for (const auto& [name, overflow] : kOverflows) {
      for (Definition& row : cast_slips(format, overflow, given[i].values, 0)) {
        row.name += ", " + std::string(name);
        probes[i].table.push_back(std::move(row));
      }
    }
  }
  try_slips(match, probes);
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

using QuantizeProbes = std::vector<std::pair<std::string, QuantizeCall>>;

std::shared_ptr<BlocksProblem> problem_of(const QuantizeCall& call, const QuantizeAnswer& given) {
  auto p = std::make_shared<BlocksProblem>();
  p->x = {"x", call.dtype, {call.rows, call.cols}, value_bytes(call.dtype, call.x)};
  p->element = call.format, p->block = call.block;
  p->recipe.name.clear();
  p->recipe.rule = given.fp32_scales ? ScaleRule::fp32 : ScaleRule::rceil;
  return p;
}

TensorInfo scales_of(const QuantizeCall& call, const QuantizeAnswer& given) {
  return part_info("scales", given.fp32_scales ? Format::fp32 : Format::e8m0, given.scales.size(),
                   ceil_div(call.cols, call.block.width(call.cols)), given.fp32_scales);
}

// All recipes with such scales, or those of these names: scales are output 0, codes output 1.
Probe quantize_probe_of(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& given,
                        const std::vector<std::string>& names) {
  check_size(call, given);
  const auto p = problem_of(call, given);
  Table rows = recipe_rows(*p, 1, 0);
  for (Definition& row : rows) row.name = row.name.substr(row.name.find(' ') + 1);
  if (!names.empty())
    std::erase_if(rows, [&](const Definition& row) { return std::ranges::find(names, row.name) == names.end(); });
  const TensorInfo scales = scales_of(call, given);
  return {name,
          {scales, part_info("codes", call.format, given.codes.size(), call.cols, false)},
          {bytes_of_words(scales.format, given.scales), bytes_of_words(call.format, given.codes)},
          owning(std::move(rows), p)};
}

// The scales alone, of blocks without NaN.
Probe scales_probe_of(Probe probe, const QuantizeCall& call, const QuantizeAnswer& given) {
  std::vector<bool> has_nan(given.scales.size());
  const auto p = problem_of(call, given);
  const std::vector<std::int64_t> index = p->scale_index();
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto block = static_cast<std::size_t>(index[i]);
    if (block < has_nan.size() && std::isnan(call.x[i])) has_nan[block] = true;
  }
  const auto without = [has_nan](const Bytes& all) {
    Bytes left;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i >= has_nan.size() || !has_nan[i]) left.push_back(all[i]);
    }
    return left;
  };
  probe.observed = {without(probe.observed[0])};
  probe.outputs = {part_info("scales", Format::e8m0, probe.observed[0].size(), 1, false)};
  for (Definition& row : probe.table)
    row.bytes = [bytes = std::move(row.bytes), without](std::size_t output) { return without(bytes(output)); };
  return probe;
}

struct Answered {
  const QuantizeProbes& probes;
  std::vector<QuantizeAnswer> answers;
};

// Slips under this recipe that give all that it does not: rows of the gate's table, asked as the gate asks them.
std::vector<std::string> slips_under(const std::string& recipe, std::span<const Answered> all) {
  std::optional<std::vector<std::string>> left;
  for (const Answered& some : all) {
    for (std::size_t i = 0; i < some.answers.size(); ++i) {
      const QuantizeCall& call = some.probes[i].second;
      const QuantizeAnswer& given = some.answers[i];
      const auto p = problem_of(call, given);
      p->recipe = recipe_named(recipe);
      p->expected = quantize(p->view(), p->element, p->block, p->recipe);
      const TensorInfo scales = scales_of(call, given);
      p->own_scales = tensor_of(scales.format, p->expected.scales().shape, bytes_of_words(scales.format, given.scales));
      if (p->own_scales->data.size() != p->expected.scales().data.size()) return {};
      Table table = blocks_table(*p, 1, 0);
      std::erase_if(table, [&](const Definition& row) {
        if (row.derived) return false;
        return row.name.starts_with("recipe ") || (left && std::ranges::none_of(*left, [&](const std::string& name) {
                                                     return name.find(row.name) != std::string::npos;
                                                   }));
      });
      const Bytes codes = bytes_of_words(call.format, given.codes);
      const AnswerTensor outputs[] = {
          {scales, p->expected.scales().data, p->own_scales->data},
          {part_info("codes", call.format, given.codes.size(), call.cols, false), p->expected.codes.data, codes}};
      if (codes == p->expected.codes.data && p->own_scales->data == p->expected.scales().data) continue;
      const std::vector<std::string> names = names_that_explain(outputs, table);
      if (!left) left = names;
      std::erase_if(*left, [&](const std::string& name) { return std::ranges::find(names, name) == names.end(); });
      if (left->empty()) return {};
    }
  }
  return left.value_or(std::vector<std::string>{});
}

// The lines about a quantization that no recipe explains.
void explain_otherwise(QuantizeMatch& found, std::span<const Answered> all) {
  Match& match = found.match;
  std::vector<Probe> scales;
  CastAnswer elements{"blocks under their own scales", {}, {}};
  for (const Answered& some : all) {
    for (std::size_t i = 0; i < some.answers.size(); ++i) {
      const auto& [name, call] = some.probes[i];
      if (some.answers[i].fp32_scales) return;
      scales.push_back(scales_probe_of(quantize_probe_of(name, call, some.answers[i], {}), call, some.answers[i]));
      add_elements(call, some.answers[i], elements.values, elements.codes);
    }
  }
  found.scales = match_answers(scales);
  found.elements = cast_match({&elements, 1}, "elements", all.front().probes.front().second.format, 1, "");
  std::vector<std::string> bases = found.scales->explaining;
  if (!match.declared.empty()) bases.insert(bases.begin(), match.declared);
  for (const Explained& close : match.closest) bases.push_back(close.name);
  for (const std::string& base : bases) {
    if (base.starts_with("nearest")) continue;
    for (const std::string& slip : slips_under(base, all)) match.slips.push_back(slip + "; " + base + " otherwise");
    if (!match.slips.empty()) return;
  }
}

QuantizeAnswer answered(const QuantizeBox& box, const QuantizeCall& call) {
  QuantizeAnswer answer = box(call);
  check_size(call, answer);
  return answer;
}

Answered ask(const QuantizeProbes& probes, const QuantizeBox& box) {
  Answered all{probes, {}};
  for (const auto& [name, call] : probes) all.answers.push_back(answered(box, call));
  return all;
}

std::vector<Probe> probes_of(const Answered& all, const std::vector<std::string>& names) {
  std::vector<Probe> probes;
  for (std::size_t i = 0; i < all.answers.size(); ++i)
    probes.push_back(quantize_probe_of(all.probes[i].first, all.probes[i].second, all.answers[i], names));
  return probes;
}

constexpr const char* kChanges = "two calls with the same input differ: stochastic, or a race";

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

Match identify_cast(Format format, const CastBox& box, const BlocksQuestion& question) {
  std::vector<CastAnswer> given;
  const std::vector<CastProbe> probes = cast_probes(format, question.x);
  for (const CastProbe& probe : probes) given.push_back({probe.name, doubles(probe.x), box(probe.x)});
  Match match = cast_match(given, "codes", format, 1, question.declared);
  const bool is_sure = match.explained() && !match.explaining.front().starts_with("stochastic");
  if (!is_sure && box(probes.front().x) != given.front().codes) match.remarks.emplace_back(kChanges);
  return match;
}

Match match_cast(const std::string& name, Format format, std::span<const float> x,
                 const std::vector<std::uint32_t>& codes, std::int64_t cols, const std::vector<std::uint32_t>& words) {
  const CastAnswer given{name, doubles(x), codes, words};
  return cast_match({&given, 1}, "codes", format, cols, "");
}

QuantizeMatch identify_quantize(Format format, BlockShape block, const QuantizeBox& box,
                                const BlocksQuestion& question) {
  check_quantized_format(format);
  const QuantizeProbes chosen = quantize_probes(format, block, question.x);
  std::vector<Answered> all{ask(chosen, box)};
  QuantizeMatch found{match_answers(probes_of(all[0], question.names), question.declared)};
  QuantizeProbes corners;
  if (found.match.explained()) {
    corners = gate_probes(format, block, question.x);
    std::erase_if(corners,
                  [&](const auto& probe) { return question.most_cols != 0 && probe.second.cols > question.most_cols; });
    all.push_back(ask(corners, box));
    std::vector<std::string> names = found.match.explaining;  // and those whose equal words are told
    for (const Explained& close : found.match.closest) names.push_back(close.name);
    if (found.match.not_declared) names.push_back(found.match.declared);
    narrow(found.match, probes_of(all[1], names));
  }
  if (found.match.explained()) return found;
  const QuantizeAnswer again = answered(box, chosen.front().second);
  const QuantizeAnswer& first = all[0].answers.front();
  if (again.codes != first.codes || again.scales != first.scales) found.match.remarks.emplace_back(kChanges);
  explain_otherwise(found, all);
  return found;
}

QuantizeMatch match_quantize(const std::string& name, const QuantizeCall& call, const QuantizeAnswer& answer) {
  check_quantized_format(call.format);
  const QuantizeProbes probe{{name, call}};
  const Answered all{probe, {answer}};
  QuantizeMatch found{match_answers(probes_of(all, {}))};
  if (!found.match.explained()) explain_otherwise(found, {&all, 1});
  return found;
}

std::string to_text(const QuantizeMatch& found) {
  return to_text(found.match) + (found.scales ? "its scales alone:\n" + to_text(*found.scales) : "") +
         (found.elements ? "its elements under its own scales:\n" + to_text(*found.elements) : "");
}

Json to_json(const QuantizeMatch& found) {
  Json json = to_json(found.match, std::nullopt);
  json["scales"] = found.scales ? to_json(*found.scales) : Json();
  json["elements"] = found.elements ? to_json(*found.elements) : Json();
  return json;
}

Match identify_scales(Format format, BlockShape block, const QuantizeBox& box, const BlocksQuestion& question) {
  check_quantized_format(format);
  std::vector<Probe> probes;
  for (const auto& [name, call] : quantize_probes(format, block, question.x)) {
    const QuantizeAnswer answer = answered(box, call);
    if (answer.fp32_scales) throw Error(ErrorKind::usage, "scales in FP32 have no rule of their own");
    probes.push_back(scales_probe_of(quantize_probe_of(name, call, answer, {}), call, answer));
  }
  return match_answers(probes, question.declared);
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
  for (int e : {-130, -127, -126, -100, -40, -20, -14, -8, -1, 0, 1, 7, 40, 100}) {
    for (double x : {largest, largest * 1.0625, largest * 1.125, largest * 1.25, largest * 1.375, largest * 1.5, 1.0,
                     1.5, 1.75, 1.9375}) {
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

std::vector<CastProbe> cast_probes(Format format, Format type) {
  std::vector<CastProbe> probes;
  const Format words = type == Format::fp16 ? type : Format::bf16;
  if (!spec(type).is_value) throw Error(ErrorKind::usage, "x is FP32, BF16 or FP16");
  CastProbe every{words == Format::fp16 ? "FP16 words" : "BF16 words", {}};
  for (std::uint32_t word = 0; word < 65'536; ++word) every.x.push_back(static_cast<float>(decode(words, word)));
  probes.push_back(std::move(every));
  if (type != Format::fp32) return probes;
  probes.insert(probes.begin(), {"values, middles and their neighbours", cast_values(format)});
  if (std::ranges::find(kElementFormats, format) == kElementFormats.end()) return probes;  // the gate has no others
  for (GateMatrix& m : gate_matrices(format, std::nullopt, type)) probes.push_back({m.name, std::move(m.x)});
  return probes;
}

std::vector<std::pair<std::string, QuantizeCall>> gate_probes(Format format, BlockShape block, Format type) {
  std::vector<std::pair<std::string, QuantizeCall>> probes;
  if (std::ranges::find(kElementFormats, format) == kElementFormats.end()) return probes;
  for (GateMatrix& m : gate_matrices(format, block, type))
    probes.emplace_back(m.name, QuantizeCall{format, block, m.rows, m.cols, std::move(m.x), type});
  return probes;
}

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
