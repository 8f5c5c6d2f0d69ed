// What goes wrong with codes, given the scales that the candidate itself wrote: another rounding, another format,
// another place.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "numerics/format/codec.h"
#include "properties/diagnosis/golden_problem.h"

namespace mxcheck {
namespace {

constexpr double kPoisoned = std::numeric_limits<double>::quiet_NaN();

// The element before it is rounded, by the candidate's own scale (the expected one where it has none).
std::vector<double> scaled(const GoldenProblem& p) {
  const MatrixView view = p.view();
  const std::vector<std::int64_t> index = p.scale_index();
  std::vector<double> v(index.size());
  const bool fp32 = p.recipe.rule == ScaleRule::fp32;
  const std::vector<std::uint8_t>& bytes = p.own_scales ? *p.own_scales : p.expected.scales;
  const std::vector<float>& floats = p.own_scales_fp32 ? *p.own_scales_fp32 : p.expected.scales_fp32;
  for (std::size_t at = 0; at < v.size(); ++at) {
    const float x = view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols);
    const auto s = static_cast<std::size_t>(index[at]);
    if (fp32) {
      v[at] = static_cast<double>(x / floats[s]);
    } else {
      v[at] = bytes[s] == 255 ? kPoisoned : static_cast<double>(x) * std::ldexp(1.0, 127 - int{bytes[s]});
    }
  }
  return v;
}

using Encode = std::function<std::uint32_t(double v)>;

std::vector<std::byte> codes_by(const GoldenProblem& p, const std::vector<double>& v, const Encode& encode_one) {
  const std::size_t width = p.element == Format::e5m6 ? 2 : 1;
  std::vector<std::byte> bytes(v.size() * width);
  for (std::size_t at = 0; at < v.size(); ++at) {
    const std::uint32_t code = encode_one(v[at]);
    std::memcpy(bytes.data() + at * width, &code, width);
  }
  return bytes;
}

double through(Format format, double v, Rounding rounding = Rounding::nearest_even) {
  return std::isnan(v) ? v : decode(format, encode(format, v, rounding, Overflow::non_saturate));
}

class Codes {
 public:
  explicit Codes(const GoldenProblem& p) : p_(p), v_(std::make_shared<const std::vector<double>>(scaled(p))) {}

  void add(const std::string& text, Encode encode_one) {
    all_.push_back({text, [&p = p_, v = v_, e = std::move(encode_one)] { return codes_by(p, *v, e); }});
  }
  // The right rounding of something else than x / scale.
  void add_value(const std::string& text, std::function<double(double)> change) {
    add(text, [this_format = p_.element, this_overflow = p_.recipe.overflow, c = std::move(change)](double v) {
      return encode(this_format, c(v), Rounding::nearest_even, this_overflow);
    });
  }
  void add(Hypothesis h) { all_.push_back(std::move(h)); }
  [[nodiscard]] std::shared_ptr<const std::vector<double>> shared() const { return v_; }
  std::vector<Hypothesis> take() { return std::move(all_); }

