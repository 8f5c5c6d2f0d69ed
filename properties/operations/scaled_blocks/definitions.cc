#include "properties/operations/scaled_blocks/definitions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/scale/scale_rule.h"

namespace mxcheck {
// Rows about codes: given the scales that the candidate itself wrote, another rounding, another format, another place;
// and rows about casts and decoding, which have no scale or have it given.

namespace {

constexpr double kPoisoned = std::numeric_limits<double>::quiet_NaN();

struct ElementSlip {
  std::string name;
  std::function<std::uint32_t(double v)> code;
};

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

// The element before it is rounded, by the candidate's own scale (the expected one where it has none).
std::vector<double> scaled(const BlocksProblem& p, const std::vector<std::int64_t>& index) {
  std::vector<double> v(index.size());
  const Tensor& scales = p.scales_of_codes();
  for (std::size_t i = 0; i < v.size(); ++i) {
    const float x = p.at(static_cast<std::int64_t>(i));
    const std::uint32_t code = scales.code(static_cast<std::size_t>(index[i]));
    if (scales.format == Format::fp32) {
      v[i] = static_cast<double>(x / std::bit_cast<float>(code));
    } else {
      v[i] = code == 255 ? kPoisoned : static_cast<double>(x) * std::ldexp(1.0, 127 - static_cast<int>(code));
    }
  }
  return v;
}

// The expected codes, and the candidate's own in blocks whose scale is wrong.
Bytes codes_beside_scales(const BlocksProblem& p, const std::vector<std::int64_t>& index) {
  Bytes codes = p.expected.codes.data;
  const std::size_t width = size_of(p.element);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto block = static_cast<std::size_t>(index[i]);
    if (p.own_scales->code(block) != p.expected.scales().code(block))
      std::memcpy(codes.data() + i * width, p.own_codes.data() + i * width, width);
  }
  return codes;
}

// True if some of the candidate's codes are wrong, and all of them are among these.
bool are_all_wrong_ones(const BlocksProblem& p, std::span<const std::size_t> open) {
  const Bytes &right = p.expected.codes.data, &own = p.own_codes;
  if (open.empty() || own.size() != right.size() || own == right) return false;
  const std::size_t width = size_of(p.element);
  Bytes closed = own;
  for (const std::size_t i : open) std::copy_n(&right[i * width], width, &closed[i * width]);
  return closed == right;
}

class CodeRows {
 public:
  CodeRows(const BlocksProblem& p, std::size_t output)
      : p_(p),
        output_(output),
        index_(std::make_shared<const std::vector<std::int64_t>>(p.scale_index())),
        scaled_(std::make_shared<const std::vector<double>>(scaled(p, *index_))) {}

  void roundings();
  void scalings();
  void places();
  Table take() { return std::exchange(all_, {}); }

 private:
  void add(const std::string& name, std::function<Bytes()> bytes, bool derived = false) {
    all_.push_back(definition_of_output(output_, name, std::move(bytes), "", derived));
  }
  // The right cast of another function of an element and its scale; a code for which there is none may be anything. The
  // row says nothing where most are such, or every wrong one is.
  template <class Value>
  void with(const std::string& name, Value value) {
    add(name, [&p = p_, index = index_, value] {
      std::vector<double> v(index->size());
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < v.size(); ++i) {
        const std::optional<double> one =
            value(p.at(static_cast<std::int64_t>(i)), static_cast<std::size_t>((*index)[i]));
        v[i] = one.value_or(0);
        if (!one) open.push_back(i);
      }
      if (2 * open.size() > v.size() || are_all_wrong_ones(p, open)) throw RowNotComputed();
      Bytes codes =
          codes_of(p.element, v, [&](double x) { return encode(p.element, x, p.recipe.rounding, p.recipe.overflow); });
      const Bytes& own = p.own_codes.size() == codes.size() ? p.own_codes : p.expected.codes.data;
      const std::size_t width = size_of(p.element);
      for (const std::size_t i : open) std::copy_n(&own[i * width], width, &codes[i * width]);
      return codes;
    });
  }
  template <class From>
  void moved(const std::string& name, From from) {
    add(name, [&p = p_, from] {
      const Bytes& right = p.expected.codes.data;
      const auto count = static_cast<std::int64_t>(right.size());
      Bytes bytes = right;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = from(i / p.cols(), i % p.cols());
        if (at >= 0 && at < count) bytes[static_cast<std::size_t>(i)] = right[static_cast<std::size_t>(at)];
      }
      return bytes;
    });
  }

  const BlocksProblem& p_;
  std::size_t output_;
  std::shared_ptr<const std::vector<std::int64_t>> index_;
  std::shared_ptr<const std::vector<double>> scaled_;
  Table all_;
};

