// Rows about casts and decoding, which have no scale or have it given.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "properties/operations/scaled_blocks/definitions.h"

namespace mxcheck {
namespace {

double through(Format format, double v, Rounding rounding = Rounding::nearest_even) {
  return std::isnan(v) ? v : decode(format, encode(format, v, rounding, Overflow::non_saturate));
}

// A cast to a format by a rounding that treats what is too large so; and slips of it.
class CastSlips {
 public:
  CastSlips(Format f, Rounding r, Overflow o) : f_(f), r_(r), o_(o) {}

  void roundings();
  void overflows();
  void inputs(const std::string& of);  // of: what is cast, "a product"
  void subnormals();                   // of another exponent
  void signs();
  void formats();
  void by_way_of_fp32();  // of inputs of FP64
  std::vector<ElementSlip> take() { return std::move(all_); }

 private:
  void add(const std::string& name, std::function<std::uint32_t(double)> code) {
    all_.push_back({name, std::move(code)});
  }
  void cast(const std::string& name, Format to, Rounding rounding, Overflow beyond) {
    add(name, [=](double v) { return encode(to, v, rounding, beyond); });
  }
  // The right rounding of something else.
  void changed(const std::string& name, const std::function<double(double)>& change) {
    add(name, [right = right(), change](double v) { return right(change(v)); });
  }
  [[nodiscard]] std::function<std::uint32_t(double)> right() const {
    return [f = f_, r = r_, o = o_](double v) { return encode(f, v, r, o); };
  }
  [[nodiscard]] std::uint32_t sign() const { return std::uint32_t{1} << (spec(f_).bits - 1); }
  [[nodiscard]] double normal() const { return std::ldexp(1.0, 1 - spec(f_).bias); }

