#include "properties/diagnosis/golden_layer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
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
#include "reference/router/token_rounding.h"

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

std::uint64_t number(const GoldenInfo& info, const char* key, int base = 10) {
  std::string_view text = attribute(info.attributes, key);
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (error == std::errc() && end == text.data() + text.size()) return n;
  throw Error(ErrorKind::golden, std::string("its attribute ") + key + " is no number: '" + std::string(text) + "'");
}

// The variant or rule that a dataset is of: "weights_softmax_topk" is of softmax-topk.
template <class Names, class Name>
auto named_in(const std::string& dataset, const Names& names, Name name) {
  const std::remove_reference_t<decltype(names[0])>* found = nullptr;
  for (const auto& known : names) {
    std::string ending = "_" + std::string(name(known));
    std::replace(ending.begin(), ending.end(), '-', '_');
    if (dataset.ends_with(ending) && (found == nullptr || name(*found).size() < name(known).size())) found = &known;
  }
  return found;
}

struct RouteProblem {
  Router router;  // its bias is the one below
  std::vector<float> bias;
  std::vector<float> logits;  // exact for BF16 and FP16
  std::int64_t tokens = 0;
  std::int64_t experts = 0;

  [[nodiscard]] Router given() const {
    Router r = router;
    r.bias = bias;
    return r;
  }
  [[nodiscard]] MatrixView view() const {
    return {Format::fp32, std::as_bytes(std::span(logits)).data(), tokens, experts, experts};
  }
};

RouteProblem problem_of_routes(const GoldenTensors& golden) {
  const auto at = golden.tensors.find("logits");
  if (at == golden.tensors.end() || at->second.shape.size() != 2) {
    throw Error(ErrorKind::golden, "it lacks the dataset logits of two dimensions");
  }
  RouteProblem p;
  p.tokens = at->second.shape[0], p.experts = at->second.shape[1];
  const MatrixView stored{format_of_attribute(golden.info.find("logits")->format), at->second.data.data(), p.tokens,
                          p.experts, p.experts};
  check_matrix(stored);
  p.logits.resize(static_cast<std::size_t>(p.tokens * p.experts));
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    stored.read_row(
        t, std::span(p.logits).subspan(static_cast<std::size_t>(t * p.experts), static_cast<std::size_t>(p.experts)));
  }
  if (const auto bias = golden.tensors.find("bias"); bias != golden.tensors.end()) {
    p.bias.resize(bias->second.data.size() / sizeof(float));
    std::memcpy(p.bias.data(), bias->second.data.data(), p.bias.size() * sizeof(float));
  }
  p.router.top_k = static_cast<std::int64_t>(number(golden.info, "top_k"));
  p.router.groups = static_cast<std::int64_t>(number(golden.info, "groups"));
  p.router.groups_kept = static_cast<std::int64_t>(number(golden.info, "groups_kept"));
  p.router.nan = attribute(golden.info.attributes, "nan") == "last" ? NanLogits::last : NanLogits::refuse;
  p.router.scale = std::bit_cast<float>(static_cast<std::uint32_t>(number(golden.info, "scale", 16)));
  return p;
}

// The router of the mirrored experts: what ties to the larger index gives.
Routes mirrored(const RouteProblem& p) {
  RouteProblem m = p;
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    std::reverse(m.logits.begin() + t * p.experts, m.logits.begin() + (t + 1) * p.experts);
  }
  std::reverse(m.bias.begin(), m.bias.end());
  Routes routes = route(m.given(), m.view());
  for (std::int32_t& e : routes.experts) e = static_cast<std::int32_t>(p.experts) - 1 - e;
  return routes;
}

Routes in_order_of_experts(Routes routes) {
  const auto k = static_cast<std::size_t>(routes.top_k);
  for (std::size_t at = 0; at < routes.experts.size(); at += k) {
    std::vector<std::pair<std::int32_t, float>> pairs;
    for (std::size_t i = at; i < at + k; ++i) pairs.emplace_back(routes.experts[i], routes.weights[i]);
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < k; ++i) {
      routes.experts[at + i] = pairs[i].first, routes.weights[at + i] = pairs[i].second;
    }
  }
  return routes;
}

std::vector<float> as_bf16(std::vector<float> values) {
  for (float& v : values) {
    const std::uint32_t code = encode(Format::bf16, v, Rounding::nearest_even, Overflow::non_saturate);
    v = static_cast<float>(decode(Format::bf16, code));
  }
  return values;
}