void CodeRows::roundings() {
  const Format f = p_.element;
  const Recipe& r = p_.recipe;
  add(
      "the codes are right for the candidate's own scales: only those are wrong",
      [f, r, v = scaled_] { return codes_of(f, *v, [&](double x) { return encode(f, x, r.rounding, r.overflow); }); },
      true);
  add(
      "the codes are right for the candidate's own scales, and zero where those are 0: only the scales are wrong",
      [f, r, v = scaled_, &p = p_, index = index_] {
        std::vector<double> values = *v;
        const Tensor& scales = p.scales_of_codes();
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (scales.code(static_cast<std::size_t>((*index)[i])) == 0) values[i] = std::copysign(0.0, values[i]);
        }
        return codes_of(f, values, [&](double x) { return encode(f, x, r.rounding, r.overflow); });
      },
      true);
  if (p_.own_scales && p_.own_codes.size() == p_.expected.codes.data.size()) {
    add(
        "codes are wrong only where their scales are",
        [&p = p_, index = index_] { return codes_beside_scales(p, *index); }, true);
    all_.back().remark = "the codes of these blocks do not follow from their scales";
  }
  for (const ElementSlip& slip : element_slips(f, r.rounding, r.overflow, "a product"))
    add(slip.name, [f, v = scaled_, slip] { return codes_of(f, *v, slip.code); });
}

void CodeRows::scalings() {
  const BlocksProblem& p = p_;
  with("x without its scale", [](float x, std::size_t) { return static_cast<double>(x); });
  if (p.recipe.rule == ScaleRule::fp32) {
    const auto scale = [&p](std::size_t s) { return std::bit_cast<float>(p.scales_of_codes().code(s)); };
    const auto quotient = static_cast<float>(decode(p.element, spec(p.element).max_code));
    with("x times the reciprocal of the scale",
         [scale](float x, std::size_t s) { return static_cast<double>(x * (1.0F / scale(s))); });
    with("x divided by the scale", [scale](float x, std::size_t s) { return static_cast<double>(x / scale(s)); });
    with("x times the scale", [scale](float x, std::size_t s) { return static_cast<double>(x * scale(s)); });
    with("x times (largest value / amax)", [scale, quotient](float x, std::size_t s) {
      return static_cast<double>(x * (quotient / (scale(s) * quotient)));
    });
    return;
  }
  const auto byte = [&p](std::size_t s) { return static_cast<int>(p.scales_of_codes().code(s)); };
  const auto shifted = [](float x, int by) { return static_cast<double>(x) * std::ldexp(1.0, by); };
  with("a NaN scale taken for 1: codes are NaN only where x is",
       [=](float x, std::size_t s) { return shifted(x, byte(s) == 255 ? 0 : 127 - byte(s)); });
  with("x times the scale (multiplied where division is due)",
       [=](float x, std::size_t s) { return shifted(x, byte(s) - 127); });
  for (const int by : {1, -1}) {
    with(std::string("codes for a scale one binade ") + (by > 0 ? "larger" : "smaller") + " than the one written",
         [=](float x, std::size_t s) { return shifted(x, 127 - by - byte(s)); });
  }
  with("codes for the right scales, which are not the ones written", [=, &p](float x, std::size_t s) {
    const auto right = static_cast<int>(p.expected.scales().code(s));
    return right == 255 ? kPoisoned : shifted(x, 127 - right);
  });
  with("the first block's scale for every element", [=](float x, std::size_t) { return shifted(x, 127 - byte(0)); });
  const auto across = static_cast<std::size_t>(std::max<std::int64_t>(1, p.expected.scale_cols()));
  // from: a block's number in its row. Where there is no such block, or its scale is NaN, codes may be anything.
  const auto of_scale = [&](const std::string& name, auto from) {
    with(name, [=](float x, std::size_t s) -> std::optional<double> {
      const std::size_t at = from(s % across);
      if (at >= across) return std::nullopt;
      if (byte(s) == 255) return kPoisoned;
      const int b = byte(s / across * across + at);
      return b == 255 ? std::nullopt : std::optional(shifted(x, 127 - b));
    });
  };
  of_scale("codes by the scale of the first block of their row", [](std::size_t) { return std::size_t{0}; });
  for (const std::size_t blocks : {2, 4, 8})
    of_scale("codes by the scale of the first of every " + std::to_string(blocks) + " blocks",
             [=](std::size_t s) { return s / blocks * blocks; });
  of_scale("codes by the scale of the block before", [](std::size_t s) { return s - 1; });
  of_scale("codes by the scale of the block after", [](std::size_t s) { return s + 1; });
  of_scale("codes by the scale of the other block of a pair", [](std::size_t s) { return s ^ 1; });
  with("x flushed where it is subnormal", [=](float x, std::size_t s) {
    return std::fabs(x) < 0x1p-126F ? std::copysign(0.0, static_cast<double>(x)) : shifted(x, 127 - byte(s));
  });
}

