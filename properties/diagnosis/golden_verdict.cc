#include "properties/diagnosis/golden_verdict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <memory>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/finding.h"
#include "properties/core/notation.h"
#include "properties/goldens/kind.h"
#include "properties/operations/quantize/problem.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

namespace {

constexpr std::int64_t kMostToDiagnose = 1 << 20;  // elements: some hundred answers are computed over them

Format element_format(const DatasetInfo& info) {
  const std::optional<Format> format = find_format(info.format);
  // Words of several codes, and plain words, are compared as bytes of scales and as bits of floats.
  if (!format) return Format::fp32;
  const bool packed = info.dtype == Format::uint32 && *format != Format::fp32;
  return packed ? Format::e8m0 : *format;
}

// Definitions and slips that may explain a dataset: those of its kind, the dataset taken for another of the same
// golden, and lists shifted or never written.

Table rows_of_lists(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const Bytes& right = golden_tensor(golden, dataset.name).data;
  const std::size_t width = size_of(dataset.dtype);
  Table all;
  const auto add = [&](const char* name, std::function<Bytes()> bytes) {
    all.push_back(definition_of_output(0, name, std::move(bytes)));
  };
  add("the element before", [&right, width] {
    Bytes bytes(right.size());
    if (right.size() > width)
      std::copy(right.begin(), right.end() - static_cast<std::ptrdiff_t>(width),
                bytes.begin() + static_cast<std::ptrdiff_t>(width));
    return bytes;
  });
  add("the element after", [&right, width] {
    Bytes bytes(right.size());
    if (right.size() > width) std::copy(right.begin() + static_cast<std::ptrdiff_t>(width), right.end(), bytes.begin());
    return bytes;
  });
  if (width > 1) {
    add("elements with their bytes in the opposite order", [&right, width] {
      Bytes bytes = right;
      for (auto at = bytes.begin(); at != bytes.end(); at += static_cast<std::ptrdiff_t>(width))
        std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
      return bytes;
    });
  }
  add("zeros that nobody wrote over", [&right] { return Bytes(right.size()); });
  return all;
}

Table golden_table(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate) {
  Table all;
  const auto add = [&](Table rows) {
    for (Definition& row : rows) all.push_back(std::move(row));
  };
  for (const DatasetInfo& other : golden.info.datasets) {
    if (other.name == dataset.name || other.dtype != dataset.dtype || other.shape != dataset.shape) continue;
    all.push_back(definition_of_output(0, "the golden's " + other.name,
                                       [&golden, name = other.name] { return golden_tensor(golden, name).data; }));
  }
  const GoldenKind* kind = find_golden_kind(attribute(golden.info.attributes, "kind"));
  if (kind != nullptr) add(kind->rows(golden, dataset, candidate));
  add(rows_of_lists(golden, dataset));
  return all;
}

// Bytes that may hold anything (attribute `open`: properties/goldens/case.h) become the expected ones.
void close_open_bytes(const DatasetInfo& info, const Bytes& expected, Bytes& observed) {
  const std::string& text = attribute(info.attributes, "open");
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint64_t first = 0, last = 0;
    const auto [colon, one] = std::from_chars(at, end, first);
    const bool has_two = one == std::errc() && colon != end && *colon == ':';
    const auto [rest, two] = has_two ? std::from_chars(colon + 1, end, last) : std::from_chars_result{end, one};
    if (!has_two || two != std::errc() || first > last || last > expected.size() || (rest != end && *rest != ' '))
      throw Error(ErrorKind::golden, "the attribute open of its dataset " + info.name + " is '" + text +
                                         "': must be ranges of its bytes, FIRST:END, with a space between them");
    std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(first), last - first,
                observed.begin() + static_cast<std::ptrdiff_t>(first));
    at = rest == end ? end : rest + 1;
  }
}

class Judge {
 public:
  Judge(const GoldenTensors& golden, const CandidateTensor& candidate) : golden_(golden), candidate_(candidate) {
    quantize_ = attribute(golden.info.attributes, "kind") == "quantize";
    if (quantize_) problem_ = problem_of(golden);
  }

  DatasetResult judge(const DatasetInfo& info) {
    FormResult found = judge_form(info, candidate_);
    if (found.comparable) compare_bits(info, found.comparable->data, found.result);
    return std::move(found.result);
  }

  // Scales come first: codes are held against the candidate's own.
  void learn_scales(const Tensor& scales) {
    const DatasetInfo* info = golden_.info.find("scales");
    if (!quantize_ || info == nullptr || !form_of(*info, scales).comparable) return;
    problem_.own_scales = problem_.expected.scales();
    problem_.own_scales->data = scales.data;
  }

