#include "numerics/accumulate/fused_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>

#include "numerics/accumulate/exact_sum.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

using Kind = Factor::Kind;

// +-magnitude * 2^unit, aligned by `exponent`.
struct Term {
  int index;
  bool negative;
  std::uint64_t magnitude;
  int unit;
  int exponent;
};

struct Specials {
  bool nan = false;
  bool positive_infinity = false;
  bool negative_infinity = false;

  void see(Kind kind, bool negative) {
    if (kind == Kind::nan) nan = true;
    if (kind == Kind::infinite) (negative ? negative_infinity : positive_infinity) = true;
  }
  [[nodiscard]] bool any() const { return nan || positive_infinity || negative_infinity; }
};

void see_product(Specials& s, const Factor& a, const Factor& b) {
  if (a.kind == Kind::nan || b.kind == Kind::nan) return s.see(Kind::nan, false);
  if (a.kind == Kind::finite && b.kind == Kind::finite) return;
  const bool zero = (a.kind == Kind::finite && a.significand == 0) || (b.kind == Kind::finite && b.significand == 0);
  s.see(zero ? Kind::nan : Kind::infinite, a.negative != b.negative);
}

std::uint32_t word_of(const SumOutput& out, std::uint32_t code) { return code << out.shift; }

std::uint32_t infinity(const SumOutput& out, bool negative) {
  const std::uint32_t sign = negative ? std::uint32_t{1} << (out.format.bits - 1) : 0;
  return word_of(out, sign | (out.format.max_code + 1));
}

// The term in units of 2^quantum.
std::int64_t align(const Term& t, int quantum, Alignment alignment) {
  const int left = t.unit - quantum;
  std::uint64_t kept = 0;
  bool inexact = false;
  if (left >= 0) {
    kept = t.magnitude << left;
  } else {
    const int drop = std::min(-left, 63);
    kept = t.magnitude >> drop;
    const std::uint64_t rest = t.magnitude & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    inexact = rest != 0;
    if (alignment == Alignment::downward && t.negative && inexact) ++kept;
    if (alignment == Alignment::nearest_even && (rest > half || (rest == half && (kept & 1) != 0))) ++kept;
  }
  const auto units = static_cast<std::int64_t>(kept);
  return t.negative ? -units : units;
}

void normalize(Term& t, int fraction_bits) {
  if (t.magnitude == 0) return;
  t.exponent += static_cast<int>(std::bit_width(t.magnitude)) - 1 - fraction_bits;
}

// The scales' factors for product k; those of 1 when there are none.
struct ScalePair {
  Factor a;
  Factor b;
};

Factor scale_factor(Format format, std::uint8_t code) {
  if (format != Format::e8m0) return factor(format, code & 0x7FU);
  if (code == 0xFF) return {Kind::nan, false, 0, 0, 0};
  return {Kind::finite, false, 1, code - spec(Format::e8m0).bias, 0};
}

constexpr ScalePair kNoScales{{Kind::finite, false, 1, 0, 0}, {Kind::finite, false, 1, 0, 0}};

std::vector<ScalePair> scale_pairs(const FusedSum& f, const StepScales* scales) {
  if (scales->a.empty() || scales->a.size() != scales->b.size() ||
      static_cast<std::size_t>(f.terms) % scales->a.size() != 0) {
    refuse_usage(std::to_string(scales->a.size()) + " and " + std::to_string(scales->b.size()) +
                 " scales for a step of " + std::to_string(f.terms) + " products: as many for either side are needed");
  }
  std::vector<ScalePair> pairs;
  for (std::size_t i = 0; i < scales->a.size(); ++i) {
    pairs.push_back({scale_factor(scales->format, scales->a[i]), scale_factor(scales->format, scales->b[i])});
  }
  return pairs;
}

// Products one by one.
void add_products(const FusedSum& f, std::span<const Factor> a, std::span<const Factor> b,
                  std::span<const ScalePair> scales, std::vector<Term>& terms) {
  const std::size_t per_scale = static_cast<std::size_t>(f.terms) / scales.size();
  for (std::size_t k = 0; k < a.size(); ++k) {
    const ScalePair& s = scales[k / per_scale];
    const int fraction_bits = a[k].fraction_bits + b[k].fraction_bits + s.a.fraction_bits + s.b.fraction_bits;
    const int exponent = a[k].exponent + b[k].exponent + s.a.exponent + s.b.exponent;
    const std::uint64_t magnitude =
        std::uint64_t{a[k].significand} * b[k].significand * s.a.significand * s.b.significand;
    Term t{static_cast<int>(k), a[k].negative != b[k].negative, magnitude, exponent - fraction_bits, exponent};
    if (f.normalizes_products) normalize(t, fraction_bits);
    if (t.magnitude != 0 || f.zero_products_count) terms.push_back(t);
  }
}

