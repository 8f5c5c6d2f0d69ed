#include "properties/diagnosis/golden_verdict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/finding.h"
#include "properties/core/notation.h"
#include "properties/diagnosis/golden_causes.h"
#include "properties/diagnosis/golden_form.h"
#include "properties/diagnosis/golden_layer.h"
#include "properties/diagnosis/golden_problem.h"
#include "properties/diagnosis/golden_routes.h"
#include "properties/diagnosis/golden_swiglu.h"
#include "properties/operations/quantize/problem.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

const Tensor& golden_tensor(const GoldenTensors& golden, const std::string& name) {
  const auto found = golden.tensors.find(name);
  if (found == golden.tensors.end()) throw Error(ErrorKind::golden, "it lacks the dataset " + name);
  return found->second;
}
namespace {

constexpr std::int64_t kMostToDiagnose = 1 << 20;  // elements: some hundred answers are computed over them

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Format element_format(const DatasetInfo& info) {
  const std::optional<Format> format = find_format(info.format);
  // Words of several codes, and plain words, are compared as bytes of scales and as bits of floats.
  if (!format) return Format::fp32;
  const bool packed = info.dtype == Format::uint32 && *format != Format::fp32;
  return packed ? Format::e8m0 : *format;
}

class Judge {
 public:
  Judge(const GoldenTensors& golden, const CandidateTensor& candidate) : golden_(golden), candidate_(candidate) {
    quantize_ = attribute(golden.info.attributes, "kind") == "quantize";
    if (quantize_) problem_ = problem_of(golden);
  }

  DatasetResult judge(const DatasetInfo& info) {
    DatasetResult result{info, DatasetVerdict::equal, {}, {}, {}, {}};
    std::optional<Tensor> observed;
    try {
      observed = candidate_(info.name);
    } catch (const Error& e) {
      result.verdict = DatasetVerdict::unreadable;
      result.notes.emplace_back(e.what());
      return result;
    }
    if (!observed) {
      result.verdict = DatasetVerdict::missing;
      result.notes.push_back("the candidate has no dataset " + info.name);
      return result;
    }
    const Form form = form_of(info, *observed);
    result.notes = form.notes;
    if (form.comparable) compare_bits(info, observed->data, result);
    if (!form.shape) result.verdict = DatasetVerdict::wrong_shape;
    if (!form.dtype) result.verdict = DatasetVerdict::wrong_dtype;
    return result;
  }

  // Scales come first: codes are held against the candidate's own.
  void learn_scales(const Tensor& scales) {
    const DatasetInfo* info = golden_.info.find("scales");
    if (!quantize_ || info == nullptr || !form_of(*info, scales).comparable) return;
    problem_.own_scales = problem_.expected.scales();
    problem_.own_scales->data = scales.data;
  }

 private:
  void compare_bits(const DatasetInfo& info, const std::vector<std::byte>& observed, DatasetResult& result) {
    const std::vector<std::byte>& expected = golden_.tensors.at(info.name).data;
    const Format format = element_format(info);
    TensorInfo shape;
    shape.name = info.name, shape.format = format;
    shape.integer_bits = info.dtype == Format::int32 ? 32 : info.dtype == Format::int64 ? 64 : 0;
    const auto elements = static_cast<std::int64_t>(expected.size() / bytes_of_element(shape));
    const bool matrix = info.shape.size() == 2 && info.shape[1] != 0;
    shape.cols = matrix ? info.shape[1] : elements;
    shape.rows = matrix ? elements / shape.cols : 1;
    if (quantize_ && info.name == "codes")
      shape.block_rows = problem_.block.rows, shape.block_cols = problem_.block.cols;
    const bool wide = format == Format::fp32 || format == Format::bf16 || format == Format::fp16;
    shape.any_nan_is_equal = shape.integer_bits == 0 && wide;  // -1 is no NaN
    result.difference = compare(shape, expected, observed, 0);
    if (!result.difference) return;
    result.verdict = DatasetVerdict::different;
    explain_first(info, result);
    const std::vector<std::byte> seen =
        shape.any_nan_is_equal ? with_the_same_nans(format, expected, observed) : observed;
    const Observed data{expected, seen, size_of(info.dtype)};
    find_causes(info, data, result);
    const bool certain =
        !result.causes.empty() && (result.causes[0].starts_with("every ") || result.causes[0].starts_with("the "));
    if (const auto tail = constant_tail(data, unit_of(info)); !certain && !tail.empty()) result.causes = tail;
  }

