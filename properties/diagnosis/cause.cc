#include "properties/diagnosis/cause.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "properties/diagnosis/golden_problem.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

namespace {

AnswerTensor tensor_of(const Observed& data) {
  TensorInfo info;
  info.integer_bits = data.width >= 4 ? static_cast<int>(8 * data.width) : 0;
  info.format = data.width == 2 ? Format::bf16 : Format::e8m0;
  return {info, data.expected, data.observed};
}

}  // namespace

std::vector<std::string> likeliest_causes(const Observed& data, const std::vector<Hypothesis>& hypotheses,
                                          const std::string& unit, std::size_t most) {
  Table table;
  for (const Hypothesis& h : hypotheses) table.push_back(definition_of_output(0, h.text, h.bytes, "", h.derived));
  return likeliest_causes(tensor_of(data), table, 0, unit, most);
}

std::vector<std::string> constant_tail(const Observed& data, const std::string& unit) {
  return constant_tail(tensor_of(data), unit);
}

// The faults of codes, given the scales that the candidate itself wrote: another rounding, another format,
// another place.

namespace {

constexpr double kPoisoned = std::numeric_limits<double>::quiet_NaN();

// The element before it is rounded, by the candidate's own scale (the expected one where it has none).
std::vector<double> scaled(const GoldenProblem& p) {
  const MatrixView view = p.view();
  const std::vector<std::int64_t> index = p.scale_index();
  std::vector<double> v(index.size());
  const Tensor& scales = p.scales_of_codes();
  const bool fp32 = scales.format == Format::fp32;
  for (std::size_t at = 0; at < v.size(); ++at) {
    const float x = view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols);
    const auto s = static_cast<std::size_t>(index[at]);
    const std::uint32_t code = scales.code(s);
    if (fp32) {
      v[at] = static_cast<double>(x / std::bit_cast<float>(code));
    } else {
      v[at] = code == 255 ? kPoisoned : static_cast<double>(x) * std::ldexp(1.0, 127 - static_cast<int>(code));
    }
  }
  return v;
}

using Encode = std::function<std::uint32_t(double v)>;

