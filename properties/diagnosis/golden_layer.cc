#include "properties/diagnosis/golden_layer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>

#include "goldens/layer/recipe_json.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/finding.h"
#include "properties/core/notation.h"
#include "properties/diagnosis/golden_form.h"
#include "properties/diagnosis/golden_problem.h"
#include "properties/diagnosis/golden_routes.h"
#include "properties/diagnosis/golden_swiglu.h"
#include "properties/diagnosis/layer/verdict.h"
#include "properties/operations/layer/definitions.h"

namespace mxcheck {
namespace {

template <class T>
std::vector<T> values_at(const GoldenTensors& golden, const std::string& name) {
  return values_in<T>(golden_tensor(golden, name).data);
}

LayerShape shape_of(const GoldenTensors& golden) {
  const std::vector<std::int64_t>& x = golden_tensor(golden, "X").shape;
  const std::vector<std::int64_t>& w2 = golden_tensor(golden, "W2").shape;
  const auto experts = static_cast<std::int64_t>(values_at<std::int64_t>(golden, "offsets").size()) - 1;
  if (x.size() != 2 || w2.size() != 2 || experts < 1)
    throw Error(ErrorKind::golden, "its X, W2 and offsets are no layer's");
  return {x[0], x[1], w2[0] / experts, experts};
}

// A layer whose every tensor is the golden's, not what this version of the reference makes of the inputs.
LayerData layer_of(const GoldenTensors& golden) {
  const Attributes& a = golden.info.attributes;
  LayerData d;
  d.shape = shape_of(golden);
  d.recipe = layer_recipe_from(attribute(a, "recipe"), "its attribute recipe");
  d.gate_up = attribute(a, "gate_up") == "interleaved" ? GateUp::interleaved : GateUp::halves;
  d.x = values_at<std::uint16_t>(golden, "X"), d.w1 = values_at<std::uint16_t>(golden, "W1");
  d.w2 = values_at<std::uint16_t>(golden, "W2"), d.d_o = values_at<std::uint16_t>(golden, "dO");
  d.routes = {values_at<std::int64_t>(golden, "offsets"), values_at<std::int32_t>(golden, "row_token"),
              values_at<float>(golden, "row_weight"), values_at<std::int64_t>(golden, "token_offsets"),
              values_at<std::int32_t>(golden, "token_rows")};
  d.has_backward = true;
  compute(d);
  if (golden.info.find("d_logits") != nullptr) d.d_logits = values_at<float>(golden, "d_logits");
  for (const LayerTensor& t : tensors_of(d)) set_tensor(d, t.name, golden_tensor(golden, t.name).data);
  return d;
}

std::string of_candidate(std::string text) {
  const std::string dump = "of the dump";
  for (std::size_t at = text.find(dump); at != std::string::npos; at = text.find(dump, at))
    text.replace(at, dump.size(), "of the candidate");
  return text;
}

class Judging {
 public:
  Judging(const GoldenTensors& golden, const CandidateTensor& candidate, const std::vector<std::string>& only)
      : golden_(golden), candidate_(candidate), only_(only) {}

  GoldenVerdict all() {
    for (const DatasetInfo& info : golden_.info.datasets) {
      if (info.role == Role::output) take(info);
    }
    const LayerData reference = layer();
    const LayerJudge judge{[&](const std::string& name) { return seen(name); },
                           [&](std::span<const float> ds) { return logits_gradient(reference, ds); }, only_};
    for (const LayerTensorResult& r : judge_layer(reference, judge).results) {
      const auto at = std::find_if(verdict_.results.begin(), verdict_.results.end(),
                                   [&](const DatasetResult& result) { return result.expected.name == r.name; });
      if (at != verdict_.results.end() && r.difference) tell(r, *at);
    }
    return std::move(verdict_);
  }

 private:
  LayerData layer() const {
    try {
      return layer_of(golden_);
    } catch (const Error& e) {
      throw Error(ErrorKind::golden, std::string("it is no layer: ") + e.what());
    }
  }

  // The candidate's tensor, as far as it has the right form.
  void take(const DatasetInfo& info) {
    DatasetResult result{info, DatasetVerdict::equal, {}, {}, {}, {}};
    std::optional<Tensor> observed;
    try {
      observed = candidate_(info.name);
    } catch (const Error& e) {
      result.verdict = DatasetVerdict::unreadable;
      result.notes.emplace_back(e.what());
    }
    if (observed) {
      const Form form = form_of(info, *observed);
      result.notes = form.notes;
      if (form.comparable) tensors_[info.name] = {info.name, info.dtype, info.shape, std::move(observed->data)};
      if (!form.shape) result.verdict = DatasetVerdict::wrong_shape;
      if (!form.dtype) result.verdict = DatasetVerdict::wrong_dtype;
    } else if (result.verdict == DatasetVerdict::equal) {
      result.verdict = DatasetVerdict::missing;
      result.notes.push_back("the candidate has no dataset " + info.name);
    }
    if (only_.empty() || std::find(only_.begin(), only_.end(), info.name) != only_.end())
      verdict_.results.push_back(std::move(result));
  }