void add_choices(const std::shared_ptr<const RouteProblem>& p, bool weights, std::vector<Hypothesis>& all) {
  const auto add = [&](const std::string& text, auto answer) {
    all.push_back({text, [p, weights, answer] {
                     const Routes routes = answer(*p);
                     return weights ? dataset_bytes(routes.weights) : dataset_bytes(routes.experts);
                   }});
  };
  const auto changed = [&](const std::string& text, auto change) {
    add(text, [change](const RouteProblem& q) {
      RouteProblem other = q;
      change(other);
      return route(other.given(), other.view());
    });
  };
  add("ties to the larger index", [](const RouteProblem& q) { return mirrored(q); });
  add("experts in the order of their index, not best first",
      [](const RouteProblem& q) { return in_order_of_experts(route(q.given(), q.view())); });
  if (!p->bias.empty()) {
    changed("no bias", [](RouteProblem& q) { q.bias.clear(); });
    changed("a bias added to the logits, weights included", [](RouteProblem& q) {
      for (std::size_t i = 0; i < q.logits.size(); ++i) q.logits[i] += q.bias[i % q.bias.size()];
      q.bias.clear();
    });
  }
  if (p->router.groups > 0) changed("no groups", [](RouteProblem& q) { q.router.groups = q.router.groups_kept = 0; });
  if (p->router.scale != 1) changed("no scale", [](RouteProblem& q) { q.router.scale = 1; });
  const auto nan_as = [&](const std::string& text, float value) {
    changed(text, [value](RouteProblem& q) {
      std::replace_if(
          q.logits.begin(), q.logits.end(), [](float x) { return std::isnan(x); }, value);
    });
  };
  if (p->router.nan == NanLogits::last && !p->router.variant->packed) {
    nan_as("NaN taken for +Inf", std::numeric_limits<float>::infinity());
    nan_as("NaN taken for zero", 0);
  }
  changed("logits rounded to BF16 first", [](RouteProblem& q) { q.logits = as_bf16(q.logits); });
  if (!weights) return;
  add("weights rounded to BF16", [](const RouteProblem& q) {
    Routes routes = route(q.given(), q.view());
    routes.weights = as_bf16(routes.weights);
    return routes;
  });
}

void golden_layer_add_roundings(const GoldenTensors& golden, const std::shared_ptr<const RouteProblem>& p,
                                const TokenRounding& token_rounding, const DatasetInfo& dataset,
                                std::vector<Hypothesis>& all) {
  if (!dataset.name.starts_with("row_weight_")) return;
  const auto add = [&](const std::string& text, const TokenRounding& other, float scale) {
    all.push_back({text, [p, other, scale] {
                     Router router = p->given();
                     router.scale = scale;
                     RoundedTokens a = round_tokens(router, other, p->view());
                     a.row_weight.resize(static_cast<std::size_t>(a.offsets.back()));
                     return dataset_bytes(a.row_weight);
                   }});
  };
  if (token_rounding.rule != TokenRoundingRule::none) {
    TokenRounding other = token_rounding;
    other.renormalize = !token_rounding.renormalize;
    add(token_rounding.renormalize ? "raw scores, not divided by those that are kept"
                                   : "scores divided by those that are kept",
        other, p->router.scale);
  }
  if (p->router.scale != 1) add("no scale", token_rounding, 1);
  all.push_back({"weights rounded to BF16", [&golden, name = dataset.name] {
                   std::vector<float> right(golden.tensors.at(name).data.size() / sizeof(float));
                   if (!right.empty()) {
                     std::memcpy(right.data(), golden.tensors.at(name).data.data(), right.size() * sizeof(float));
                   }
                   return dataset_bytes(as_bf16(right));
                 }});
}

}  // namespace

std::vector<Hypothesis> route_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const std::string& kind = attribute(golden.info.attributes, "kind");
  std::vector<Hypothesis> all;
  if (kind != "route" && kind != "route_round") return all;
  auto problem = std::make_shared<RouteProblem>(problem_of_routes(golden));
  if (kind == "route") {
    const RouterVariant* variant =
        named_in(dataset.name, all_router_variants(), [](const RouterVariant& v) { return v.name; });
    if (variant == nullptr) return all;
    problem->router.variant = variant;
    add_choices(problem, dataset.name.starts_with("weights_"), all);
    return all;
  }
  const TokenRoundingRuleSpec* rule =
      named_in(dataset.name, all_token_rounding_rules(), [](const TokenRoundingRuleSpec& r) { return r.name; });
  if (rule == nullptr) return all;
  problem->router.variant = &router_variant_named(attribute(golden.info.attributes, "variant"));
  TokenRounding token_rounding;
  token_rounding.rule = rule->rule;
  token_rounding.tile = static_cast<std::int64_t>(number(golden.info, "tile"));
  token_rounding.capacity = static_cast<std::int64_t>(number(golden.info, "capacity"));
  token_rounding.renormalize = attribute(golden.info.attributes, "weights") != "raw";
  token_rounding.seed = number(golden.info, "seed");
  token_rounding.layer = static_cast<std::uint32_t>(number(golden.info, "layer"));
  token_rounding.step = number(golden.info, "step");
  golden_layer_add_roundings(golden, problem, token_rounding, dataset, all);
  return all;
}

std::vector<float> logits_gradient_of(const GoldenTensors& golden, std::span<const float> slot_gradient) {
  RouteProblem p = problem_of_routes(golden);
  p.router.variant = &router_variant_named(attribute(golden.info.attributes, "variant"));
  const Routes routes = route(p.given(), p.view());
  return route_backward(p.given(), p.view(), routes.experts, slot_gradient, p.router.top_k);
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
  GoldenProblem problem;
  bool codes = false;  // else scales
  bool turned = false;
  std::size_t width = 1;

  [[nodiscard]] Bytes in_order(const Bytes& bytes) const {
    const std::int64_t rows = codes ? problem.rows : problem.expected.scale_rows();
    const std::int64_t cols = codes ? problem.cols : problem.expected.scale_cols();
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
  const GoldenProblem& p = c.problem;
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
  GoldenProblem& p = c->problem;
  p.x = x.data, p.rows = x.shape.at(0), p.cols = x.shape.at(1);
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
              const GoldenProblem& p = c->problem;
              const MatrixView view{Format::bf16, own->data.data(), p.rows, p.cols, p.cols};
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
  for (Hypothesis& h : c->codes ? code_hypotheses(c->problem) : scale_hypotheses(c->problem))
    all.push_back({h.text, [c, bytes = std::move(h.bytes)] { return c->in_order(bytes()); }, h.derived});
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