std::vector<std::byte> codes_by(const GoldenProblem& p, const std::vector<double>& v, const Encode& encode_one) {
  const std::size_t width = size_of(p.element);
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
    if (!p.own_scales || recipe.name == p.recipe.name || recipe.scale_format() != p.own_scales->format ||
        p.own_scales->format == Format::fp32) {
      continue;
    }
    codes.add({"recipe " + recipe.name, [&p, &recipe] {
                 const QuantizedTensor q = quantize(p.view(), p.element, p.block, recipe, p.offsets);
                 return q.scales().data == p.own_scales->data ? q.codes.data : std::vector<std::byte>{};
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
    const auto scale = [&p](std::size_t s) { return std::bit_cast<float>(p.scales_of_codes().code(s)); };
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
  const auto byte = [&p](std::size_t s) { return static_cast<int>(p.scales_of_codes().code(s)); };
  with("x times the scale (multiplied where division is due)",
       [byte](float x, std::size_t s) { return static_cast<double>(x) * std::ldexp(1.0, byte(s) - 127); });
  for (const int by : {1, -1}) {
    with(std::string("codes for a scale one binade ") + (by > 0 ? "larger" : "smaller") + " than the one written",
         [byte, by](float x, std::size_t s) { return static_cast<double>(x) * std::ldexp(1.0, 127 - by - byte(s)); });
  }
  with("codes for the right scales, which are not the ones written", [&p](float x, std::size_t s) {
    const auto right = static_cast<int>(p.expected.scales().code(s));
    return right == 255 ? kPoisoned : static_cast<double>(x) * std::ldexp(1.0, 127 - right);
  });
  with("the first block's scale for every element",
       [byte](float x, std::size_t) { return static_cast<double>(x) * std::ldexp(1.0, 127 - byte(0)); });
  with("x flushed where it is subnormal", [byte](float x, std::size_t s) {
    return std::fabs(x) < 0x1p-126F ? std::copysign(0.0, static_cast<double>(x))
                                    : static_cast<double>(x) * std::ldexp(1.0, 127 - byte(s));
  });
}

void add_places(const GoldenProblem& p, Codes& codes) {
  if (size_of(p.element) != 1) return;
  const auto moved = [&](const std::string& text, auto from) {
    codes.add({text, [&p, from] {
                 const auto count = static_cast<std::int64_t>(p.expected.codes.size());
                 std::vector<std::byte> bytes(p.expected.codes.size());
                 for (std::int64_t i = 0; i < count; ++i) {
                   const std::int64_t at = from(i / p.cols, i % p.cols);
                   if (at >= 0 && at < count) {
                     bytes[static_cast<std::size_t>(i)] = p.expected.codes.data[static_cast<std::size_t>(at)];
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
               std::vector<std::byte> bytes = p.expected.codes.data;
               for (std::byte& b : bytes) b = b << 4 | b >> 4;
               return bytes;
             }});
  codes.add({"zeros that nobody wrote over", [&p] { return std::vector<std::byte>(p.expected.codes.size()); }});
  const BlockShape other{p.block.cols, p.block.rows};
  if (p.block.rows != p.block.cols && p.block.cols != 0) {
    codes.add({"blocks of " + to_text(other) + " in place of " + to_text(p.block),
               [&p, other] { return quantize(p.view(), p.element, other, p.recipe, p.offsets).codes.data; }});
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

// The faults of putting scales where hardware reads them: the layouts of tcgen05 and of DeepGEMM.

namespace {

std::vector<std::byte> padded(std::vector<std::byte> bytes, std::size_t size, std::uint8_t pad) {
  bytes.resize(size, static_cast<std::byte>(pad));
  return bytes;
}

// Tiles of 128 x 4 in which a byte's place is another function of row and column than it should be.
template <class Offset>
std::vector<std::byte> tiles_with(std::span<const std::uint8_t> compact, std::int64_t rows, std::int64_t cols,
                                  std::uint8_t pad, Offset offset) {
  std::vector<std::byte> tiles(static_cast<std::size_t>(layout_bytes(ScaleLayout::tcgen05, {{rows}, cols})),
                               static_cast<std::byte>(pad));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t at = offset(i, j);
      if (at >= 0 && at < static_cast<std::int64_t>(tiles.size())) {
        tiles[static_cast<std::size_t>(at)] = static_cast<std::byte>(compact[static_cast<std::size_t>(i * cols + j)]);
      }
    }
  }
  return tiles;
}

}  // namespace

std::vector<Hypothesis> layout_hypotheses(const GoldenProblem& p, bool tcgen05) {
  const QuantizedTensor& q = p.expected;
  const ScaleLayout layout = tcgen05 ? ScaleLayout::tcgen05 : ScaleLayout::deepgemm;
  if (!has_layout(layout, q.block())) return {};
  const bool row_blocks = q.block().rows == 1;
  const ScaleShape shape = scale_shape(q, p.offsets);
  const std::vector<std::int64_t>& by_expert = shape.rows_of_expert;
  const auto lay_out = [=](const Tensor& compact, std::uint8_t pad) {
    return dataset_bytes(to_layout(layout, shape, compact.as<std::uint8_t>(), pad));
  };
  std::vector<Hypothesis> all;
  if (p.own_scales) {
    all.push_back({"the layout is right for the candidate's own scales: only those are wrong",
                   [=, &p] { return lay_out(*p.own_scales, p.pad_byte); }, true});
  }
  for (const std::uint8_t pad : std::initializer_list<std::uint8_t>{0, 1, 127, 254, 255}) {
    if (pad == p.pad_byte) continue;
    all.push_back({"padding of " + std::to_string(pad) + " in place of " + std::to_string(p.pad_byte),
                   [=, &p] { return lay_out(p.expected.scales(), pad); }});
  }
  const std::size_t size = lay_out(q.scales(), p.pad_byte).size();
  for (const std::uint8_t pad : {p.pad_byte, std::uint8_t{0}}) {
    all.push_back({"compact scales, copied without changing their layout",
                   [=, &p] { return padded(p.expected.scales().data, size, pad); }});
  }
  const std::int64_t rows = q.scale_rows(), cols = q.scale_cols();
  if (by_expert.size() == 1 && row_blocks) {
    const std::int64_t across = (cols + 3) / 4, down = (rows + 127) / 128;
    const auto tiled = [&](const std::string& text, auto offset) {
      if (tcgen05) {
        all.push_back({text, [=, &p] {
                         return tiles_with(p.expected.scales().as<std::uint8_t>(), rows, cols, p.pad_byte, offset);
                       }});
      }
    };
    tiled("tiles in the order of columns", [=](std::int64_t i, std::int64_t j) {
      return (j / 4 * down + i / 128) * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4;
    });
    tiled("tiles without the interleaving of rows 0, 32, 64, 96",
          [=](std::int64_t i, std::int64_t j) { return (i / 128 * across + j / 4) * 512 + i % 128 * 4 + j % 4; });
    tiled("rows padded to 4 columns, and no tiles", [=](std::int64_t i, std::int64_t j) { return i * across * 4 + j; });
    tiled("tiles with rows and columns of the inner 32 x 16 exchanged", [=](std::int64_t i, std::int64_t j) {
      return (i / 128 * across + j / 4) * 512 + (i % 128 / 32 * 4 + j % 4) * 32 + i % 32;
    });
  }
  if (by_expert.size() == 1) {
    all.push_back(
        {"the layout of the scales without transposing them", [=, &p] {
           return dataset_bytes(to_layout(layout, {{rows}, cols}, p.expected.scales().as<std::uint8_t>(), p.pad_byte));
         }});
    all.push_back({"the layout of the transposed scales", [=, &p] {
                     const Tensor across = transposed(p.expected.scales());
                     return dataset_bytes(to_layout(layout, {{cols}, rows}, across.as<std::uint8_t>(), p.pad_byte));
                   }});
  } else {
    all.push_back({"one layout of all rows, not one for each expert", [=, &p] {
                     const std::span<const std::uint8_t> scales = p.expected.scales().as<std::uint8_t>();
                     return dataset_bytes(to_layout(layout, {{rows}, cols, p.expected.block()}, scales, p.pad_byte));
                   }});
  }
  if (!tcgen05) {
    all.push_back({"words with their bytes in the opposite order", [=, &p] {
                     std::vector<std::byte> bytes = lay_out(p.expected.scales(), p.pad_byte);
                     for (std::size_t i = 0; i + 3 < bytes.size(); i += 4) {
                       std::swap(bytes[i], bytes[i + 3]), std::swap(bytes[i + 1], bytes[i + 2]);
                     }
                     return bytes;
                   }});
  }
  all.push_back({"zeros that nobody wrote over", [size] { return std::vector<std::byte>(size); }});
  return all;
}

// The faults of scales: another rule, another amax, another place.

namespace {

// x as floats with a change to each element, quantized again.
using Change = std::function<float(float value, std::int64_t row, std::int64_t col)>;
std::vector<std::byte> scales_with(const GoldenProblem& p, const Change& change) {
  const MatrixView view = p.view();
  std::vector<float> x(static_cast<std::size_t>(p.rows * p.cols));
  std::size_t at = 0;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.cols; ++j) x[at++] = change(view.at(i, j), i, j);
  }
  const MatrixView changed{Format::fp32, reinterpret_cast<const std::byte*>(x.data()), p.rows, p.cols, p.cols};
  return quantize(changed, p.element, p.block, p.recipe, p.offsets).scales().data;
}

std::vector<std::byte> scales_by(const GoldenProblem& p, const Recipe& recipe) {
  if ((recipe.rule == ScaleRule::fp32) != (p.recipe.rule == ScaleRule::fp32)) return {};
  return quantize(p.view(), p.element, p.block, recipe, p.offsets).scales().data;
}

float rounded(Format format, float value) {
  if (std::isnan(value)) return value;
  return static_cast<float>(decode(format, encode(format, value, Rounding::nearest_even, Overflow::non_saturate)));
}

// Each byte of the expected scales through a function: what was done to a scale that was right before.
Hypothesis mapped(const GoldenProblem& p, const std::string& text, std::function<int(int)> map) {
  return {text, [&p, map = std::move(map)] {
            std::vector<std::byte> bytes = p.expected.scales().data;
            for (std::byte& b : bytes) b = static_cast<std::byte>(map(std::to_integer<int>(b)));
            return bytes;
          }};
}

// The expected scales, each taken from another place.
Hypothesis moved(const GoldenProblem& p, const std::string& text,
                 std::function<std::int64_t(std::int64_t row, std::int64_t col)> from) {
  return {text, [&p, from = std::move(from)] {
            const std::vector<std::byte>& right = p.expected.scales().data;
            const std::int64_t count = p.expected.scale_rows() * p.expected.scale_cols();
            if (count == 0) return std::vector<std::byte>{};
            const std::size_t width = right.size() / static_cast<std::size_t>(count);
            std::vector<std::byte> bytes(right.size());
            for (std::int64_t i = 0; i < count; ++i) {
              const std::int64_t source = from(i / p.expected.scale_cols(), i % p.expected.scale_cols());
              if (source >= 0 && source < count) {
                std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width,
                            right.data() + static_cast<std::size_t>(source) * width, width);
              }
            }
            return bytes;
          }};
}

void add_amax_faults(const GoldenProblem& p, std::vector<Hypothesis>& all) {
  const auto changed = [&](const std::string& text, Change change) {
    all.push_back({text, [&p, change = std::move(change)] { return scales_with(p, change); }});
  };
  const auto signed_max = [](float v, std::int64_t, std::int64_t) { return v > 0 || std::isnan(v) ? v : 0; };
  const auto signed_min = [](float v, std::int64_t, std::int64_t) { return v < 0 || std::isnan(v) ? v : 0; };
  changed("a maximum without absolute values (negative elements not counted)", signed_max);
  changed("a minimum in place of the largest magnitude (positive elements not counted)", signed_min);
  changed("an amax that leaves out NaN", [](float v, std::int64_t, std::int64_t) { return std::isnan(v) ? 0 : v; });
  changed("an amax that leaves out infinities",
          [](float v, std::int64_t, std::int64_t) { return std::isinf(v) ? 0 : v; });
  changed("an amax of x rounded to BF16 first",
          [](float v, std::int64_t, std::int64_t) { return rounded(Format::bf16, v); });
  changed("an amax of x rounded to FP16 first",
          [](float v, std::int64_t, std::int64_t) { return rounded(Format::fp16, v); });
  changed("an amax with subnormal inputs flushed to zero",
          [](float v, std::int64_t, std::int64_t) { return std::fabs(v) < 0x1p-126F ? 0 : v; });
  const std::int64_t n = p.block.rows == 1 ? p.block.cols : p.block.rows;
  const bool along_cols = p.block.cols != 1;
  const auto place = [n, along_cols](std::int64_t i, std::int64_t j) { return n == 0 ? 1 : (along_cols ? j : i) % n; };
  if (n > 1) {
    changed("an amax that leaves out each block's last element",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) == n - 1 ? 0 : v; });
    changed("an amax that leaves out each block's first element",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) == 0 ? 0 : v; });
    changed("an amax over the first half of each block",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) >= n / 2 ? 0 : v; });
    changed("an amax over the second half of each block",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) < n / 2 ? 0 : v; });
    changed("an amax over every other element",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) % 2 == 1 ? 0 : v; });
  }
  const std::int64_t whole_cols = p.block.cols > 0 ? p.cols / p.block.cols * p.block.cols : p.cols;
  if (whole_cols < p.cols) {
    changed("an amax that leaves out the ragged last columns",
            [=](float v, std::int64_t, std::int64_t j) { return j >= whole_cols ? 0 : v; });
  }
  changed("an amax that leaves out the last row",
          [rows = p.rows](float v, std::int64_t i, std::int64_t) { return i == rows - 1 ? 0 : v; });
  changed("an amax that leaves out the last column",
          [cols = p.cols](float v, std::int64_t, std::int64_t j) { return j == cols - 1 ? 0 : v; });
}