  [[nodiscard]] std::string unit_of(const DatasetInfo& info) const {
    if (!quantize_ || info.name == "values") return "element";
    if (info.name == "codes") return "code";
    if (info.name == "scales") return "scale";
    return info.dtype == Format::uint32 ? "word" : "byte";
  }

  static std::vector<std::byte> with_the_same_nans(Format format, const std::vector<std::byte>& expected,
                                                   std::vector<std::byte> observed) {
    const auto width = static_cast<std::size_t>(spec(format).bits / 8);
    for (std::size_t at = 0; at < observed.size(); at += width) {
      std::uint32_t want = 0, have = 0;
      std::memcpy(&want, expected.data() + at, width), std::memcpy(&have, observed.data() + at, width);
      if (want != have && ulp_distance_of_codes(format, want, have) == 0)
        std::memcpy(observed.data() + at, &want, width);
    }
    return observed;
  }

  // The gate explains quantized blocks; the rest is two numbers.
  void explain_first(const DatasetInfo& info, DatasetResult& result) const {
    const bool tiled = info.name == "scales_tcgen05";
    const bool known = info.name == "codes" || info.name == "scales" || tiled;
    Finding finding;
    finding.difference = result.difference;
    if (quantize_ && known && problem_.recipe.rule != ScaleRule::fp32) {
      Case c;
      c.variant = {"quantize", problem_.wide};
      blocks_of(c.variant) = {problem_.element, problem_.recipe.name, problem_.block,
                              tiled ? MXCHECK_TCGEN05 : MXCHECK_COMPACT};
      c.rows = problem_.rows, c.cols = problem_.cols, c.experts = problem_.offsets;
      blocks_case(c).pad = problem_.pad_byte;
      const QuantizeProblem problem(c, Input{problem_.x, problem_.wide, c.rows, c.cols, c.cols});
      problem.explain(info.name == "codes" ? 0 : 1, finding);
      result.element = finding.element;
      return;
    }
    const Difference::Element& e = result.difference->first;
    for (const char* input : {"x", "amax"}) {
      const auto at = golden_.tensors.find(input);
      if (at == golden_.tensors.end() || at->second.shape != info.shape) continue;
      const Format wide = element_format(*golden_.info.find(input));
      const auto index = static_cast<std::size_t>(e.row * result.difference->tensor.cols + e.col);
      std::uint32_t bits = 0;
      std::memcpy(&bits, at->second.data.data() + index * size_of(at->second.format), size_of(at->second.format));
      result.element.push_back("input     " + std::string(input) + " = " + notations(wide, bits));
    }
    result.element.push_back("expected  " + expected_text(*result.difference));
    result.element.push_back("observed  " + observed_text(*result.difference));
  }

