// The fields of quantize_nvfp4's options: text, policy, drawing.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/candidate_nvfp4.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/core/case_text.h"
#include "properties/operations/scaled_blocks/divisors.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 4> kAskedSums{"exact", "butterfly", "sm90_bf16", "sm100_f16"};
constexpr std::array<Format, 2> kResults{Format::bf16, Format::fp32};  // in the order of mxcheck_hadamard_result
constexpr std::array<std::string_view, 3> kRoundingWords{"nearest", "stochastic", "stochastic_bytes"};
constexpr std::array<std::string_view, 2> kDirectionWords{"rows", "both"};
constexpr std::string_view kTransformIs = "none, or GROUP/SUM/TYPE, as 16/butterfly/bf16";

std::string transform_text(const Nvfp4Options& o) {
  return o.hadamard == 0 ? "none" : fmt::format("{}/{}/{}", o.hadamard, o.sum, spec(o.result).name);
}

void set_transform(std::string_view field, std::string_view value, Nvfp4Options& o) {
  o.hadamard = 0, o.sum.clear(), o.result = Format::bf16;
  if (value == "none") return;
  const auto parts = split(value, '/');
  if (parts.size() != 3) fail_field(field, value, kTransformIs);
  const auto group = parse_number<int>(parts[0]);
  const bool has_group = group && std::ranges::find(kHadamardSizes, *group) != kHadamardSizes.end();
  const bool has_sum = std::ranges::find(kAskedSums, parts[1]) != kAskedSums.end();
  const auto result = find_format(parts[2]);
  if (!has_group || !has_sum || !result || std::ranges::find(kResults, *result) == kResults.end())
    fail_field(field, value, kTransformIs);
  o.hadamard = *group, o.sum = parts[1], o.result = *result;
}

std::string words_text(std::string_view name, const std::array<std::uint32_t, 2>& words) {
  return words[0] == 0 && words[1] == 0 ? "" : fmt::format(" {}=0x{:x},0x{:x}", name, words[0], words[1]);
}

template <class Number>
Number hex_field(std::string_view field, std::string_view value) {
  return number_field<Number>(field, value.starts_with("0x") ? value.substr(2) : value, 16);
}

void set_words(std::string_view field, std::string_view value, std::array<std::uint32_t, 2>& words) {
  const auto parts = split(value, ',');
  if (parts.size() != 2) fail_field(field, value, "two numbers of 32 bits, as 0x5,0x3");
  for (std::size_t i = 0; i < 2; ++i) words[i] = hex_field<std::uint32_t>(field, parts[i]);
}

// 128 bits, element 0 in the lowest.
std::string signs_text(const std::array<std::uint32_t, 4>& signs) {
  if (signs == std::array<std::uint32_t, 4>{}) return "";
  std::string text;
  for (std::size_t i = 4; i-- > 0;) {
    if (!text.empty() || signs[i] != 0)
      text += text.empty() ? fmt::format("{:x}", signs[i]) : fmt::format("{:08x}", signs[i]);
  }
  return " signs=0x" + text;
}

void set_signs(std::string_view field, std::string_view value, std::array<std::uint32_t, 4>& signs) {
  std::string_view digits = value.starts_with("0x") ? value.substr(2) : value;
  if (digits.empty() || digits.size() > 32) fail_field(field, value, "up to 32 hexadecimal digits");
  signs = {};
  for (std::size_t i = 0; !digits.empty(); ++i) {
    const std::size_t from = digits.size() > 8 ? digits.size() - 8 : 0;
    signs[i] = hex_field<std::uint32_t>(field, digits.substr(from));
    digits = digits.substr(0, from);
  }
}

bool is_beyond_group(const std::array<std::uint32_t, 4>& signs, int group) {
  for (int i = group; i < 128; ++i) {
    if ((signs[static_cast<std::size_t>(i / 32)] >> i % 32 & 1) != 0) return true;
  }
  return false;
}

std::int64_t fitted(std::int64_t extent, std::int64_t group) {
  return extent == 0 ? 0 : std::max(group, extent / group * group);
}

}  // namespace

const std::vector<Nvfp4Options>& askable_nvfp4_options() {
  static const std::vector<Nvfp4Options> all = [] {
    std::vector<Nvfp4Options> transforms{{}};
    for (const int group : kHadamardSizes) {
      for (const std::string_view sum : kAskedSums) {
        for (const Format result : kResults) transforms.push_back({{}, group, std::string(sum), result, false});
      }
    }
    std::vector<Nvfp4Options> made;
    for (const bool has_both : {false, true}) {
      for (std::size_t rounding = 0; rounding < kRoundingWords.size(); ++rounding) {
        for (Nvfp4Options o : transforms) {
          o.rounding = static_cast<Nvfp4Rounding>(rounding), o.has_both = has_both;
          if (o.any()) made.push_back(std::move(o));
        }
      }
    }
    return made;
  }();
  return all;
}