// Groups of products, summed exactly, aligned by the exponents of their scales.
void add_groups(const FusedSum& f, std::span<const Factor> a, std::span<const Factor> b,
                std::span<const ScalePair> scales, std::vector<Term>& terms) {
  const auto group = static_cast<std::size_t>(f.group);
  const std::size_t per_scale = static_cast<std::size_t>(f.terms) / scales.size();
  for (std::size_t first = 0; first < a.size(); first += group) {
    const ScalePair& s = scales[first / per_scale];
    std::int64_t sum = 0;  // in units of 2^lowest
    bool any = false;
    int lowest = 0;
    const std::size_t end = std::min(a.size(), first + group);
    for (std::size_t k = first; k < end; ++k) {
      lowest = std::min(lowest, a[k].exponent - a[k].fraction_bits + b[k].exponent - b[k].fraction_bits);
    }
    for (std::size_t k = first; k < end; ++k) {
      const int unit = a[k].exponent - a[k].fraction_bits + b[k].exponent - b[k].fraction_bits;
      const auto product = static_cast<std::int64_t>(a[k].significand) * b[k].significand << (unit - lowest);
      any = any || product != 0;
      sum += a[k].negative != b[k].negative ? -product : product;
    }
    const std::uint64_t scale = std::uint64_t{s.a.significand} * s.b.significand;
    if (!any || scale == 0) continue;
    const int exponent = s.a.exponent + s.b.exponent;
    terms.push_back({static_cast<int>(first / group), sum < 0, static_cast<std::uint64_t>(std::abs(sum)) * scale,
                     exponent + lowest - s.a.fraction_bits - s.b.fraction_bits, exponent});
  }
}

Specials specials_of(std::span<const Factor> a, std::span<const Factor> b, std::span<const ScalePair> scales) {
  Specials s;
  for (std::size_t k = 0; k < a.size(); ++k) see_product(s, a[k], b[k]);
  for (const ScalePair& pair : scales) {
    if (pair.a.kind == Kind::nan || pair.b.kind == Kind::nan) s.nan = true;
  }
  return s;
}

}  // namespace

Factor factor(Format format, std::uint32_t code) {
  const FormatSpec& f = spec(format);
  if (f.encoding == Encoding::power_of_two || f.encoding == Encoding::fixed_point) {
    refuse_usage(std::string(f.name) + " has no mantissa: it is no operand of a tensor core");
  }
  return factor_of(f, code);
}

std::uint32_t converted_sum(const FusedSum& f, std::int64_t units, int exponent) {
  const SumOutput& out = f.output;
  const double value = std::ldexp(static_cast<double>(units), exponent);
  const bool negative = units < 0;
  const Rounding rounding = out.rounds_to_even ? Rounding::nearest_even : Rounding::toward_zero;
  const Overflow overflow = f.saturates ? Overflow::saturate : Overflow::non_saturate;
  if (!f.saturates && std::abs(value) >= std::ldexp(1.0, out.format.bias + 1)) return infinity(out, negative);
  const std::uint32_t code = detail::encode_with(out.format, value, rounding, overflow, 0);
  const std::uint32_t sign = std::uint32_t{1} << (out.format.bits - 1);
  return (code & ~sign) == 0 ? 0 : word_of(out, code);
}

