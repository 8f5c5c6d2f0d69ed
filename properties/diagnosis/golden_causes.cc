#include "properties/diagnosis/golden_causes.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/diagnosis/golden_routes.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

std::int64_t number(const GoldenInfo& info, const char* key) {
  const std::string& text = attribute(info.attributes, key);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorKind::golden, std::string("its attribute ") + key + " is no number: '" + text + "'");
  }
  return n;
}

const Tensor& tensor(const GoldenTensors& golden, const std::string& name) {
  const auto found = golden.tensors.find(name);
  if (found == golden.tensors.end()) throw Error(ErrorKind::golden, "it lacks the dataset " + name);
  return found->second;
}

template <class T>
std::vector<T> values_of(const Tensor& t) {
  std::vector<T> values(t.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), t.data.data(), values.size() * sizeof(T));
  return values;
}

Format named_format(const GoldenInfo& info) {
  const std::optional<Format> format = find_format(attribute(info.attributes, "format"));
  if (!format)
    throw Error(ErrorKind::golden, "its attribute format is none: '" + attribute(info.attributes, "format") + "'");
  return *format;
}

// values = code * scale with a fault in either.
void add_decoding(const GoldenTensors& golden, const DatasetInfo& dataset, std::vector<Hypothesis>& all) {
  const bool bf16 = dataset.dtype == Dtype::u16;
  const auto decoded = [&, bf16](const std::string& text, auto value) {
    all.push_back({text, [&golden, bf16, value] {
                     const auto codes = values_of<std::uint8_t>(tensor(golden, "codes"));
                     const auto scales = values_of<std::uint8_t>(tensor(golden, "scales"));
                     std::vector<std::uint32_t> bits;
                     for (std::size_t i = 0; i < codes.size(); ++i) {
                       const double v = value(codes[i], scales[i / 32]);
                       bits.push_back(encode(bf16 ? Format::bf16 : Format::fp32, v, Rounding::nearest_even,
                                             Overflow::non_saturate));
                     }
                     return bf16 ? dataset_bytes(std::vector<std::uint16_t>(bits.begin(), bits.end()))
                                 : dataset_bytes(bits);
                   }});
  };
  const Format f = named_format(golden.info);
  const auto scale_of = [](int byte) {
    return byte == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, byte - 127);
  };
  decoded("a scale byte of 0 taken for the scale 0",
          [=](int c, int s) { return decode(f, static_cast<std::uint32_t>(c)) * (s == 0 ? 0 : scale_of(s)); });
  decoded("a scale byte of 0 taken for 1",
          [=](int c, int s) { return decode(f, static_cast<std::uint32_t>(c)) * (s == 0 ? 1 : scale_of(s)); });
  decoded("a scale byte of 255 taken for +Inf", [=](int c, int s) {
    return decode(f, static_cast<std::uint32_t>(c)) *
           (s == 255 ? std::numeric_limits<double>::infinity() : scale_of(s));
  });
  decoded("a scale byte of 255 taken for 2^128",
          [=](int c, int s) { return decode(f, static_cast<std::uint32_t>(c)) * std::ldexp(1.0, s - 127); });
  decoded("a bias of 128 for scales",
          [=](int c, int s) { return decode(f, static_cast<std::uint32_t>(c)) * scale_of(s) / 2; });
  decoded("values below the smallest normal flushed to zero", [=](int c, int s) {
    const double v = decode(f, static_cast<std::uint32_t>(c)) * scale_of(s);
    return std::fabs(v) < 0x1p-126 ? std::copysign(0.0, v) : v;
  });
  decoded("subnormal codes taken for zero", [=](int c, int s) {
    const double v = decode(f, static_cast<std::uint32_t>(c));
    return (std::fabs(v) < std::ldexp(1.0, 1 - spec(f).bias) ? std::copysign(0.0, v) : v) * scale_of(s);
  });
  decoded("codes without their sign",
          [=](int c, int s) { return std::fabs(decode(f, static_cast<std::uint32_t>(c))) * scale_of(s); });
  decoded("codes without their scales", [=](int c, int) { return decode(f, static_cast<std::uint32_t>(c)); });
  for (const Format other : {Format::e4m3, Format::e5m2}) {
    if (other != f && spec(f).bits == 8) {
      decoded("codes of format " + std::string(spec(other).dtype_name),
              [=](int c, int s) { return decode(other, static_cast<std::uint32_t>(c)) * scale_of(s); });
    }
  }
  if (f == Format::e4m3) {
    decoded("codes of format float8_e4m3fnuz (bias 8)", [=](int c, int s) {
      return c == 0x80 ? std::numeric_limits<double>::quiet_NaN()
                       : ((c & 0x7F) == 0x7F ? std::copysign(480.0, c > 127 ? -1 : 1)
                                             : decode(f, static_cast<std::uint32_t>(c))) /
                             2 * scale_of(s);
    });
    decoded("a NaN code taken for 480", [=](int c, int s) {
      return ((c & 0x7F) == 0x7F ? std::copysign(480.0, c > 127 ? -1 : 1) : decode(f, static_cast<std::uint32_t>(c))) *
             scale_of(s);
    });
  }
  if (bf16) {
    all.push_back({"values cut to BF16, not rounded", [&golden] {
                     std::vector<std::uint16_t> cut;
                     for (const std::uint32_t v : values_of<std::uint32_t>(tensor(golden, "values"))) {
                       cut.push_back((v & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : static_cast<std::uint16_t>(v >> 16));
                     }
                     return dataset_bytes(cut);
                   }});
  }
}