  Format f_;
  Rounding r_;
  Overflow o_;
  std::vector<ElementSlip> all_;
};

void CastSlips::roundings() {
  const Format f = f_;
  const Overflow o = o_;
  if (r_ != Rounding::nearest_even) cast("ties to even", f, Rounding::nearest_even, o);
  cast("ties away from zero", f, Rounding::nearest_away, o);
  add("ties toward zero", [=](double v) {
    const std::uint32_t even = encode(f, v, Rounding::nearest_even, o);
    const std::uint32_t cut = encode(f, v, Rounding::toward_zero, o);
    // A tie: the cut value lies as far away as the one above it, which is where ties away go.
    const std::uint32_t away = encode(f, v, Rounding::nearest_away, o);
    const bool is_tie = cut != away && std::fabs(v) * 2 == std::fabs(decode(f, cut)) + std::fabs(decode(f, away));
    return is_tie ? cut : even;
  });
  cast("rounding toward zero (truncation)", f, Rounding::toward_zero, o);
  cast("rounding toward +Inf", f, Rounding::upward, o);
  add("rounding away from zero", [=, sign = sign()](double v) {
    return std::signbit(v) ? encode(f, -v, Rounding::upward, o) | sign : encode(f, v, Rounding::upward, o);
  });
}

void CastSlips::overflows() {
  cast("a cast that does not saturate (NaN or Inf beyond the largest value)", f_, r_, Overflow::non_saturate);
  add("NaN with the sign of what is beyond the largest value, in place of that value",
      [f = f_, r = r_, sign = sign(), right = right()](double v) {
        const bool is_beyond =
            std::isfinite(v) && encode(f, v, r, Overflow::non_saturate) != encode(f, v, r, Overflow::saturate);
        return is_beyond ? spec(f).nan_code | (std::signbit(v) ? sign : 0U) : right(v);
      });
  for (const bool saturates : {true, false}) {
    const Overflow of_inf = saturates ? Overflow::saturate : Overflow::non_saturate;
    add(std::string("infinities that ") + (saturates ? "saturate" : "do not saturate") +
            ", other values as they should",
        [=, f = f_, r = r_, o = o_](double v) { return encode(f, v, r, std::isinf(v) ? of_inf : o); });
  }
  if (spec(f_).encoding != Encoding::fixed_point) {
    add("the largest value written as the one below it", [f = f_, sign = sign(), right = right()](double v) {
      const std::uint32_t code = right(v);
      return (code & ~sign) == spec(f).max_code ? code - 1 : code;
    });
  }
  for (const double limit : {240.0, 448.0, 57344.0, 6.0}) {
    changed("elements clamped to " + std::to_string(static_cast<int>(limit)),
            [=](double v) { return std::isnan(v) ? v : std::clamp(v, -limit, limit); });
  }
}

void CastSlips::inputs(const std::string& of) {
  changed(of + " rounded to BF16 before the cast (rounded twice)", [](double v) { return through(Format::bf16, v); });
  changed(of + " rounded to FP16 before the cast (rounded twice)", [](double v) { return through(Format::fp16, v); });
  changed(of + " cut to BF16 before the cast",
          [](double v) { return through(Format::bf16, v, Rounding::toward_zero); });
  changed("results below the smallest normal value flushed to zero",
          [normal = normal()](double v) { return std::fabs(v) < normal ? std::copysign(0.0, v) : v; });
  add("subnormal codes flushed to zero", [f = f_, normal = normal(), right = right()](double v) {
    const std::uint32_t code = right(v);
    return std::fabs(decode(f, code)) < normal ? right(std::copysign(0.0, v)) : code;
  });
  add("subnormal codes rounded toward zero", [f = f_, o = o_, normal = normal(), right = right()](double v) {
    return std::fabs(v) < normal ? encode(f, v, Rounding::toward_zero, o) : right(v);
  });
}

void CastSlips::subnormals() {
  if (spec(f_).encoding == Encoding::fixed_point) return;
  for (const int by : {1, -1}) {
    changed(std::string("subnormal results a binade too ") + (by > 0 ? "high" : "low"),
            [by, normal = normal()](double v) { return std::fabs(v) < normal ? std::ldexp(v, by) : v; });
  }
}

void CastSlips::signs() {
  changed("negative zeros and underflows without their sign",
          [f = f_, right = right()](double v) { return decode(f, right(v)) == 0 ? 0.0 : v; });
  changed("magnitudes (the sign is lost)", [](double v) { return std::fabs(v); });
  changed("the opposite sign", [](double v) { return -v; });
  add("a NaN code with the sign set",
      [sign = sign(), right = right()](double v) { return right(v) | (std::isnan(v) ? sign : 0U); });
  add("a NaN code with the sign of its input",
      [sign = sign(), right = right()](double v) { return right(v) | (std::isnan(v) && std::signbit(v) ? sign : 0U); });
  changed("NaN taken for zero", [](double v) { return std::isnan(v) ? 0.0 : v; });
}

void CastSlips::formats() {
  if (f_ == Format::e4m3) add("format float8_e4m3fnuz (bias 8)", encode_fnuz);
  for (const Format other : {Format::e4m3, Format::e5m2, Format::mxint8}) {
    if (other != f_ && spec(f_).bits == 8)
      cast("format " + std::string(spec(other).dtype_name), other, Rounding::nearest_even, Overflow::saturate);
  }
}

void CastSlips::by_way_of_fp32() {
  const double largest = decode(Format::fp32, spec(Format::fp32).max_code);
  changed("an input rounded to FP32 before the cast (rounded twice)",
          [](double v) { return through(Format::fp32, v); });
  changed("an input cut to FP32 before the cast",
          [](double v) { return through(Format::fp32, v, Rounding::toward_zero); });
  changed("inputs beyond FP32's largest value taken for NaN",
          [=](double v) { return std::isfinite(v) && std::fabs(v) > largest ? kPoisoned : v; });
  changed("inputs below FP32's smallest value taken for +0",
          [](double v) { return through(Format::fp32, v) == 0 && v != 0 ? 0.0 : v; });
}

}  // namespace

std::vector<ElementSlip> element_slips(Format f, Rounding r, Overflow o, const std::string& of) {
  CastSlips slips(f, r, o);
  slips.roundings();
  slips.overflows();
  slips.inputs(of);
  slips.subnormals();
  slips.signs();
  slips.formats();
  return slips.take();
}

Bytes codes_of(Format format, const std::vector<double>& values, const std::function<std::uint32_t(double)>& code) {
  const std::size_t width = size_of(format);
  Bytes bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t one = code(values[i]);
    std::memcpy(bytes.data() + i * width, &one, width);
  }
  return bytes;
}

Table casts_table(Format format, std::vector<double> values, std::size_t output) {
  Table all;
  const auto v = std::make_shared<const std::vector<double>>(std::move(values));
  for (const auto& [rounding_name, rounding] : kRoundings) {
    if (rounding == Rounding::stochastic) continue;
    for (const auto& [overflow_name, overflow] : kOverflows) {
      const auto code = [=, r = rounding, o = overflow](double x) { return encode(format, x, r, o); };
      all.push_back(definition_of_output(output, std::string(rounding_name) + ", " + std::string(overflow_name),
                                         [=] { return codes_of(format, *v, code); }));
    }
  }
  return all;
}