 private:
  const GoldenProblem& p_;
  std::shared_ptr<const std::vector<double>> v_;
  std::vector<Hypothesis> all_;
};

void add_roundings(const GoldenProblem& p, Codes& codes) {
  const Format f = p.element;
  const Overflow o = p.recipe.overflow;
  const auto cast = [&](const std::string& text, Format to, Rounding r, Overflow beyond) {
    codes.add(text, [=](double v) { return encode(to, v, r, beyond); });
  };
  codes.add({"the codes are right for the candidate's own scales: only those are wrong",
             [&p, v = codes.shared(), f, o] {
               return codes_by(p, *v, [&](double x) { return encode(f, x, p.recipe.rounding, o); });
             },
             true});
  cast("ties away from zero", f, Rounding::nearest_away, o);
  cast("rounding toward zero (truncation)", f, Rounding::toward_zero, o);
  cast("rounding toward +Inf", f, Rounding::upward, o);
  codes.add("rounding away from zero", [=](double v) {
    return std::signbit(v) ? encode(f, -v, Rounding::upward, o) | 1U << (spec(f).bits - 1)
                           : encode(f, v, Rounding::upward, o);
  });
  cast("a cast that does not saturate (NaN or Inf beyond the largest value)", f, p.recipe.rounding,
       Overflow::non_saturate);
  codes.add_value("a product rounded to BF16 before the cast (rounded twice)",
                  [](double v) { return through(Format::bf16, v); });
  codes.add_value("a product rounded to FP16 before the cast (rounded twice)",
                  [](double v) { return through(Format::fp16, v); });
  codes.add_value("a product cut to BF16 before the cast",
                  [](double v) { return through(Format::bf16, v, Rounding::toward_zero); });
  const double normal = std::ldexp(1.0, 1 - spec(f).bias);
  codes.add_value("results below the smallest normal value flushed to zero",
                  [=](double v) { return std::fabs(v) < normal ? std::copysign(0.0, v) : v; });
  codes.add("subnormal codes flushed to zero", [=](double v) {
    const std::uint32_t code = encode(f, v, Rounding::nearest_even, o);
    return std::fabs(decode(f, code)) < normal ? encode(f, std::copysign(0.0, v), Rounding::nearest_even, o) : code;
  });
  codes.add_value("negative zeros and underflows without their sign",
                  [=](double v) { return decode(f, encode(f, v, Rounding::nearest_even, o)) == 0 ? 0.0 : v; });
  codes.add_value("magnitudes (the sign is lost)", [](double v) { return std::fabs(v); });
  codes.add_value("the opposite sign", [](double v) { return -v; });
  codes.add("a NaN code with the sign set", [=](double v) {
    return encode(f, v, Rounding::nearest_even, o) | (std::isnan(v) ? 1U << (spec(f).bits - 1) : 0U);
  });
  codes.add_value("NaN taken for zero", [](double v) { return std::isnan(v) ? 0.0 : v; });
  for (const double limit : {240.0, 448.0, 57344.0, 6.0}) {
    codes.add_value("elements clamped to " + std::to_string(static_cast<int>(limit)),
                    [=](double v) { return std::isnan(v) ? v : std::clamp(v, -limit, limit); });
  }
  if (f == Format::e4m3) codes.add("format float8_e4m3fnuz (bias 8)", encode_fnuz);
  for (const Format other : {Format::e4m3, Format::e5m2, Format::mxint8}) {
    if (other != f && spec(f).bits == 8) {
      cast("format " + std::string(spec(other).dtype_name), other, Rounding::nearest_even, Overflow::saturate);
    }
  }
  for (const Recipe& recipe : all_recipes()) {
    if (!p.own_scales || recipe.name == p.recipe.name || recipe.rule == ScaleRule::fp32) continue;
    codes.add({"recipe " + recipe.name, [&p, &recipe] {
                 const Quantized q = quantize(p.view(), p.element, p.block, recipe, p.offsets);
                 if (q.scales != *p.own_scales) return std::vector<std::byte>{};
                 const auto bytes =
                     q.codes16.empty() ? std::as_bytes(std::span(q.codes)) : std::as_bytes(std::span(q.codes16));
                 return std::vector<std::byte>(bytes.begin(), bytes.end());
               }});
  }
}

void add_scalings(const GoldenProblem& p, Codes& codes) {
  const auto with = [&](const std::string& text, auto factor) {
    codes.add(
        {text, [&p, factor] {
           const MatrixView view = p.view();
           const std::vector<std::int64_t> index = p.scale_index();
           std::vector<double> v(index.size());
           for (std::size_t at = 0; at < v.size(); ++at) {
             v[at] = factor(view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols),
                            static_cast<std::size_t>(index[at]));
           }
           return codes_by(p, v, [&](double x) { return encode(p.element, x, p.recipe.rounding, p.recipe.overflow); });
         }});
  };
  with("x without its scale", [](float x, std::size_t) { return static_cast<double>(x); });
  if (p.recipe.rule == ScaleRule::fp32) {
    const auto scale = [&p](std::size_t s) {
      return p.own_scales_fp32 ? (*p.own_scales_fp32)[s] : p.expected.scales_fp32[s];
    };
    with("x times the reciprocal of the scale",
         [scale](float x, std::size_t s) { return static_cast<double>(x * (1.0F / scale(s))); });
    with("x divided by the scale", [scale](float x, std::size_t s) { return static_cast<double>(x / scale(s)); });
    with("x times the scale", [scale](float x, std::size_t s) { return static_cast<double>(x * scale(s)); });
    const auto quotient = static_cast<float>(decode(p.element, spec(p.element).max_code));
    with("x times (largest value / amax)", [scale, quotient](float x, std::size_t s) {
      return static_cast<double>(x * (quotient / (scale(s) * quotient)));
    });
    return;
  }
  const auto byte = [&p](std::size_t s) { return int{p.own_scales ? (*p.own_scales)[s] : p.expected.scales[s]}; };
  with("x times the scale (multiplied where division is due)",
       [byte](float x, std::size_t s) { return static_cast<double>(x) * std::ldexp(1.0, byte(s) - 127); });
  for (const int by : {1, -1}) {
    with(std::string("codes for a scale one binade ") + (by > 0 ? "larger" : "smaller") + " than the one written",
         [byte, by](float x, std::size_t s) { return static_cast<double>(x) * std::ldexp(1.0, 127 - by - byte(s)); });
  }
  with("codes for the right scales, which are not the ones written", [&p](float x, std::size_t s) {
    return p.expected.scales[s] == 255 ? kPoisoned
                                       : static_cast<double>(x) * std::ldexp(1.0, 127 - int{p.expected.scales[s]});
  });
  with("the first block's scale for every element",
       [byte](float x, std::size_t) { return static_cast<double>(x) * std::ldexp(1.0, 127 - byte(0)); });
  with("x flushed where it is subnormal", [byte](float x, std::size_t s) {
    return std::fabs(x) < 0x1p-126F ? std::copysign(0.0, static_cast<double>(x))
                                    : static_cast<double>(x) * std::ldexp(1.0, 127 - byte(s));
  });
}