  void find_causes(const DatasetInfo& info, const Observed& data, DatasetResult& result) {
    const bool codes = info.name == "codes";
    if (!quantize_) {
      GoldenProblem scratch;
      std::vector<Hypothesis> all = swiglu_hypotheses(golden_, info, candidate_);
      for (Hypothesis& h : table_hypotheses(golden_, info, scratch)) all.push_back(std::move(h));
      result.causes = likeliest_causes(data, all, unit_of(info));
    } else if (info.name == "scales_tcgen05" || info.name == "scales_deepgemm") {
      result.causes = likeliest_causes(data, layout_hypotheses(problem_, info.name == "scales_tcgen05"), unit_of(info));
    } else if (codes || info.name == "scales") {
      const std::int64_t first = result.difference->first.row;
      const std::int64_t row = codes ? first
                                     : block_row_starts(problem_.rows, problem_.block.rows, problem_.offsets)
                                           .at(static_cast<std::size_t>(first));
      const bool all = problem_.rows * problem_.cols <= kMostToDiagnose;
      const Window w = all ? window_at(problem_, 0, problem_.rows)
                           : window_at(problem_, row, kMostToDiagnose / std::max<std::int64_t>(1, problem_.cols));
      const GoldenProblem part = all ? problem_ : cut(problem_, w);
      const std::int64_t from =
          codes ? w.first_row * problem_.cols : w.first_scale_row * problem_.expected.scale_cols();
      const std::int64_t end = codes ? w.end_row * problem_.cols : w.end_scale_row * problem_.expected.scale_cols();
      const auto slice = [&](std::span<const std::byte> bytes) {
        return bytes.subspan(static_cast<std::size_t>(from) * data.width,
                             static_cast<std::size_t>(end - from) * data.width);
      };
      const Observed seen{slice(data.expected), slice(data.observed), data.width};
      result.causes = likeliest_causes(seen, codes ? code_hypotheses(part) : scale_hypotheses(part), unit_of(info));
      if (result.causes.empty()) {
        result.causes = codes ? common_to_wrong_codes(part, seen) : common_to_wrong_scales(part, seen);
      }
      if (!all && !result.causes.empty()) {
        result.causes.push_back("(looked for in rows " + std::to_string(w.first_row) + " to " +
                                std::to_string(w.end_row - 1) + ")");
      }
    }
  }

  const GoldenTensors& golden_;
  const CandidateTensor& candidate_;
  bool quantize_ = false;
  GoldenProblem problem_;
};

}  // namespace

bool GoldenVerdict::equal() const {
  return !results.empty() && std::all_of(results.begin(), results.end(),
                                         [](const DatasetResult& r) { return r.verdict == DatasetVerdict::equal; });
}

GoldenVerdict judge(const GoldenTensors& golden, const CandidateTensor& candidate,
                    const std::vector<std::string>& only) {
  std::string outputs;
  for (const DatasetInfo& info : golden.info.datasets) {
    if (info.role == Role::output) outputs += (outputs.empty() ? "" : ", ") + info.name;
  }
  for (const std::string& name : only) {
    const DatasetInfo* info = golden.info.find(name);
    if (info == nullptr || info->role != Role::output) {
      throw Error(ErrorKind::usage, "the golden has no output '" + name + "'; it has " + outputs);
    }
  }
  if (attribute(golden.info.attributes, "kind") == "layer") return judge_layer_golden(golden, candidate, only);
  Judge judge(golden, candidate);
  try {
    if (const std::optional<Tensor> scales = candidate("scales")) judge.learn_scales(*scales);
  } catch (const Error&) {  // becomes the verdict on scales below
  }
  GoldenVerdict verdict;
  for (const DatasetInfo& info : golden.info.datasets) {
    const bool asked = only.empty() || std::find(only.begin(), only.end(), info.name) != only.end();
    if (info.role == Role::output && asked) verdict.results.push_back(judge.judge(info));
  }
  return verdict;
}

std::string_view verdict_word(DatasetVerdict verdict) {
  switch (verdict) {
    case DatasetVerdict::equal: return "equal";
    case DatasetVerdict::different: return "DIFFERENT";
    case DatasetVerdict::missing: return "MISSING";
    case DatasetVerdict::unreadable: return "UNREADABLE";
    case DatasetVerdict::wrong_dtype: return "WRONG DTYPE";
    case DatasetVerdict::wrong_shape: return "WRONG SHAPE";
  }
  return "?";
}

namespace {

std::int64_t number_of(const GoldenInfo& info, const char* key) {
  const std::string& text = attribute(info.attributes, key);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorKind::golden, std::string("its attribute ") + key + " is no number: '" + text + "'");
  }
  return n;
}