Table stochastic_table(Format format, std::vector<double> values, std::vector<std::uint32_t> words,
                       std::size_t output) {
  Table all;
  const auto v = std::make_shared<const std::vector<double>>(std::move(values));
  const auto w = std::make_shared<const std::vector<std::uint32_t>>(std::move(words));
  for (const auto& [name, overflow] : kOverflows) {
    all.push_back(definition_of_output(output, "stochastic with these words, " + std::string(name), [=, o = overflow] {
      auto word = w->begin();
      return codes_of(format, *v, [&](double x) { return encode(format, x, Rounding::stochastic, o, *word++); });
    }));
  }
  return all;
}

bool is_stochastic_cast(Format format, Overflow overflow, std::span<const double> values,
                        std::span<const std::uint32_t> codes, int bits) {
  constexpr double kDeviations = 6, kFewest = 16;  // inputs between two codes: of fewer nothing is said
  double up_due = 0, up = 0, farther_due = 0, farther = 0, variance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const auto with = [&](std::uint32_t word) {
      return encode(format, values[i], Rounding::stochastic, overflow, word);
    };
    const std::uint32_t low = with(0), high = with(~0U << (32 - bits));
    if (codes[i] != low && codes[i] != high) return false;
    const double below = decode(format, low), above = decode(format, high);
    if (low == high || !std::isfinite(above)) continue;
    const double exact = (values[i] - below) / (above - below);
    const double fraction = std::ldexp(std::floor(std::ldexp(exact, bits)), -bits);
    const bool went_up = codes[i] == high;
    up_due += fraction, up += went_up ? 1 : 0;
    farther_due += std::min(fraction, 1 - fraction), farther += went_up == (fraction < 0.5) ? 1 : 0;
    variance += fraction * (1 - fraction);
  }
  const double slack = kDeviations * std::sqrt(variance);
  return variance >= kFewest / 4 && std::fabs(up - up_due) <= slack && std::fabs(farther - farther_due) <= slack;
}

Table cast_slips(Format format, Overflow overflow, const std::vector<double>& values, std::size_t output, Format type) {
  Table all;
  std::vector<ElementSlip> slips = element_slips(format, Rounding::nearest_even, overflow, "an input");
  if (type == Format::fp64) {
    CastSlips wide(format, Rounding::nearest_even, overflow);
    wide.by_way_of_fp32();
    for (ElementSlip& slip : wide.take()) slips.push_back(std::move(slip));
  }
  for (const ElementSlip& slip : slips)
    all.push_back(
        definition_of_output(output, slip.name, [=, &values] { return codes_of(format, values, slip.code); }));
  return all;
}

std::uint32_t encode_fnuz(double v) {
  if (std::isnan(v)) return 0x80;
  const double magnitude = std::min(std::fabs(v), 240.0);
  const int exponent = magnitude == 0 ? -7 : std::max(std::ilogb(magnitude), -7);
  const double steps = std::nearbyint(std::ldexp(magnitude, 3 - exponent));  // ties to even, in the default mode
  const auto code = static_cast<std::uint32_t>((exponent + 7) * 8 + static_cast<int>(steps));
  return code == 0 ? 0 : code | (std::signbit(v) ? 0x80U : 0U);
}

// Rows about values: code times scale with a slip in either.