// One amax for more than a block.
void add_coarser_blocks(const GoldenProblem& p, std::vector<Hypothesis>& all) {
  const auto coarser = [&](const std::string& text, std::int64_t row_blocks, std::int64_t col_blocks) {
    all.push_back(
        {text, [&p, row_blocks, col_blocks] {
           const QuantizedTensor& q = p.expected;
           if (q.scales().format != Format::e8m0 || !p.offsets.empty()) return std::vector<std::byte>{};
           std::vector<std::byte> bytes(q.scales().size());
           const std::int64_t rows = row_blocks == 0 ? q.scale_rows() : row_blocks;
           const std::int64_t cols = col_blocks == 0 ? q.scale_cols() : col_blocks;
           for (std::int64_t i = 0; i < q.scale_rows(); ++i) {
             for (std::int64_t j = 0; j < q.scale_cols(); ++j) {
               std::uint32_t largest = 0;
               for (std::int64_t r = i / rows * rows; r < std::min(q.scale_rows(), (i / rows + 1) * rows); ++r) {
                 for (std::int64_t c = j / cols * cols; c < std::min(q.scale_cols(), (j / cols + 1) * cols); ++c) {
                   largest = std::max(largest, q.scales().code(static_cast<std::size_t>(r * q.scale_cols() + c)));
                 }
               }
               bytes[static_cast<std::size_t>(i * q.scale_cols() + j)] = static_cast<std::byte>(largest);
             }
           }
           return bytes;
         }});
  };
  coarser("one amax for the whole tensor", 0, 0);
  coarser("one amax for each row of blocks", 1, 0);
  coarser("one amax for each column of blocks", 0, 1);
  coarser("one amax for every two blocks along a row", 1, 2);
  coarser("one amax for every four blocks along a row", 1, 4);
  coarser("one amax for every two blocks along a column", 2, 1);
  coarser("one amax for every four blocks along a column", 4, 1);
  coarser("one amax for 32 rows of blocks (32x32 or 128x128 blocks)", 32, 1);
  coarser("one amax for 128 rows and 4 columns of blocks", 128, 4);
}

}  // namespace