template <class T>
std::vector<T> tensor_values(const Tensor& t) {
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
  const bool bf16 = dataset.dtype == Format::uint16;
  const auto decoded = [&, bf16](const std::string& text, auto value) {
    all.push_back({text, [&golden, bf16, value] {
                     const auto codes = tensor_values<std::uint8_t>(golden_tensor(golden, "codes"));
                     const auto scales = tensor_values<std::uint8_t>(golden_tensor(golden, "scales"));
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
                     for (const std::uint32_t v : tensor_values<std::uint32_t>(golden_tensor(golden, "values"))) {
                       cut.push_back((v & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : static_cast<std::uint16_t>(v >> 16));
                     }
                     return dataset_bytes(cut);
                   }});
  }
}

void add_layouts(const GoldenTensors& golden, const DatasetInfo& dataset, GoldenProblem& p,
                 std::vector<Hypothesis>& all) {
  p = GoldenProblem();
  p.pad_byte = static_cast<std::uint8_t>(number_of(golden.info, "pad_byte"));
  p.block = {1, 32};
  const std::int64_t rows = number_of(golden.info, "rows"), cols = number_of(golden.info, "cols");
  p.expected.levels = {
      {p.block, ScaleRule::rceil, {"", Format::e8m0, {rows, cols}, golden_tensor(golden, "scales").data}}};
  p.rows = rows, p.cols = cols * 32;
  p.expected.codes.shape = {p.rows, p.cols};
  for (Hypothesis& h : layout_hypotheses(p, dataset.name == "tcgen05")) all.push_back(std::move(h));
}

void add_list_faults(const GoldenTensors& golden, const DatasetInfo& dataset, std::vector<Hypothesis>& all) {
  const std::size_t width = size_of(dataset.dtype);
  const auto shifted = [&](const std::string& text, std::ptrdiff_t by) {
    all.push_back({text, [&golden, name = dataset.name, width, by] {
                     const std::vector<std::byte>& right = golden_tensor(golden, name).data;
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
                     std::vector<std::byte> bytes = golden_tensor(golden, name).data;
                     for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
                       std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(i + width));
                     }
                     return bytes;
                   }});
  }
  all.push_back({"zeros that nobody wrote over", [&golden, name = dataset.name] {
                   return std::vector<std::byte>(golden_tensor(golden, name).data.size());
                 }});
}