 private:
  void compare_bits(const DatasetInfo& info, Bytes observed, DatasetResult& result) {
    const Bytes& expected = golden_.tensors.at(info.name).data;
    close_open_bytes(info, expected, observed);
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
    if (result.verdict == DatasetVerdict::equal) result.verdict = DatasetVerdict::different;
    explain_first(info, result);
    const AnswerTensor data{causes_info(info, shape), expected, observed};
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

  // Words of several codes are compared as words.
  static TensorInfo causes_info(const DatasetInfo& info, TensorInfo shape) {
    if (bytes_of_element(shape) != size_of(info.dtype)) shape.integer_bits = static_cast<int>(8 * size_of(info.dtype));
    return shape;
  }

  // The gate explains quantized blocks; the rest is two numbers.
  void explain_first(const DatasetInfo& info, DatasetResult& result) const {
    const bool tiled = info.name == "scales_tcgen05";
    const bool known = info.name == "codes" || info.name == "scales" || tiled;
    Finding finding;
    finding.difference = result.difference;
    const GoldenKind* kind = find_golden_kind(attribute(golden_.info.attributes, "kind"));
    if (kind != nullptr) result.element = kind->explain(golden_, info, *result.difference);
    if (!result.element.empty()) return;
    if (quantize_ && known && problem_.recipe.rule != ScaleRule::fp32) {
      Case c;
      c.variant = {"quantize", problem_.x.format};
      blocks_of(c.variant) = {problem_.element, problem_.recipe.name, problem_.block,
                              tiled ? MXCHECK_TCGEN05 : MXCHECK_COMPACT};
      c.rows = problem_.rows(), c.cols = problem_.cols(), c.experts = problem_.offsets;
      blocks_case(c).pad = problem_.pad_byte;
      const QuantizeProblem problem(c, Input{problem_.x.data, problem_.x.format, c.rows, c.cols, c.cols});
      problem.explain(info.name == "codes" ? 0 : 1, finding);
      result.element = finding.element;
      return;
    }
    const Difference::Element& e = result.difference->first;
    for (const char* input : {"x", "amax"}) {
      const auto at = golden_.tensors.find(input);
      if (at == golden_.tensors.end() || at->second.shape != info.shape) continue;
      const Format wide = element_format(*golden_.info.find(input));
      if (size_of(at->second.format) != size_of(wide) || size_of(wide) > sizeof(std::uint32_t)) continue;
      const auto index = static_cast<std::size_t>(e.row * result.difference->tensor.cols + e.col);
      result.element.push_back("input     " + std::string(input) + " = " + notations(wide, at->second.code(index)));
    }
    result.element.push_back("expected  " + expected_text(*result.difference));
    result.element.push_back("observed  " + observed_text(*result.difference));
  }

  void find_causes(const DatasetInfo& info, const AnswerTensor& data, DatasetResult& result) {
    if (!quantize_) {
      result.causes = likeliest_causes(data, golden_table(golden_, info, candidate_), 0, unit_of(info));
    } else if (info.name == "scales_tcgen05" || info.name == "scales_deepgemm") {
      const auto layout = info.name == "scales_tcgen05" ? ScaleLayout::tcgen05 : ScaleLayout::deepgemm;
      result.causes = likeliest_causes(data, layout_table(problem_, layout, 0), 0, unit_of(info));
    } else if (info.name == "codes" || info.name == "scales") {
      find_causes_of_blocks(info, data, result);
    }
  }

  void find_causes_of_blocks(const DatasetInfo& info, const AnswerTensor& data, DatasetResult& result) {
    const bool codes = info.name == "codes";
    const std::int64_t rows = problem_.rows(), cols = problem_.cols(), scale_cols = problem_.expected.scale_cols();
    const std::int64_t first = result.difference->first.row;
    const std::int64_t row =
        codes ? first
              : block_row_starts(rows, problem_.block.rows, problem_.offsets).at(static_cast<std::size_t>(first));
    const bool all = rows * cols <= kMostToDiagnose;
    const Window w = all ? window_at(problem_, 0, rows)
                         : window_at(problem_, row, kMostToDiagnose / std::max<std::int64_t>(1, cols));
    const BlocksProblem part = all ? problem_ : cut(problem_, w);
    const std::int64_t from = codes ? w.first_row * cols : w.first_scale_row * scale_cols;
    const std::int64_t end = codes ? w.end_row * cols : w.end_scale_row * scale_cols;
    const std::size_t width = size_of(info.dtype);
    const auto slice = [&](std::span<const std::byte> bytes) {
      return bytes.subspan(static_cast<std::size_t>(from) * width, static_cast<std::size_t>(end - from) * width);
    };
    const AnswerTensor seen{data.info, slice(data.expected), slice(data.observed)};
    result.causes = likeliest_causes(seen, blocks_table(part, 0, 1), codes ? 0 : 1, unit_of(info));
    if (result.causes.empty()) {
      result.causes = codes ? common_to_wrong_codes(part, seen) : common_to_wrong_scales(part, seen);
    }
    if (!all && !result.causes.empty()) {
      result.causes.push_back("(looked for in rows " + std::to_string(w.first_row) + " to " +
                              std::to_string(w.end_row - 1) + ")");
    }
  }

  const GoldenTensors& golden_;
  const CandidateTensor& candidate_;
  bool quantize_ = false;
  BlocksProblem problem_;
};

}  // namespace

bool GoldenVerdict::equal() const {
  return !results.empty() && std::all_of(results.begin(), results.end(),
                                         [](const DatasetResult& r) { return r.verdict == DatasetVerdict::equal; });
}

FormResult judge_form(const DatasetInfo& info, const CandidateTensor& candidate) {
  FormResult found{{info, DatasetVerdict::equal, {}, {}, {}, {}}, std::nullopt};
  DatasetResult& result = found.result;
  std::optional<Tensor> observed;
  try {
    observed = candidate(info.name);
  } catch (const Error& e) {
    result.verdict = DatasetVerdict::unreadable;
    result.notes.emplace_back(e.what());
    return found;
  }
  if (!observed) {
    result.verdict = DatasetVerdict::missing;
    result.notes.push_back("the candidate has no dataset " + info.name);
    return found;
  }
  const Form form = form_of(info, *observed);
  result.notes = form.notes;
  if (!form.shape) result.verdict = DatasetVerdict::wrong_shape;
  if (!form.dtype) result.verdict = DatasetVerdict::wrong_dtype;
  if (form.comparable) found.comparable = std::move(observed);
  return found;
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

}  // namespace mxcheck