std::vector<std::int64_t> GoldenProblem::scale_index() const {
  std::vector<std::int64_t> index(static_cast<std::size_t>(rows * cols));
  const std::vector<std::int64_t> starts = block_row_starts(rows, block.rows, offsets);
  const std::int64_t block_cols = block.cols == 0 ? std::max<std::int64_t>(1, cols) : block.cols;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    for (std::int64_t i = starts[s]; i < starts[s + 1]; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        index[static_cast<std::size_t>(i * cols + j)] =
            static_cast<std::int64_t>(s) * expected.scale_cols() + j / block_cols;
      }
    }
  }
  return index;
}

std::vector<Hypothesis> scale_hypotheses(const GoldenProblem& p) {
  std::vector<Hypothesis> all;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.name == p.recipe.name) continue;
    all.push_back({"recipe " + recipe.name, [&p, &recipe] { return scales_by(p, recipe); }});
  }
  constexpr std::pair<float, const char*> kClamps[] = {{1e-4F, "1e-4"},
                                                       {1e-5F, "1e-5"},
                                                       {1e-6F, "1e-6"},
                                                       {1e-7F, "1e-7"},
                                                       {1e-8F, "1e-8"},
                                                       {1e-10F, "1e-10"},
                                                       {1e-12F, "1e-12"},
                                                       {0x1p-23F, "2^-23 (FP32's epsilon)"},
                                                       {0x1p-126F, "2^-126 (FP32's smallest normal)"},
                                                       {1e-3F, "1e-3"},
                                                       {1e-2F, "1e-2"},
                                                       {1.0F, "1"}};
  for (const auto& [clamp, text] : kClamps) {
    Recipe clamped = p.recipe;
    clamped.amax_min = std::max(clamp, clamped.amax_min);
    all.push_back({std::string("an amax raised to at least ") + text, [&p, clamped] { return scales_by(p, clamped); }});
  }
  const std::int64_t cols = p.expected.scale_cols();
  const std::int64_t rows = p.expected.scale_rows();
  if (p.expected.scales().format == Format::e8m0 && !p.expected.scales().empty()) {
    for (const int by : {1, -1, 2, -2, 8, -8}) {
      const std::string how = std::to_string(std::abs(by)) + (std::abs(by) == 1 ? " binade" : " binades");
      all.push_back(mapped(p,
                           "a scale " + how + (by > 0 ? " too large" : " too small") + " (byte " +
                               (by > 0 ? "+ " : "- ") + std::to_string(std::abs(by)) + ")",
                           [by](int b) { return b == 255 ? 255 : std::clamp(b + by, 0, 254); }));
    }
    all.push_back(
        mapped(p, "the reciprocal of the scale (254 - byte)", [](int b) { return b == 255 ? 255 : 254 - b; }));
    all.push_back(mapped(p, "an exponent without its bias of 127", [](int b) { return (b - 127) & 0xFF; }));
    all.push_back(mapped(p, "zeros that nobody wrote over", [](int) { return 0; }));
    all.push_back(mapped(p, "a scale of 1 (byte 127) everywhere", [](int) { return 127; }));
    all.push_back(mapped(p, "NaN scales (byte 255) written as 254", [](int b) { return std::min(b, 254); }));
    all.push_back(mapped(p, "NaN scales (byte 255) written as 0", [](int b) { return b == 255 ? 0 : b; }));
    all.push_back(mapped(p, "scales of blocks of zeros (byte 0) written as 1 (byte 127)",
                         [](int b) { return b == 0 ? 127 : b; }));
    if (p.own_scales && !p.own_scales->empty()) {  // a clamp that no preset has
      const std::span<const std::uint8_t> bytes = std::as_const(*p.own_scales).as<std::uint8_t>();
      const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
      const int least = *low, most = *high;
      all.push_back(
          mapped(p, "a smallest byte of " + std::to_string(least) + " (an amax or a scale raised to a least value)",
                 [least](int b) { return std::max(b, least); }));
      all.push_back(mapped(p,
                           "a largest byte of " + std::to_string(most) + " (an amax or a scale cut to a largest value)",
                           [most](int b) { return std::min(b, most); }));
    }
    all.push_back(mapped(p, "a smallest byte of 1", [](int b) { return std::max(b, 1); }));
  }
  add_amax_faults(p, all);
  if (!p.offsets.empty()) {
    all.push_back({"blocks that do not restart at the experts' offsets",
                   [&p] { return quantize(p.view(), p.element, p.block, p.recipe).scales().data; }});
  }
  add_coarser_blocks(p, all);
  all.push_back(moved(p, "the transposed scales, written in the order of columns", [=](std::int64_t i, std::int64_t j) {
    return (i * cols + j) % rows * cols + (i * cols + j) / rows;
  }));
  all.push_back(moved(p, "the first block's scale in every block", [](std::int64_t, std::int64_t) { return 0; }));
  all.push_back(
      moved(p, "the first scale of its row in every block", [=](std::int64_t i, std::int64_t) { return i * cols; }));
  all.push_back(
      moved(p, "the scale of the block before", [=](std::int64_t i, std::int64_t j) { return i * cols + j - 1; }));
  all.push_back(
      moved(p, "the scale of the block after", [=](std::int64_t i, std::int64_t j) { return i * cols + j + 1; }));
  all.push_back(
      moved(p, "the scale of the row before", [=](std::int64_t i, std::int64_t j) { return (i - 1) * cols + j; }));
  all.push_back(
      moved(p, "the scale of the row after", [=](std::int64_t i, std::int64_t j) { return (i + 1) * cols + j; }));
  return all;
}

}  // namespace mxcheck