void CodeRows::places() {
  if (size_of(p_.element) != 1) return;
  const std::int64_t rows = p_.rows(), cols = p_.cols();
  moved("the transposed codes, written in the order of columns",
        [=](std::int64_t i, std::int64_t j) { return (i * cols + j) % rows * cols + (i * cols + j) / rows; });
  moved("the element to the left", [=](std::int64_t i, std::int64_t j) { return i * cols + j - 1; });
  moved("the element to the right", [=](std::int64_t i, std::int64_t j) { return i * cols + j + 1; });
  moved("the row above", [=](std::int64_t i, std::int64_t j) { return (i - 1) * cols + j; });
  moved("the row below", [=](std::int64_t i, std::int64_t j) { return (i + 1) * cols + j; });
  moved("pairs in the opposite order", [=](std::int64_t i, std::int64_t j) { return i * cols + (j ^ 1); });
  add("swapped nibbles", [&p = p_] {
    Bytes bytes = p.expected.codes.data;
    for (std::byte& b : bytes) b = b << 4 | b >> 4;
    return bytes;
  });
  add("zeros that nobody wrote over", [&p = p_] { return Bytes(p.expected.codes.data.size()); });
  const BlockShape other{p_.block.cols, p_.block.rows};
  if (p_.block.rows != p_.block.cols && p_.block.cols != 0) {
    add("blocks of " + to_text(other) + " in place of " + to_text(p_.block),
        [&p = p_, other] { return quantize(p.view(), p.element, other, p.recipe, p.offsets).codes.data; });
  }
}

}  // namespace

namespace {

// The power of two nearest to amax / largest value. In double the quotient is a tie where the exact one is: floats that
// are not lie 2^-24 of it away.
std::uint8_t nearest_scale(Format element, float amax, bool ties_up) {
  const double quotient = double{amax} / double{largest_value(element)};
  int exponent = 0;
  const bool is_tie = std::frexp(quotient, &exponent) == 0.75;
  const std::uint32_t up = encode(Format::e8m0, quotient, Rounding::nearest_away, Overflow::non_saturate);
  return static_cast<std::uint8_t>(is_tie && !ties_up && up > 0 ? up - 1 : up);
}

// PyTorch's cast of an FP32 quotient to float8_e8m0fnu: ties up, but of subnormals, where all above 2^-127 go up.
std::uint8_t torch_scale(Format element, float amax) {
  const auto bits = std::bit_cast<std::uint32_t>(amax / largest_value(element));
  const std::uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
  if (field == 255) return 255;
  return static_cast<std::uint8_t>(field + (fraction > 0x400000 || (fraction == 0x400000 && field > 0) ? 1 : 0));
}

struct NearestRule {
  const char* name;
  std::uint8_t (*byte)(Format element, float amax);
  const char* source;
};
constexpr NearestRule kNearestRules[] = {
    {"recipe nearest (amax / largest value in FP32, its cast to E8M0)", torch_scale,
     "PyTorch, c10/util/Float8_e8m0fnu.h"},
    {"recipe nearest, ties up", [](Format f, float amax) { return nearest_scale(f, amax, true); }, ""},
    {"recipe nearest, ties down", [](Format f, float amax) { return nearest_scale(f, amax, false); }, ""}};

// Blocks with NaN or Inf are NaN, elements are rounded to nearest even and saturate, as under the rules' own recipes.
std::vector<Bytes> nearest_answer(const BlocksProblem& p, const NearestRule& rule, std::size_t codes,
                                  std::size_t scales) {
  const std::vector<std::int64_t> index = p.scale_index();
  std::vector<Bytes> answer(std::max(codes, scales) + 1);
  for (const float amax : p.amaxes())
    answer[scales].push_back(std::byte{std::isfinite(amax) ? rule.byte(p.element, amax) : std::uint8_t{255}});
  std::vector<double> v;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const int byte = std::to_integer<int>(answer[scales][static_cast<std::size_t>(index[i])]);
    v.push_back(byte == 255 ? kPoisoned : std::ldexp(double{p.at(static_cast<std::int64_t>(i))}, 127 - byte));
  }
  answer[codes] = codes_of(p.element, v,
                           [&](double x) { return encode(p.element, x, Rounding::nearest_even, Overflow::saturate); });
  if (p.own_scales && answer[scales] != p.own_scales->data) answer[codes].clear();
  return answer;
}

}  // namespace