std::uint32_t fused_sum(const FusedSum& f, std::span<const Factor> a, std::span<const Factor> b, std::uint32_t c_word,
                        const StepScales* step_scales, FusedTrace* trace) {
  if (a.size() != b.size() || a.size() > static_cast<std::size_t>(f.terms)) {
    refuse_usage(std::to_string(a.size()) + " by " + std::to_string(b.size()) + " factors for a step of " +
                 std::to_string(f.terms) + " products");
  }
  if (trace != nullptr) *trace = {};
  std::vector<ScalePair> given;
  if (step_scales != nullptr) given = scale_pairs(f, step_scales);
  const std::span<const ScalePair> scales = step_scales != nullptr ? std::span(given) : std::span(&kNoScales, 1);
  const Factor c = factor_of(spec(f.output.c), c_word);
  Specials s = specials_of(a, b, scales);
  s.see(c.kind, c.negative);
  if (s.any()) {
    const bool nan = s.nan || (s.positive_infinity && s.negative_infinity);
    const std::uint32_t word = nan ? f.output.nan : infinity(f.output, s.negative_infinity);
    if (trace != nullptr) trace->word = word, trace->special = true;
    return word;
  }

  thread_local std::vector<Term> terms;  // its memory is kept: a step is shorter than an allocation
  terms.clear();
  f.group > 1 ? add_groups(f, a, b, scales, terms) : add_products(f, a, b, scales, terms);
  if (c.significand != 0 && !f.adds_c_last) {
    terms.push_back({-1, c.negative, c.significand, c.exponent - c.fraction_bits, c.exponent});
  }
  int window = f.window_floor;
  for (const Term& t : terms) window = std::max(window, t.exponent);
  const int quantum = window - f.fraction_bits;
  std::int64_t sum = 0;
  for (const Term& t : terms) {
    const std::int64_t units = align(t, quantum, f.alignment);
    sum += units;
    if (trace != nullptr && t.magnitude != 0) {
      const bool cut =
          t.unit < quantum && (t.magnitude & ((std::uint64_t{1} << std::min(quantum - t.unit, 63)) - 1)) != 0;
      trace->terms.push_back({t.index, t.negative, t.magnitude, t.unit, t.exponent, units, cut});
    }
  }
  std::uint32_t word = converted_sum(f, sum, quantum);
  if (f.adds_c_last) {
    word = std::bit_cast<std::uint32_t>(std::bit_cast<float>(word) + std::bit_cast<float>(c_word));
  }
  if (trace != nullptr) trace->word = word, trace->window = window, trace->sum = sum;
  return word;
}

void ExactSum::add(bool negative, std::uint64_t magnitude, int exponent) {
  if (magnitude == 0) return;
  if (exponent < kLowest) {
    const int trailing = std::countr_zero(magnitude);
    if (exponent + trailing < kLowest) {
      throw Error(ErrorKind::usage, "a term of an exact sum has bits below 2^" + std::to_string(kLowest));
    }
    magnitude >>= kLowest - exponent;
    exponent = kLowest;
  }
  if (exponent + static_cast<int>(std::bit_width(magnitude)) > 512) {
    throw Error(ErrorKind::usage, "a term of an exact sum reaches 2^512");
  }
  const auto at = static_cast<unsigned>(exponent - kLowest);
  const unsigned shift = at % 64;
  const std::uint64_t low = magnitude << shift;
  const std::uint64_t high = shift == 0 ? 0 : magnitude >> (64 - shift);
  bool carry = false;
  for (std::size_t i = at / 64, part = 0; i < words_.size() && (part < 2 || carry); ++i, ++part) {
    const std::uint64_t term = part == 0 ? low : part == 1 ? high : 0;
    std::uint64_t sum = 0;
    bool over =
        negative ? __builtin_sub_overflow(words_[i], term, &sum) : __builtin_add_overflow(words_[i], term, &sum);
    const std::uint64_t before = sum;
    sum = negative ? sum - (carry ? 1 : 0) : sum + (carry ? 1 : 0);
    over = over || (carry && (negative ? before == 0 : before == ~std::uint64_t{0}));
    words_[i] = sum;
    carry = over;
  }
}

std::uint32_t ExactSum::rounded(Format format) const {
  const FormatSpec& f = spec(format);
  if (f.encoding != Encoding::ieee) {
    throw Error(ErrorKind::usage,
                "an exact sum is not rounded to " + std::string(f.name) + ", which has no infinities");
  }
  const bool negative = words_.back() >> 63 != 0;
  std::array<std::uint64_t, kWords> m = words_;
  if (negative) {
    bool carry = true;
    for (std::uint64_t& w : m) {
      w = ~w + (carry ? 1 : 0);
      carry = carry && w == 0;
    }
  }
  std::size_t top = m.size();
  while (top > 0 && m[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The highest 53 bits, the last of them set when anything below is: rounding to at most 24 bits cannot tell the
  // difference, for subnormals neither (they keep fewer).
  const int width = static_cast<int>(std::bit_width(m[top - 1]));
  const int high_bit = static_cast<int>(top - 1) * 64 + width - 1;
  std::uint64_t head = m[top - 1] << (64 - width);
  if (top > 1 && width < 64) head |= m[top - 2] >> width;
  bool rest = (head & 0x7FF) != 0;
  head >>= 11;
  if (top > 1) rest = rest || (width < 64 ? m[top - 2] << (64 - width) : m[top - 2]) != 0;
  for (std::size_t i = 0; i + 2 < top; ++i) rest = rest || m[i] != 0;
  head |= rest ? 1 : 0;
  const double value = std::ldexp(static_cast<double>(head), high_bit - 52 + kLowest);
  return encode(format, negative ? -value : value, Rounding::nearest_even, Overflow::non_saturate);
}

}  // namespace mxcheck