  std::optional<Tensor> seen(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<std::vector<float>> logits_gradient(const LayerData& d, std::span<const float> ds) const {
    if (!d.d_logits) return std::nullopt;
    return logits_gradient_of(golden_, slot_gradient(d.routes, ds));
  }

  static void tell(const LayerTensorResult& r, DatasetResult& result) {
    if (result.verdict == DatasetVerdict::equal) result.verdict = DatasetVerdict::different;
    result.difference = r.difference;
    for (const std::string& cause : r.causes) result.causes.push_back(of_candidate(cause));
    const std::string made_of = of_candidate(r.made_of);
    if (r.verdict == LayerTensorVerdict::follows) {
      result.causes = {"none of its own: every element is what comes of " + made_of};
    } else if (r.own_wrong != 0) {
      result.element.push_back("own       " + std::to_string(r.own_wrong) + " of " +
                               std::to_string(r.difference->total) + " elements are not what comes of " + made_of);
    }
    if (!r.note.empty()) result.element.push_back("note      " + of_candidate(r.note));
    result.element.push_back("expected  " + expected_text(*r.difference));
    result.element.push_back("observed  " + observed_text(*r.difference));
  }

  const GoldenTensors& golden_;
  const CandidateTensor& candidate_;
  const std::vector<std::string>& only_;
  std::map<std::string, Tensor> tensors_;
  GoldenVerdict verdict_;
};

}  // namespace

GoldenVerdict judge_layer_golden(const GoldenTensors& golden, const CandidateTensor& candidate,
                                 const std::vector<std::string>& only) {
  return Judging(golden, candidate, only).all();
}

namespace {

std::vector<std::int64_t> offsets_of(const GoldenTensors& golden) {
  if (golden.info.find("offsets") == nullptr) return {};
  return values_in<std::int64_t>(golden_tensor(golden, "offsets").data);
}

// H as BF16 words; nothing where it is codes whose values BF16 does not hold.
std::optional<std::vector<std::uint16_t>> h_of(const GoldenTensors& golden) {
  if (golden.info.find("H") != nullptr) return values_in<std::uint16_t>(golden_tensor(golden, "H").data);
  const Tensor& codes = golden_tensor(golden, "H_codes");
  const Tensor& scales = golden_tensor(golden, "H_scales");
  if (scales.format != Format::uint8 || codes.format != Format::uint8) return std::nullopt;
  const Format element = format_of_attribute(golden.info.find("H_codes")->format);
  const QuantizedTensor q{{"", element, codes.shape, codes.data},
                          {{{1, 32}, ScaleRule::rceil, {"", Format::e8m0, scales.shape, scales.data}}}};
  std::vector<std::uint16_t> words;
  for (const float value : dequantize(q)) {
    words.push_back(layer_bf16(value));
    if (!std::isnan(value) && std::bit_cast<std::uint32_t>(value) != std::uint32_t{words.back()} << 16)
      return std::nullopt;
  }
  return words;
}

std::vector<Hypothesis> value_hypotheses(const GoldenTensors& golden, const std::string& dataset) {
  std::optional<std::vector<std::uint16_t>> h = h_of(golden);
  if (!h) return {};
  const GateUp order =
      attribute(golden.info.attributes, "gate_up") == "interleaved" ? GateUp::interleaved : GateUp::halves;
  const auto d = layer_of_swiglu(std::move(*h), values_at<float>(golden, "P"), values_at<float>(golden, "row_weight"),
                                 offsets_of(golden), order);
  // The layer has A twice; the second reads H as it was kept, and P.
  std::vector<Hypothesis> all;
  for (Definition& row : step_definitions(d, {dataset == "A" ? "A_again" : dataset}))
    all.push_back({row.name, [bytes = std::move(row.bytes)] { return bytes(0); }});
  return all;
}

// One dataset of codes or scales.
struct Coded {
  BlocksProblem problem;
  bool codes = false;  // else scales
  bool turned = false;
  std::size_t width = 1;