// A cast of another kind than those in the golden.
void add_casts(const GoldenTensors& golden, std::vector<Hypothesis>& all) {
  const Format f = named_format(golden.info);
  const auto cast = [&](const std::string& text, auto one) {
    all.push_back({text, [&golden, f, one] {
                     std::vector<std::byte> bytes;
                     const std::size_t width = spec(f).bits > 8 ? 2 : 1;
                     for (const std::uint32_t bits : tensor_values<std::uint32_t>(golden_tensor(golden, "x"))) {
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
  const Tensor& x = golden_tensor(golden, "x");
  const DatasetInfo* info = golden.info.find("x");
  p.wide = format_of_attribute(info->format);
  p.x = x.data;
  p.rows = x.shape.at(0), p.cols = x.shape.at(1);
  p.element = named_format(golden.info);
  p.block = block_shape_named(attribute(golden.info.attributes, "block"));
  p.recipe = recipe_named(attribute(golden.info.attributes, "recipe"));
  p.pad_byte = static_cast<std::uint8_t>(number_of(golden.info, "pad_byte"));
  if (golden.info.find("offsets") != nullptr) p.offsets = tensor_values<std::int64_t>(golden_tensor(golden, "offsets"));
  const Tensor& scales = golden_tensor(golden, "scales");
  p.expected.codes = {"", p.element, {p.rows, p.cols}, golden_tensor(golden, "codes").data};
  p.expected.levels = {{p.block, p.recipe.rule, {"", p.recipe.scale_format(), scales.shape, scales.data}}};
  return p;
}

std::vector<Hypothesis> table_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset,
                                         GoldenProblem& scratch) {
  std::vector<Hypothesis> all;
  for (const DatasetInfo& other : golden.info.datasets) {
    if (other.name == dataset.name || other.dtype != dataset.dtype || other.shape != dataset.shape) continue;
    all.push_back(
        {"the golden's " + other.name, [&golden, name = other.name] { return golden_tensor(golden, name).data; }});
  }
  const std::string& kind = attribute(golden.info.attributes, "kind");
  if (kind == "dequantize") add_decoding(golden, dataset, all);
  if (kind == "layout") add_layouts(golden, dataset, scratch, all);
  if (kind == "casts") add_casts(golden, all);
  for (Hypothesis& h : route_hypotheses(golden, dataset)) all.push_back(std::move(h));
  add_list_faults(golden, dataset, all);
  return all;
}

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;  // of tensors in memory
  return count;
}

// A type of the same bits as the golden's: int8 for codes, float32 for the bits of float32.
bool same_bits(const DatasetInfo& expected, Format observed) {
  if (observed == expected.dtype) return true;
  if (expected.dtype == Format::uint8) return observed == Format::int8;
  if (expected.format == "bfloat16") return observed == Format::bf16;
  if (expected.format == "float16") return observed == Format::fp16;
  if (expected.format == "float32") return observed == Format::fp32 || observed == Format::int32;
  return expected.dtype == Format::uint32 && observed == Format::int32;
}

std::string dtype_advice(const DatasetInfo& expected, Format observed) {
  const std::string have = safetensors_name(observed);
  const std::string want = std::string(safetensors_name(expected.dtype)) + " bits of " + expected.format;
  const bool number =
      observed == Format::fp32 || observed == Format::fp64 || observed == Format::fp16 || observed == Format::bf16;
  if (expected.dtype == Format::uint8 && number) {
    return "has dtype " + have + "; " + want +
           " are needed: are these dequantized values, or codes as numbers? Write the bytes (.view(uint8))";
  }
  if (expected.dtype == Format::uint8 &&
      (observed == Format::int32 || observed == Format::int64 || observed == Format::uint32)) {
    return "has dtype " + have + "; " + want +
           " are needed: several codes a word, or one code widened? Write one byte a code";
  }
  if (expected.dtype == Format::int32 || expected.dtype == Format::int64) {
    return "has dtype " + have + "; " + safetensors_name(expected.dtype) + " is needed";
  }
  return "has dtype " + have + "; " + want + " are needed";
}

std::string shape_advice(const DatasetInfo& expected, const std::vector<std::int64_t>& have) {
  const std::vector<std::int64_t>& want = expected.shape;
  std::string text = "has shape " + text_of(have) + "; " + text_of(want) + " is needed";
  if (want.size() == 2 && have.size() == 2 && have[0] == want[1] && have[1] == want[0]) return text + ": the transpose";
  const std::int64_t count = count_of(have), needed = count_of(want);
  const bool rows = expected.name.starts_with("row_") || expected.name.starts_with("token_rows");
  if (rows && have.size() == 1 && count != needed) {
    return text + (count > needed ? ": does it go on behind the last row? Leave that out"
                                  : ": fewer rows than there should be");
  }
  if (count == needed) return text + ": the same elements in another shape";
  if (needed % 2 == 0 && count == needed / 2) return text + ": two codes a byte? Unpack them, one code a byte";
  if (want.size() == 2 && have.size() == 2) {
    const bool rows = have[0] >= want[0] && have[0] % 128 == 0 && have[0] - want[0] < 128;
    const bool cols = have[1] >= want[1] && (have[1] % 4 == 0) && have[1] - want[1] < 128;
    if (rows && cols) return text + ": padded? Leave the padding out";
    if (have[0] == want[0] && have[1] == want[1] * 2) return text + ": blocks of half the width?";
    if (have[0] == want[0] && have[1] * 4 == want[1]) return text + ": blocks of four times the width (1x128)?";
    if (have[1] == want[1] && have[0] * 32 >= want[0] && have[0] * 32 < want[0] + 32) {
      return text + ": one scale for 32 rows (32x32 blocks)?";
    }
  }
  if (have.size() == 1 && want.size() == 2 && have[0] >= needed && have[0] % 512 == 0) {
    return text + ": is it in the tcgen05 layout? The compact one is needed here";
  }
  return text;
}

}  // namespace

Form form_of(const DatasetInfo& expected, const Tensor& observed) {
  Form form;
  if (!same_bits(expected, observed.format)) {
    form.dtype = false;
    form.notes.push_back(dtype_advice(expected, observed.format));
  } else if (observed.format != expected.dtype) {
    form.notes.push_back(std::string("has dtype ") + safetensors_name(observed.format) + ", taken as the bits of " +
                         expected.format);
  }
  if (observed.shape != expected.shape) {
    form.shape = false;
    form.notes.push_back(shape_advice(expected, observed.shape));
  }
  const bool as_wide = size_of(observed.format) == size_of(expected.dtype);
  form.comparable = form.dtype && as_wide && count_of(observed.shape) == count_of(expected.shape);
  if (!form.shape && form.comparable) form.notes.emplace_back("its bits are compared in the order of its elements");
  return form;
}

namespace {

std::vector<std::byte> rows_of(const std::vector<std::byte>& matrix, std::int64_t row_bytes, std::int64_t first,
                               std::int64_t end) {
  if (matrix.empty()) return {};
  return {matrix.begin() + first * row_bytes, matrix.begin() + end * row_bytes};
}

Tensor rows_of(const Tensor& matrix, std::int64_t first, std::int64_t end) {
  const auto row_bytes = static_cast<std::int64_t>(size_of(matrix.format)) * matrix.cols();
  return {matrix.name, matrix.format, {end - first, matrix.cols()}, rows_of(matrix.data, row_bytes, first, end)};
}

// A property of elements or blocks, and whether it is all that the wrong ones have and few of the right ones do.
struct Trait {
  std::string text;
  std::int64_t wrong = 0;
  std::int64_t right = 0;
};

std::vector<std::string> telling(std::span<const Trait> traits, std::int64_t wrong, std::int64_t right) {
  std::vector<std::string> lines;
  for (const Trait& t : traits) {
    if (wrong == 0 || t.wrong != wrong || 4 * t.right > right) continue;
    lines.push_back("only " + t.text + " are wrong" +
                    (t.right == 0 ? ", and all of them" : " (" + std::to_string(t.right) + " of these are right)"));
  }
  return lines;
}

bool differs(const Observed& data, std::size_t index) {
  return std::memcmp(data.expected.data() + index * data.width, data.observed.data() + index * data.width,
                     data.width) != 0;
}

struct BlockFacts {
  float amax = 0;
  bool has_nan = false;
  bool has_inf = false;
  bool ragged = false;
};

std::vector<BlockFacts> facts_of_blocks(const GoldenProblem& p, const std::vector<std::int64_t>& index) {
  std::vector<BlockFacts> facts(static_cast<std::size_t>(p.expected.scale_rows() * p.expected.scale_cols()));
  std::vector<std::int64_t> elements(facts.size());
  const MatrixView view = p.view();
  for (std::size_t at = 0; at < index.size(); ++at) {
    BlockFacts& f = facts[static_cast<std::size_t>(index[at])];
    ++elements[static_cast<std::size_t>(index[at])];
    const float value =
        std::fabs(view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols));
    f.has_nan = f.has_nan || std::isnan(value), f.has_inf = f.has_inf || std::isinf(value);
    if (value > f.amax) f.amax = value;
  }
  const std::int64_t whole = elements.empty() ? 0 : *std::max_element(elements.begin(), elements.end());
  for (std::size_t s = 0; s < facts.size(); ++s) facts[s].ragged = elements[s] < whole;
  return facts;
}

}  // namespace

Window window_at(const GoldenProblem& p, std::int64_t row, std::int64_t rows) {
  const std::vector<std::int64_t> starts = block_row_starts(p.rows, p.block.rows, p.offsets);
  Window w;
  std::size_t at = 0;
  while (at + 2 < starts.size() && starts[at + 1] <= row) ++at;
  w.first_row = starts[at], w.first_scale_row = static_cast<std::int64_t>(at);
  while (at + 1 < starts.size() && starts[at] < w.first_row + std::max<std::int64_t>(1, rows)) ++at;
  w.end_row = starts[at], w.end_scale_row = static_cast<std::int64_t>(at);
  return w;
}

GoldenProblem cut(const GoldenProblem& p, const Window& w) {
  GoldenProblem part = p;
  const std::int64_t x_bytes = p.cols * (p.wide == Format::fp32 ? 4 : 2);
  part.x = rows_of(p.x, x_bytes, w.first_row, w.end_row);
  part.rows = w.end_row - w.first_row;
  part.offsets.clear();
  if (!p.offsets.empty()) {
    part.offsets.push_back(0);
    for (const std::int64_t offset : p.offsets) {
      if (offset > w.first_row && offset < w.end_row) part.offsets.push_back(offset - w.first_row);
    }
    part.offsets.push_back(part.rows);
  }
  part.expected.codes = rows_of(p.expected.codes, w.first_row, w.end_row);
  part.expected.scales() = rows_of(p.expected.scales(), w.first_scale_row, w.end_scale_row);
  if (p.own_scales) part.own_scales = rows_of(*p.own_scales, w.first_scale_row, w.end_scale_row);
  return part;
}

std::vector<std::string> common_to_wrong_codes(const GoldenProblem& p, const Observed& codes) {
  const std::vector<std::int64_t> index = p.scale_index();
  const std::vector<BlockFacts> blocks = facts_of_blocks(p, index);
  const MatrixView view = p.view();
  const FormatSpec& f = spec(p.element);
  std::array traits{Trait{"elements of blocks with a NaN"},
                    Trait{"elements of blocks with an infinity"},
                    Trait{"elements of blocks with a NaN or an infinity"},
                    Trait{"elements of ragged blocks"},
                    Trait{"negative elements"},
                    Trait{"positive elements"},
                    Trait{"elements whose code is subnormal or zero"},
                    Trait{"elements whose code is the largest"},
                    Trait{"elements that are themselves a block's amax"}};
  std::int64_t wrong = 0, right = 0;
  for (std::size_t at = 0; at < index.size(); ++at) {
    const bool bad = differs(codes, at);
    ++(bad ? wrong : right);
    const BlockFacts& b = blocks[static_cast<std::size_t>(index[at])];
    const float x = view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols);
    std::uint32_t code = 0;
    std::memcpy(&code, codes.expected.data() + at * codes.width, codes.width);
    const std::uint32_t magnitude = code & ((1U << (f.bits - 1)) - 1);
    const std::array has = {b.has_nan,
                            b.has_inf,
                            b.has_nan || b.has_inf,
                            b.ragged,
                            std::signbit(x),
                            !std::signbit(x),
                            magnitude < 1U << f.mantissa_bits,
                            magnitude == f.max_code,
                            std::fabs(x) == b.amax};
    static_assert(has.size() == traits.size());
    for (std::size_t t = 0; t < has.size(); ++t) {
      if (has[t]) ++(bad ? traits[t].wrong : traits[t].right);
    }
  }
  return telling(traits, wrong, right);
}