void add_places(const GoldenProblem& p, Codes& codes) {
  if (p.element == Format::e5m6) return;
  const auto moved = [&](const std::string& text, auto from) {
    codes.add({text, [&p, from] {
                 const auto count = static_cast<std::int64_t>(p.expected.codes.size());
                 std::vector<std::byte> bytes(p.expected.codes.size());
                 for (std::int64_t i = 0; i < count; ++i) {
                   const std::int64_t at = from(i / p.cols, i % p.cols);
                   if (at >= 0 && at < count) {
                     bytes[static_cast<std::size_t>(i)] =
                         static_cast<std::byte>(p.expected.codes[static_cast<std::size_t>(at)]);
                   }
                 }
                 return bytes;
               }});
  };
  const std::int64_t rows = p.rows, cols = p.cols;
  moved("the transposed codes, written in the order of columns",
        [=](std::int64_t i, std::int64_t j) { return (i * cols + j) % rows * cols + (i * cols + j) / rows; });
  moved("the element to the left", [=](std::int64_t i, std::int64_t j) { return i * cols + j - 1; });
  moved("the element to the right", [=](std::int64_t i, std::int64_t j) { return i * cols + j + 1; });
  moved("the row above", [=](std::int64_t i, std::int64_t j) { return (i - 1) * cols + j; });
  moved("the row below", [=](std::int64_t i, std::int64_t j) { return (i + 1) * cols + j; });
  moved("pairs in the opposite order", [=](std::int64_t i, std::int64_t j) { return i * cols + (j ^ 1); });
  codes.add({"swapped nibbles", [&p] {
               std::vector<std::byte> bytes;
               for (const std::uint8_t c : p.expected.codes)
                 bytes.push_back(static_cast<std::byte>((c << 4 | c >> 4) & 0xFF));
               return bytes;
             }});
  codes.add({"zeros that nobody wrote over", [&p] { return std::vector<std::byte>(p.expected.codes.size()); }});
  const BlockShape other{p.block.cols, p.block.rows};
  if (p.block.rows != p.block.cols && p.block.cols != 0) {
    codes.add({"blocks of " + to_text(other) + " in place of " + to_text(p.block), [&p, other] {
                 const Quantized q = quantize(p.view(), p.element, other, p.recipe, p.offsets);
                 const auto bytes = std::as_bytes(std::span(q.codes));
                 return std::vector<std::byte>(bytes.begin(), bytes.end());
               }});
  }
}

}  // namespace

std::uint32_t encode_fnuz(double v) {
  if (std::isnan(v)) return 0x80;
  const double magnitude = std::min(std::fabs(v), 240.0);
  const int exponent = magnitude == 0 ? -7 : std::max(std::ilogb(magnitude), -7);
  const double steps = std::nearbyint(std::ldexp(magnitude, 3 - exponent));  // ties to even, in the default mode
  const auto code = static_cast<std::uint32_t>((exponent + 7) * 8 + static_cast<int>(steps));
  return code == 0 ? 0 : code | (std::signbit(v) ? 0x80U : 0U);
}

std::vector<Hypothesis> code_hypotheses(const GoldenProblem& p) {
  Codes codes(p);
  add_roundings(p, codes);
  add_scalings(p, codes);
  add_places(p, codes);
  return codes.take();
}

}  // namespace mxcheck
