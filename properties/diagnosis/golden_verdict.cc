#include "properties/diagnosis/golden_verdict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
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

namespace {

constexpr std::int64_t kMostToDiagnose = 1 << 20;  // elements: some hundred answers are computed over them

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
      const auto index = static_cast<std::size_t>(e.row * result.difference->tensor.cols + e.col);
      std::uint32_t bits = 0;
      std::memcpy(&bits, at->second.data.data() + index * size_of(at->second.format), size_of(at->second.format));
      result.element.push_back("input     " + std::string(input) + " = " + notations(wide, bits));
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

}  // namespace

BlocksProblem problem_of(const GoldenTensors& golden) {
  BlocksProblem p;
  p.x = in_format(golden, "x", format_of_attribute(golden.info.find("x")->format));
  p.element = format_of_golden(golden.info);
  p.block = block_shape_named(attribute(golden.info.attributes, "block"));
  p.recipe = recipe_named(attribute(golden.info.attributes, "recipe"));
  p.pad_byte = static_cast<std::uint8_t>(number_of(golden.info, "pad_byte"));
  if (golden.info.find("offsets") != nullptr)
    p.offsets = values_in<std::int64_t>(golden_tensor(golden, "offsets").data);
  p.expected.codes = in_format(golden, "codes", p.element);
  p.expected.levels = {{p.block, p.recipe.rule, in_format(golden, "scales", p.recipe.scale_format())}};
  return p;
}

Table golden_table(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate) {
  Table all;
  const auto add = [&](Table rows) {
    for (Definition& row : rows) all.push_back(std::move(row));
  };
  for (Hypothesis& h : swiglu_hypotheses(golden, dataset, candidate))
    all.push_back(definition_of_output(0, h.text, std::move(h.bytes), "", h.derived));
  for (const DatasetInfo& other : golden.info.datasets) {
    if (other.name == dataset.name || other.dtype != dataset.dtype || other.shape != dataset.shape) continue;
    all.push_back(definition_of_output(0, "the golden's " + other.name,
                                       [&golden, name = other.name] { return golden_tensor(golden, name).data; }));
  }
  const GoldenKind* kind = find_golden_kind(attribute(golden.info.attributes, "kind"));
  if (kind != nullptr) add(kind->rows(golden, dataset, candidate));
  for (Hypothesis& h : route_hypotheses(golden, dataset))
    all.push_back(definition_of_output(0, h.text, std::move(h.bytes), "", h.derived));
  add(rows_of_lists(golden, dataset));
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

Tensor rows_of(const Tensor& matrix, std::int64_t first, std::int64_t end) {
  const auto row_bytes = static_cast<std::int64_t>(size_of(matrix.format)) * matrix.cols();
  Tensor rows{matrix.name, matrix.format, {end - first, matrix.cols()}, {}};
  if (!matrix.data.empty())
    rows.data.assign(matrix.data.begin() + first * row_bytes, matrix.data.begin() + end * row_bytes);
  return rows;
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

bool differs(const AnswerTensor& data, std::size_t index) {
  const std::size_t width = bytes_of_element(data.info);
  return std::memcmp(data.expected.data() + index * width, data.observed.data() + index * width, width) != 0;
}

struct BlockFacts {
  float amax = 0;
  bool has_nan = false;
  bool has_inf = false;
  bool ragged = false;
};

std::vector<BlockFacts> facts_of_blocks(const BlocksProblem& p, const std::vector<std::int64_t>& index) {
  std::vector<BlockFacts> facts(static_cast<std::size_t>(p.expected.scale_rows() * p.expected.scale_cols()));
  std::vector<std::int64_t> elements(facts.size());
  for (std::size_t at = 0; at < index.size(); ++at) {
    BlockFacts& f = facts[static_cast<std::size_t>(index[at])];
    ++elements[static_cast<std::size_t>(index[at])];
    const float value = std::fabs(p.at(static_cast<std::int64_t>(at)));
    f.has_nan = f.has_nan || std::isnan(value), f.has_inf = f.has_inf || std::isinf(value);
    if (value > f.amax) f.amax = value;
  }
  const std::int64_t whole = elements.empty() ? 0 : *std::max_element(elements.begin(), elements.end());
  for (std::size_t s = 0; s < facts.size(); ++s) facts[s].ragged = elements[s] < whole;
  return facts;
}

}  // namespace

Window window_at(const BlocksProblem& p, std::int64_t row, std::int64_t rows) {
  const std::vector<std::int64_t> starts = block_row_starts(p.rows(), p.block.rows, p.offsets);
  Window w;
  std::size_t at = 0;
  while (at + 2 < starts.size() && starts[at + 1] <= row) ++at;
  w.first_row = starts[at], w.first_scale_row = static_cast<std::int64_t>(at);
  while (at + 1 < starts.size() && starts[at] < w.first_row + std::max<std::int64_t>(1, rows)) ++at;
  w.end_row = starts[at], w.end_scale_row = static_cast<std::int64_t>(at);
  return w;
}

BlocksProblem cut(const BlocksProblem& p, const Window& w) {
  BlocksProblem part = p;
  part.x = rows_of(p.x, w.first_row, w.end_row);
  part.offsets.clear();
  if (!p.offsets.empty()) {
    part.offsets.push_back(0);
    for (const std::int64_t offset : p.offsets) {
      if (offset > w.first_row && offset < w.end_row) part.offsets.push_back(offset - w.first_row);
    }
    part.offsets.push_back(part.rows());
  }
  part.expected.codes = rows_of(p.expected.codes, w.first_row, w.end_row);
  part.expected.scales() = rows_of(p.expected.scales(), w.first_scale_row, w.end_scale_row);
  if (p.own_scales) part.own_scales = rows_of(*p.own_scales, w.first_scale_row, w.end_scale_row);
  return part;
}

std::vector<std::string> common_to_wrong_codes(const BlocksProblem& p, const AnswerTensor& codes) {
  const std::vector<std::int64_t> index = p.scale_index();
  const std::vector<BlockFacts> blocks = facts_of_blocks(p, index);
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
    const float x = p.at(static_cast<std::int64_t>(at));
    std::uint32_t code = 0;
    const std::size_t width = bytes_of_element(codes.info);
    std::memcpy(&code, codes.expected.data() + at * width, width);
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

std::vector<std::string> common_to_wrong_scales(const BlocksProblem& p, const AnswerTensor& scales) {
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