void add_layouts(const GoldenTensors& golden, const DatasetInfo& dataset, GoldenProblem& p,
                 std::vector<Hypothesis>& all) {
  p = GoldenProblem();
  p.pad_byte = static_cast<std::uint8_t>(number(golden.info, "pad_byte"));
  p.block = {1, 32};
  p.expected.block = p.block;
  p.expected.scales = values_of<std::uint8_t>(tensor(golden, "scales"));
  p.expected.scale_rows = number(golden.info, "rows");
  p.expected.scale_cols = number(golden.info, "cols");
  p.rows = p.expected.rows = p.expected.scale_rows;
  p.cols = p.expected.cols = p.expected.scale_cols * 32;
  for (Hypothesis& h : layout_hypotheses(p, dataset.name == "tcgen05")) all.push_back(std::move(h));
}

void add_list_faults(const GoldenTensors& golden, const DatasetInfo& dataset, std::vector<Hypothesis>& all) {
  const std::size_t width = size_of(dataset.dtype);
  const auto shifted = [&](const std::string& text, std::ptrdiff_t by) {
    all.push_back({text, [&golden, name = dataset.name, width, by] {
                     const std::vector<std::byte>& right = tensor(golden, name).data;
                     std::vector<std::byte> bytes(right.size());
                     const auto size = static_cast<std::ptrdiff_t>(right.size());
                     for (std::ptrdiff_t i = 0; i < size; ++i) {
                       const std::ptrdiff_t from = i + by * static_cast<std::ptrdiff_t>(width);
                       if (from >= 0 && from < size)
                         bytes[static_cast<std::size_t>(i)] = right[static_cast<std::size_t>(from)];
                     }
                     return bytes;
                   }});
  };
  shifted("the element before", -1);
  shifted("the element after", 1);
  if (width > 1) {
    all.push_back({"elements with their bytes in the opposite order", [&golden, name = dataset.name, width] {
                     std::vector<std::byte> bytes = tensor(golden, name).data;
                     for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
                       std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(i + width));
                     }
                     return bytes;
                   }});
  }
  all.push_back({"zeros that nobody wrote over",
                 [&golden, name = dataset.name] { return std::vector<std::byte>(tensor(golden, name).data.size()); }});
}