// Scales, and codes where the scales are the candidate's own.
Table recipe_rows(const BlocksProblem& p, std::size_t codes, std::size_t scales) {
  Table all;
  const auto memo = std::make_shared<AnswerMemo>();
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.name == p.recipe.name || recipe.scale_format() != p.recipe.scale_format()) continue;
    all.push_back(definition_of_all(
        "recipe " + recipe.name,
        [&p, &recipe, codes, scales] {
          QuantizedTensor q = quantize(p.view(), p.element, p.block, recipe, p.offsets);
          const bool are_own = !p.own_scales || q.scales().data == p.own_scales->data;
          std::vector<Bytes> answer(std::max(codes, scales) + 1);
          if (are_own) answer[codes] = std::move(q.codes.data);
          answer[scales] = std::move(q.scales().data);
          return answer;
        },
        memo, recipe.checked_against));
  }
  if (!p.recipe.has_e8m0_scales()) return all;
  for (const NearestRule& rule : kNearestRules) {
    all.push_back(definition_of_all(
        rule.name, [&p, &rule, codes, scales] { return nearest_answer(p, rule, codes, scales); }, memo, rule.source));
  }
  return all;
}

namespace {

void append(Table& to, Table from) {
  for (Definition& row : from) to.push_back(std::move(row));
}

}  // namespace

Table blocks_table(const BlocksProblem& p, std::size_t codes, std::size_t scales) {
  CodeRows rows(p, codes);
  rows.roundings();
  Table all = rows.take();
  append(all, recipe_rows(p, codes, scales));
  append(all, scale_rows(p, scales));
  rows.scalings();
  rows.places();
  append(all, rows.take());
  return all;
}

Table coded_table(BlocksProblem of, bool is_transposed, std::size_t codes, std::size_t scales,
                  std::span<const Bytes> observed) {
  constexpr std::int64_t kMostForSlips = std::int64_t{1} << 18;
  const auto p = std::make_shared<BlocksProblem>(std::move(of));
  p->expected = quantize(p->view(), p->element, p->block, p->recipe, p->offsets);
  const auto as_quantized = [&](const Tensor& like, const Bytes& own) {
    Tensor t{"", like.format, like.shape, own};
    if (is_transposed) std::swap(t.shape[0], t.shape[1]), t = transposed(t);
    return t;
  };
  if (observed[scales].size() == p->expected.scales().data.size())
    p->own_scales = as_quantized(p->expected.scales(), observed[scales]);
  if (observed[codes].size() == p->expected.codes.data.size())
    p->own_codes = as_quantized(p->expected.codes, observed[codes]).data;
  Table rows =
      p->rows() * p->cols() <= kMostForSlips ? blocks_table(*p, codes, scales) : recipe_rows(*p, codes, scales);
  for (Definition& row : rows) {
    if (!is_transposed) break;
    row.bytes = [bytes = std::move(row.bytes), p, codes](std::size_t output) {
      Bytes plain = bytes(output);
      const Tensor& like = output == codes ? p->expected.codes : p->expected.scales();
      if (plain.size() != like.data.size()) return plain;
      return transposed(Tensor{"", like.format, like.shape, std::move(plain)}).data;
    };
  }
  return owning(std::move(rows), p);
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
                        std::span<const std::uint32_t> codes) {
  constexpr double kDeviations = 6, kFewest = 16;  // inputs between two codes: of fewer nothing is said
  double up_due = 0, up = 0, farther_due = 0, farther = 0, variance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const auto with = [&](std::uint32_t word) {
      return encode(format, values[i], Rounding::stochastic, overflow, word);
    };
    const std::uint32_t low = with(0), high = with(~0U);
    if (codes[i] != low && codes[i] != high) return false;
    const double below = decode(format, low), above = decode(format, high);
    if (low == high || !std::isfinite(above)) continue;
    const double fraction = (values[i] - below) / (above - below);
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