std::vector<std::string> common_to_wrong_scales(const GoldenProblem& p, const Observed& scales) {
  const std::vector<BlockFacts> blocks = facts_of_blocks(p, p.scale_index());
  float largest_wrong = 0, smallest_wrong = INFINITY;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    if (!differs(scales, s)) continue;
    largest_wrong = std::max(largest_wrong, blocks[s].amax), smallest_wrong = std::min(smallest_wrong, blocks[s].amax);
  }
  const auto decimal = [](float v) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(v));
    return std::string(text);
  };
  std::array traits{Trait{"scales of blocks with a NaN"},
                    Trait{"scales of blocks with an infinity"},
                    Trait{"scales of blocks with a NaN or an infinity"},
                    Trait{"scales of ragged blocks"},
                    Trait{"scales of blocks whose amax is at most " + decimal(largest_wrong)},
                    Trait{"scales of blocks whose amax is at least " + decimal(smallest_wrong)},
                    Trait{"scales of blocks of zeros"},
                    Trait{"scales of blocks whose amax is a power of two"}};
  std::int64_t wrong = 0, right = 0;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    const bool bad = differs(scales, s);
    ++(bad ? wrong : right);
    const BlockFacts& b = blocks[s];
    int exponent = 0;
    const std::array has = {b.has_nan,
                            b.has_inf,
                            b.has_nan || b.has_inf,
                            b.ragged,
                            b.amax <= largest_wrong,
                            b.amax >= smallest_wrong,
                            b.amax == 0,
                            std::frexp(b.amax, &exponent) == 0.5F};
    static_assert(has.size() == traits.size());
    for (std::size_t t = 0; t < has.size(); ++t) {
      if (has[t]) ++(bad ? traits[t].wrong : traits[t].right);
    }
  }
  return telling(traits, wrong, right);
}

}  // namespace mxcheck
