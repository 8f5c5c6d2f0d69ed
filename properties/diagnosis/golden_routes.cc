#include "properties/diagnosis/golden_routes.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/diagnosis/golden_problem.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
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

void add_roundings(const GoldenTensors& golden, const std::shared_ptr<const RouteProblem>& p,
                   const TokenRounding& token_rounding, const DatasetInfo& dataset, std::vector<Hypothesis>& all) {
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
  add_roundings(golden, problem, token_rounding, dataset, all);
  return all;
}

std::vector<float> logits_gradient_of(const GoldenTensors& golden, std::span<const float> slot_gradient) {
  RouteProblem p = problem_of_routes(golden);
  p.router.variant = &router_variant_named(attribute(golden.info.attributes, "variant"));
  const Routes routes = route(p.given(), p.view());
  return route_backward(p.given(), p.view(), routes.experts, slot_gradient, p.router.top_k);
}

}  // namespace mxcheck