std::string_view to_text(Nvfp4Rounding rounding) { return kRoundingWords[static_cast<std::size_t>(rounding)]; }

std::string variant_text(const Nvfp4Options& o) {
  if (!o.any()) return {};
  return fmt::format(" rounding={} hadamard={} directions={}", to_text(o.rounding), transform_text(o),
                     kDirectionWords[o.has_both ? 1 : 0]);
}

std::string case_text(const Nvfp4Random& r) {
  return (r.key != 0 ? fmt::format(" key=0x{:x}", r.key) : "") +
         (r.offset != 0 ? fmt::format(" offset=0x{:x}", r.offset) : "") + words_text("counter", r.counter) +
         words_text("column_counter", r.column_counter) + signs_text(r.signs) +
         (r.column_scale != 0 ? fmt::format(" column_scale=0x{:08x}", r.column_scale) : "");
}

bool set_nvfp4_field(Case& c, std::string_view field, std::string_view value) {
  const FieldText f{field, value};
  const auto options = [&c]() -> Nvfp4Options& { return blocks_of(c.variant).options; };
  const auto random = [&c]() -> Nvfp4Random& { return blocks_case(c).random; };
  const auto word = [&](std::span<const std::string_view> words) { return word_field(field, value, words); };
  return f.read("rounding", [&] { options().rounding = static_cast<Nvfp4Rounding>(word(kRoundingWords)); }) ||
         f.read("hadamard", [&] { set_transform(field, value, options()); }) ||
         f.read("directions", [&] { options().has_both = word(kDirectionWords) != 0; }) ||
         f.read("key", [&] { random().key = hex_field<std::uint64_t>(field, value); }) ||
         f.read("offset", [&] { random().offset = hex_field<std::uint64_t>(field, value); }) ||
         f.read("counter", [&] { set_words(field, value, random().counter); }) ||
         f.read("column_counter", [&] { set_words(field, value, random().column_counter); }) ||
         f.read("signs", [&] { set_signs(field, value, random().signs); }) || f.read("column_scale", [&] {
           random().column_scale = hex_field<std::uint32_t>(field, value);
           const float scale = std::bit_cast<float>(random().column_scale);
           if (!(scale > 0) || std::isinf(scale)) fail_field(field, value, "the bits of a positive finite FP32");
         });
}

Policy nvfp4_policy(const Case& c, const mxcheck_policy& base) {
  const Nvfp4Options& o = blocks_of(c.variant).options;
  const Nvfp4Random& r = blocks_case(c).random;
  mxcheck_nvfp4_policy p{};
  p.base = base;
  p.rounding = static_cast<std::int32_t>(o.rounding);
  p.hadamard = o.hadamard, p.hadamard_sum = o.sum.c_str();
  p.hadamard_result = o.result == Format::fp32 ? MXCHECK_HADAMARD_FP32 : MXCHECK_HADAMARD_BF16;
  p.directions = o.has_both ? MXCHECK_BOTH_DIRECTIONS : MXCHECK_ROW_DIRECTION;
  std::ranges::copy(r.signs, p.signs);
  p.seed = r.key, p.offset = r.offset;
  std::ranges::copy(r.counter, p.counter);
  std::ranges::copy(r.column_counter, p.column_counter);
  return pack(p, {offsetof(mxcheck_nvfp4_policy, hadamard_sum)});
}

namespace {

// An unknown rounding, which no case may have, reads as nearest.
Nvfp4Rounding rounding_of(const mxcheck_nvfp4_policy& p) {
  const bool is_known = p.rounding >= 0 && std::cmp_less(p.rounding, kRoundingWords.size());
  return is_known ? static_cast<Nvfp4Rounding>(p.rounding) : Nvfp4Rounding::nearest;
}

}  // namespace

void read_nvfp4_policy(const Policy& policy, Case& c) {
  if (policy.num_bytes < sizeof(mxcheck_nvfp4_policy)) return;
  const auto p = read<mxcheck_nvfp4_policy>(policy);
  blocks_of(c.variant).options = {rounding_of(p), p.hadamard, p.hadamard_sum,
                                  p.hadamard_result == MXCHECK_HADAMARD_FP32 ? Format::fp32 : Format::bf16,
                                  p.directions == MXCHECK_BOTH_DIRECTIONS};
  Nvfp4Random& r = blocks_case(c).random;
  r.key = p.seed, r.offset = p.offset;
  std::ranges::copy(p.counter, r.counter.begin());
  std::ranges::copy(p.column_counter, r.column_counter.begin());
  std::ranges::copy(p.signs, r.signs.begin());
}