  [[nodiscard]] Bytes in_order(const Bytes& bytes) const {
    const std::int64_t rows = codes ? problem.rows() : problem.expected.scale_rows();
    const std::int64_t cols = codes ? problem.cols() : problem.expected.scale_cols();
    if (!turned || bytes.size() != static_cast<std::size_t>(rows * cols) * width) return turned ? Bytes() : bytes;
    return transposed(bytes, width, rows, cols);
  }
  [[nodiscard]] Bytes of(const QuantizedTensor& q) const { return in_order(codes ? q.codes.data : q.scales().data); }
};

// The scales beside the codes, as the candidate has them.
void learn_scales(const GoldenTensors& golden, const std::string& name, const CandidateTensor& candidate, Coded& c) {
  const DatasetInfo* info = golden.info.find(name);
  std::optional<Tensor> own;
  try {
    own = candidate(name);
  } catch (const Error&) {  // a verdict of its own
  }
  if (!own || info == nullptr || !form_of(*info, *own).comparable) return;
  const BlocksProblem& p = c.problem;
  const std::size_t width = size_of(info->dtype);
  c.problem.own_scales = p.expected.scales();
  c.problem.own_scales->data =
      c.turned ? transposed(own->data, width, p.expected.scale_cols(), p.expected.scale_rows()) : own->data;
}

std::shared_ptr<Coded> coded_of(const GoldenTensors& golden, const DatasetInfo& dataset,
                                const CandidateTensor& candidate) {
  auto c = std::make_shared<Coded>();
  c->codes = dataset.name.ends_with("_codes"), c->width = size_of(dataset.dtype);
  const std::string stem = dataset.name.substr(0, dataset.name.rfind('_'));
  const DatasetInfo* codes = golden.info.find(stem + "_codes");
  if (codes == nullptr) throw Error(ErrorKind::golden, "it lacks the dataset " + stem + "_codes");
  c->turned = attribute(dataset.attributes, "along").starts_with("tokens");
  const Tensor& x = golden_tensor(golden, attribute(dataset.attributes, "of"));
  BlocksProblem& p = c->problem;
  p.x = {x.name, Format::bf16, x.shape, x.data};
  p.element = format_of_attribute(codes->format);
  p.recipe = recipe_named(attribute(dataset.attributes, "recipe"));
  p.block = block_shape_named(attribute(dataset.attributes, "block"));
  if (c->turned) {
    std::swap(p.block.rows, p.block.cols);
    p.offsets = offsets_of(golden);
  }
  p.expected = quantize(p.view(), p.element, p.block, p.recipe, p.offsets);
  if (c->codes) learn_scales(golden, stem + "_scales", candidate, *c);
  return c;
}

// The candidate's own A, dH or A', rightly quantized.
Hypothesis of_own_values(const GoldenTensors& golden, const std::string& of, const CandidateTensor& candidate,
                         const std::shared_ptr<Coded>& c) {
  return {"they are right for the candidate's own " + of + ": only that is wrong",
          [&golden, of, candidate, c]() -> Bytes {
            try {
              const std::optional<Tensor> own = candidate(of);
              if (!own || !form_of(*golden.info.find(of), *own).comparable) return {};
              const BlocksProblem& p = c->problem;
              const MatrixView view{Format::bf16, own->data.data(), p.rows(), p.cols(), p.cols()};
              return c->of(quantize(view, p.element, p.block, p.recipe, p.offsets));
            } catch (const Error&) {
              return {};
            }
          },
          true};
}

std::vector<Hypothesis> code_hypotheses_of(const GoldenTensors& golden, const DatasetInfo& dataset,
                                           const CandidateTensor& candidate) {
  const std::shared_ptr<Coded> c = coded_of(golden, dataset, candidate);
  std::vector<Hypothesis> all{of_own_values(golden, attribute(dataset.attributes, "of"), candidate, c)};
  for (Definition& row : blocks_table(c->problem, 0, 1))
    all.push_back(
        {row.name, [c, bytes = std::move(row.bytes)] { return c->in_order(bytes(c->codes ? 0 : 1)); }, row.derived});
  if (c->turned) {
    all.push_back({"the order of rows, not transposed", [c] {
                     Coded plain{c->problem, c->codes, false, c->width};
                     return plain.of(c->problem.expected);
                   }});
  }
  return all;
}

}  // namespace

std::vector<Hypothesis> swiglu_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset,
                                          const CandidateTensor& candidate) {
  if (attribute(golden.info.attributes, "kind") != "swiglu") return {};
  const bool coded = dataset.name.ends_with("_codes") || dataset.name.ends_with("_scales");
  return coded ? code_hypotheses_of(golden, dataset, candidate) : value_hypotheses(golden, dataset.name);
}

}  // namespace mxcheck
