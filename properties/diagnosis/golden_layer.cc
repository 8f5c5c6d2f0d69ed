#include "properties/diagnosis/golden_verdict.h"

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
#include "properties/diagnosis/layer/verdict.h"
#include "properties/goldens/kind.h"
#include "properties/operations/layer/definitions.h"
#include "properties/operations/router/golden.h"

namespace mxcheck {
namespace {

template <class T>
std::vector<T> values_at(const GoldenTensors& golden, const std::string& name) {
  const Tensor& t = golden_tensor(golden, name);
  if (size_of(t.format) != sizeof(T))
    throw Error(ErrorKind::golden, "its " + name + " has elements of " + std::to_string(8 * size_of(t.format)) +
                                       " bits; a layer's have " + std::to_string(8 * sizeof(T)));
  return values_in<T>(t.data);
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
    FormResult found = judge_form(info, candidate_);
    if (found.comparable) tensors_[info.name] = {info.name, info.dtype, info.shape, std::move(found.comparable->data)};
    if (only_.empty() || std::find(only_.begin(), only_.end(), info.name) != only_.end())
      verdict_.results.push_back(std::move(found.result));
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
      result.causes = {"none of its own: every element follows from " + made_of};
    } else if (r.own_wrong != 0) {
      result.element.push_back("own       " + std::to_string(r.own_wrong) + " of " +
                               std::to_string(r.difference->total) + " elements do not follow from " + made_of);
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

}  // namespace mxcheck