// A cast of another kind than those in the golden.
void add_casts(const GoldenTensors& golden, std::vector<Hypothesis>& all) {
  const Format f = named_format(golden.info);
  const auto cast = [&](const std::string& text, auto one) {
    all.push_back({text, [&golden, f, one] {
                     std::vector<std::byte> bytes;
                     const std::size_t width = spec(f).bits > 8 ? 2 : 1;
                     for (const std::uint32_t bits : values_of<std::uint32_t>(tensor(golden, "x"))) {
                       const std::uint32_t code = one(static_cast<double>(std::bit_cast<float>(bits)));
                       for (std::size_t b = 0; b < width; ++b)
                         bytes.push_back(static_cast<std::byte>(code >> (8 * b) & 0xFF));
                     }
                     return bytes;
                   }});
  };
  const auto right = [f](double v, Overflow o) { return encode(f, v, Rounding::nearest_even, o); };
  const double normal = std::ldexp(1.0, 1 - spec(f).bias);
  if (f == Format::e4m3) cast("format float8_e4m3fnuz (bias 8)", encode_fnuz);
  for (const Format other : {Format::e4m3, Format::e5m2}) {
    if (other == f || spec(f).bits != 8) continue;
    cast("format " + std::string(spec(other).dtype_name),
         [other](double v) { return encode(other, v, Rounding::nearest_even, Overflow::saturate); });
  }
  for (const Overflow o : {Overflow::saturate, Overflow::non_saturate}) {
    cast("inputs cut to BF16 first", [=](double v) {
      return right(std::isnan(v)
                       ? v
                       : decode(Format::bf16, encode(Format::bf16, v, Rounding::toward_zero, Overflow::non_saturate)),
                   o);
    });
    cast("inputs rounded to BF16 first", [=](double v) {
      return right(std::isnan(v)
                       ? v
                       : decode(Format::bf16, encode(Format::bf16, v, Rounding::nearest_even, Overflow::non_saturate)),
                   o);
    });
    cast("inputs rounded to FP16 first", [=](double v) {
      return right(std::isnan(v)
                       ? v
                       : decode(Format::fp16, encode(Format::fp16, v, Rounding::nearest_even, Overflow::non_saturate)),
                   o);
    });
    cast("subnormal codes flushed to zero", [=](double v) {
      const std::uint32_t code = right(v, o);
      return std::fabs(decode(f, code)) < normal ? right(std::copysign(0.0, v), o) : code;
    });
    cast("results below the smallest normal flushed to zero",
         [=](double v) { return right(std::fabs(v) < normal ? std::copysign(0.0, v) : v, o); });
    cast("negative zeros without their sign",
         [=](double v) { return right(decode(f, right(v, o)) == 0 ? 0.0 : v, o); });
    cast("a NaN code with the sign of its input",
         [=](double v) { return right(v, o) | (std::isnan(v) && std::signbit(v) ? 1U << (spec(f).bits - 1) : 0U); });
    cast("NaN taken for zero", [=](double v) { return right(std::isnan(v) ? 0 : v, o); });
    cast("infinities that saturate, other values as they should",
         [=](double v) { return std::isinf(v) ? right(v, Overflow::saturate) : right(v, o); });
    cast("infinities that do not saturate, other values as they should",
         [=](double v) { return std::isinf(v) ? right(v, Overflow::non_saturate) : right(v, o); });
  }
}

}  // namespace

GoldenProblem problem_of(const GoldenTensors& golden) {
  GoldenProblem p;
  const Tensor& x = tensor(golden, "x");
  const DatasetInfo* info = golden.info.find("x");
  p.wide = format_of_attribute(info->format);
  p.x = x.data;
  p.rows = x.shape.at(0), p.cols = x.shape.at(1);
  p.element = named_format(golden.info);
  p.block = block_shape_named(attribute(golden.info.attributes, "block"));
  p.recipe = recipe_named(attribute(golden.info.attributes, "recipe"));
  p.pad_byte = static_cast<std::uint8_t>(number(golden.info, "pad_byte"));
  if (golden.info.find("offsets") != nullptr) p.offsets = values_of<std::int64_t>(tensor(golden, "offsets"));
  Quantized& q = p.expected;
  q.element = p.element, q.block = p.block, q.rows = p.rows, q.cols = p.cols;
  const Tensor& scales = tensor(golden, "scales");
  q.scale_rows = scales.shape.at(0), q.scale_cols = scales.shape.at(1);
  if (p.recipe.rule == ScaleRule::fp32) {
    q.scales_fp32 = values_of<float>(scales);
  } else {
    q.scales = values_of<std::uint8_t>(scales);
  }
  if (p.element == Format::e5m6) {
    q.codes16 = values_of<std::uint16_t>(tensor(golden, "codes"));
  } else {
    q.codes = values_of<std::uint8_t>(tensor(golden, "codes"));
  }
  return p;
}

std::vector<Hypothesis> table_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset,
                                         GoldenProblem& scratch) {
  std::vector<Hypothesis> all;
  for (const DatasetInfo& other : golden.info.datasets) {
    if (other.name == dataset.name || other.dtype != dataset.dtype || other.shape != dataset.shape) continue;
    all.push_back({"the golden's " + other.name, [&golden, name = other.name] { return tensor(golden, name).data; }});
  }
  const std::string& kind = attribute(golden.info.attributes, "kind");
  if (kind == "dequantize") add_decoding(golden, dataset, all);
  if (kind == "layout") add_layouts(golden, dataset, scratch, all);
  if (kind == "casts") add_casts(golden, all);
  for (Hypothesis& h : route_hypotheses(golden, dataset)) all.push_back(std::move(h));
  add_list_faults(golden, dataset, all);
  return all;
}

}  // namespace mxcheck