void draw_nvfp4_random(Case& c, Draw& draw) {
  const Nvfp4Options o = blocks_of(std::as_const(c).variant).options;
  if (!o.any()) return;
  Nvfp4Random r;
  if (o.is_stochastic()) {
    r.key = draw.word() >> (draw.chance(30) ? 32 : 0);
    if (r.key % 16 == 0) r.key = 0;            // a number like others
    const std::uint64_t kind = draw.below(4);  // where the carry into the counter's second word is, or none
    if (kind == 1) {                           // or where n passes 2^64, which carries into no word
      // A carry into a second word that is not 0, too.
      const std::uint64_t times = draw.chance(50) ? 1 : draw.chance(50) ? 0 : 2 + draw.below(14);
      const std::uint64_t limit = times * elements_of_first_word(o);
      r.offset = limit - draw.below(static_cast<std::uint64_t>(std::max<std::int64_t>(2, c.elements())));
    }
    if (kind == 2) r.offset = draw.word() >> draw.below(40);
    if (kind == 3) r.offset = draw.below(1000);
    const auto words = [&draw] {
      const auto third = static_cast<std::uint32_t>(draw.word());
      const std::uint64_t word = draw.word();
      return std::array{third, static_cast<std::uint32_t>(word % 2 == 0 ? word >> 60 : word >> 32)};
    };
    if (draw.chance(70)) r.counter = words();
    if (o.has_both && !draw.chance(15)) r.column_counter = words();  // 0 is a counter like others
  }
  for (int i = 0; i < o.hadamard / 16; ++i) {
    const auto bits = static_cast<std::uint32_t>(draw.word() >> 48);
    r.signs[static_cast<std::size_t>(i / 2)] |= bits << i % 2 * 16;
  }
  if (draw.chance(10)) r.signs = {};
  if (o.hadamard > 32 && draw.chance(25)) r.signs[draw.below(static_cast<std::uint64_t>(o.hadamard / 32))] = 0;
  blocks_case(c).random = r;
}

const std::vector<std::string>& drawn_scale_labels() {
  static const std::vector<std::string> labels{
      "of the matrix", "a power of two", "subnormal", "largest", "any", "of a divisor at an end of a binade"};
  return labels;
}

std::int64_t kind_of_drawn_scale(const Recipe& recipe, std::uint32_t bits) {
  constexpr std::uint32_t kMantissa = 0x7FFFFF, kFirstOfLargest = 0x7D800000;
  if (bits == 0) return 0;
  if (bits <= kMantissa) return 2;
  if (bits >= kFirstOfLargest) return 3;
  if ((bits & kMantissa) == 0) return 1;
  return has_divisor_at_an_end(recipe.two_level, std::bit_cast<float>(bits)) ? 5 : 4;
}

std::uint32_t draw_scale(const Recipe& recipe, std::int64_t kind, Draw& draw) {
  const auto mantissa = static_cast<std::uint32_t>(draw.word() >> 41);
  const auto exponent = static_cast<std::uint32_t>(draw.between(1, 250));
  switch (kind) {
    case 0: return 0;
    case 1: return exponent << 23;
    case 2: return draw.chance(30) ? 1U << draw.below(23) : std::max<std::uint32_t>(1, mantissa >> draw.below(23));
    case 3: return draw.chance(25) ? 0x7F7FFFFF : static_cast<std::uint32_t>(draw.between(251, 254)) << 23 | mantissa;
    case 5: {
      const std::size_t which = draw.chance(50) ? 0 : draw.below(kDivisorMantissas.size());
      const std::uint64_t word = draw.word();
      return scale_of_divisor(recipe.two_level, which, static_cast<int>(word >> 8 & 15) - 12, word).stored;
    }
    default: return exponent << 23 | mantissa | 1;
  }
}

void fit_to_groups(Case& c) {
  const Nvfp4Options o = blocks_of(std::as_const(c).variant).options;
  if (!o.any()) return;
  if (o.has_both) c.experts.clear(), c.gather = 0;
  if (o.hadamard == 0) return;
  std::int64_t& along = o.has_both ? c.rows : c.cols;
  along = fitted(along, o.hadamard);
}

void check_nvfp4_options(const Case& c) {
  const Nvfp4Options& o = blocks_of(c.variant).options;
  const Nvfp4Random& r = blocks_case(c).random;
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::usage, what); };
  const std::int64_t along = o.has_both ? c.rows : c.cols;
  if (o.hadamard != 0 && along % o.hadamard != 0)
    refuse(fmt::format("case field {}={} is no multiple of the {} of hadamard", o.has_both ? "rows" : "cols", along,
                       o.hadamard));
  if (is_beyond_group(r.signs, o.hadamard)) refuse("case field signs has bits beyond the group of hadamard");
  if (o.has_both && !c.experts.empty()) refuse("case fields experts and directions=both exclude one another");
  if (o.has_both && c.gather != 0) refuse("case fields gather and directions=both exclude one another");
}

Hadamard transform_of(const Nvfp4Options& o, const Nvfp4Random& r) {
  Hadamard t;
  t.size = o.hadamard, t.signs = r.signs, t.result = o.result;
  t.sum = value_in(kHadamardSums, o.sum).value_or(HadamardSum::matrix);
  if (t.sum == HadamardSum::matrix) t.contract = o.sum;
  return t;
}

}  // namespace mxcheck