namespace {

struct DecodingSlip {
  std::string name;
  std::function<double(std::uint32_t code, std::uint32_t scale)> value;
};

double scale_of(std::uint32_t byte) { return byte == 255 ? kPoisoned : std::ldexp(1.0, static_cast<int>(byte) - 127); }

std::vector<DecodingSlip> slips_of_codes(Format f) {
  const double normal = std::ldexp(1.0, 1 - spec(f).bias);
  const auto is_nan_code = [](std::uint32_t c) { return (c & 0x7F) == 0x7F; };
  const auto as_480 = [=](std::uint32_t c) {
    return is_nan_code(c) ? (c > 127 ? -480.0 : 480.0) : decode(Format::e4m3, c);
  };
  std::vector<DecodingSlip> all{
      {"values below the smallest normal flushed to zero",
       [=](auto c, auto s) {
         const double v = decode(f, c) * scale_of(s);
         return std::fabs(v) < 0x1p-126 ? std::copysign(0.0, v) : v;
       }},
      {"subnormal codes taken for zero",
       [=](auto c, auto s) {
         const double v = decode(f, c);
         return (std::fabs(v) < normal ? std::copysign(0.0, v) : v) * scale_of(s);
       }},
      {"subnormal codes with the leading one of normal ones",
       [=](auto c, auto s) {
         const double v = decode(f, c);
         const bool is_subnormal = std::fabs(v) < normal && v != 0;
         return (is_subnormal ? std::copysign(normal / 2 + std::fabs(v) / 2, v) : v) * scale_of(s);
       }},
      {"codes without their sign", [=](auto c, auto s) { return std::fabs(decode(f, c)) * scale_of(s); }},
      {"codes without their scales", [=](auto c, auto) { return decode(f, c); }}};
  for (const int by : {1, -1}) {
    all.push_back({std::string("subnormal codes a binade too ") + (by > 0 ? "high" : "low"), [=](auto c, auto s) {
                     const double v = decode(f, c);
                     return (std::fabs(v) < normal ? std::ldexp(v, by) : v) * scale_of(s);
                   }});
  }
  for (const Format other : {Format::e4m3, Format::e5m2}) {
    if (other != f && spec(f).bits == 8) {
      all.push_back({"codes of format " + std::string(spec(other).dtype_name),
                     [=](auto c, auto s) { return decode(other, c) * scale_of(s); }});
    }
  }
  if (f != Format::e4m3) return all;
  all.push_back({"codes of format float8_e4m3fnuz (bias 8)",
                 [=](auto c, auto s) { return c == 0x80 ? kPoisoned : as_480(c) / 2 * scale_of(s); }});
  all.push_back({"a NaN code taken for 480", [=](auto c, auto s) { return as_480(c) * scale_of(s); }});
  return all;
}

std::vector<DecodingSlip> slips_of_scales(Format f) {
  return {{"a scale byte of 0 taken for the scale 0",
           [=](auto c, auto s) { return decode(f, c) * (s == 0 ? 0 : scale_of(s)); }},
          {"a scale byte of 0 taken for 1", [=](auto c, auto s) { return decode(f, c) * (s == 0 ? 1 : scale_of(s)); }},
          {"a scale byte of 255 taken for +Inf",
           [=](auto c, auto s) {
             return decode(f, c) * (s == 255 ? std::numeric_limits<double>::infinity() : scale_of(s));
           }},
          {"a scale byte of 255 that makes every element infinite, zeros and NaN too",
           [=](auto c, auto s) {
             const double infinity = std::numeric_limits<double>::infinity();
             const bool is_negative = c >> (spec(f).bits - 1) != 0;
             return s == 255 ? std::copysign(infinity, is_negative ? -1.0 : 1.0) : decode(f, c) * scale_of(s);
           }},
          {"a scale byte of 255 taken for 2^128",
           [=](auto c, auto s) { return decode(f, c) * std::ldexp(1.0, static_cast<int>(s) - 127); }},
          {"a scale byte of 254 taken for the scale 0",
           [=](auto c, auto s) { return decode(f, c) * (s == 254 ? 0 : scale_of(s)); }},
          {"values beyond the largest number taken for that",
           [=](auto c, auto s) {
             const double v = decode(f, c) * scale_of(s);
             const double largest = decode(Format::fp32, spec(Format::fp32).max_code);
             return std::isfinite(v) ? std::clamp(v, -largest, largest) : v;
           }},
          {"a bias of 128 for scales", [=](auto c, auto s) { return decode(f, c) * scale_of(s) / 2; }}};
}

}  // namespace

Table decoding_table(const Decoding& d, std::size_t output) {
  Table all;
  const auto rounded_by = [&d](const auto& value, Rounding rounding) {
    std::vector<double> values;
    for (std::size_t i = 0; i < d.codes.size(); ++i)
      values.push_back(value(d.codes.code(i), d.scales.code(static_cast<std::size_t>(d.scale_index[i]))));
    return codes_of(d.values, values, [&](double v) { return encode(d.values, v, rounding, Overflow::non_saturate); });
  };
  const auto add = [&](const DecodingSlip& slip) {
    all.push_back(definition_of_output(output, slip.name,
                                       [rounded_by, slip] { return rounded_by(slip.value, Rounding::nearest_even); }));
  };
  for (const DecodingSlip& slip : slips_of_scales(d.codes.format)) add(slip);
  for (const DecodingSlip& slip : slips_of_codes(d.codes.format)) add(slip);
  if (d.values != Format::bf16) return all;
  all.push_back(definition_of_output(output, "values cut to BF16, not rounded", [rounded_by, f = d.codes.format] {
    const auto right = [f](std::uint32_t c, std::uint32_t s) {
      return through(Format::fp32, decode(f, c) * scale_of(s));
    };
    return rounded_by(right, Rounding::toward_zero);
  }));
  return all;
}

}  // namespace mxcheck
