#include "properties/operations/router/definitions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/operations/router/faults.h"

namespace mxcheck {
namespace {

using Answers = std::vector<Bytes>;

std::uint32_t bf16_word(float value) {
  return encode(Format::bf16, static_cast<double>(value), Rounding::nearest_even, Overflow::non_saturate);
}
float as_bf16(float value) { return static_cast<float>(decode(Format::bf16, bf16_word(value))); }
std::vector<float> as_bf16(std::vector<float> values) {
  for (float& value : values) value = as_bf16(value);
  return values;
}

// "top-k of the softmax over all experts (lm-engine, MegaBlocks)": who has the variant.
std::string source_of(const RouterVariant& variant) {
  const std::string_view meaning = variant.meaning;
  const std::size_t open = meaning.rfind('(');
  return meaning.ends_with(')') ? std::string(meaning.substr(open + 1, meaning.size() - open - 2)) : "";
}

std::string source_of(TokenRoundingRule rule) {
  if (rule == TokenRoundingRule::nr_f) return "SonicMoE, algorithm 4";
  return rule == TokenRoundingRule::nr_even ? "SonicMoE's benchmark" : "";
}

Routes in_order_of_experts(Routes routes) {
  const auto k = static_cast<std::size_t>(routes.top_k);
  for (std::size_t at = 0; at < routes.experts.size(); at += k) {
    std::vector<std::pair<std::int32_t, float>> pairs;
    for (std::size_t i = at; i < at + k; ++i) pairs.emplace_back(routes.experts[i], routes.weights[i]);
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < k; ++i)
      routes.experts[at + i] = pairs[i].first, routes.weights[at + i] = pairs[i].second;
  }
  return routes;
}

// The logits in FP32, each changed.
using OtherLogit = std::function<float(float logit, std::size_t expert)>;
std::vector<float> other_values(const MatrixView& x, const OtherLogit& change) {
  std::vector<float> values(static_cast<std::size_t>(x.rows * x.cols));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const auto row = std::span(values).subspan(static_cast<std::size_t>(t * x.cols), static_cast<std::size_t>(x.cols));
    x.read_row(t, row);
    for (std::size_t e = 0; e < row.size(); ++e) row[e] = change(row[e], e);
  }
  return values;
}

// None for what a variant, a rule or a loss does not take.
std::function<Answers()> where_taken(std::function<Answers()> make) {
  return [make = std::move(make)] {
    try {
      return make();
    } catch (const Error&) {
      return Answers();
    }
  };
}

// Gradients in BF16 that are cut.
Bytes cut_to_bf16(const std::vector<float>& gradient) {
  std::vector<std::uint16_t> words;
  for (const float g : gradient) {
    const Rounding rounding = std::isnan(g) ? Rounding::nearest_even : Rounding::toward_zero;
    words.push_back(
        static_cast<std::uint16_t>(encode(Format::bf16, static_cast<double>(g), rounding, Overflow::non_saturate)));
  }
  return to_bytes(words);
}

// Rows of an operation that reads logits.
class RouterRows {
 public:
  using Answer = std::function<Answers(const Router&, const MatrixView&)>;

  RouterRows(const Router& router, const MatrixView& logits, Answer answer)
      : router_(router), logits_(logits), answer_(std::move(answer)) {}

  void add(std::string name, std::function<Answers()> make, std::string source = {}) {
    all_.push_back(definition_of_all(std::move(name), where_taken(std::move(make)), memo_, std::move(source)));
  }
  // The answer of another router.
  void changed(std::string name, const std::function<void(Router&)>& change, std::string source = {}) {
    Router other = router_;
    change(other);
    add(
        std::move(name), [answer = answer_, other, x = logits_] { return answer(other, x); }, std::move(source));
  }
  void variant(const RouterVariant& v, std::string name) {
    changed(
        std::move(name), [&](Router& r) { r.variant = &v; }, source_of(v));
  }
  void other_variants() {
    for (const RouterVariant& v : all_router_variants()) {
      if (&v != router_.variant) variant(v, "variant " + std::string(v.name));
    }
  }
  // Slips of the reference's own router: with less of it, or on other logits.
  void inputs();
  void faults(const std::function<Answers(const RouterFaults&)>& model);
  Table take() { return std::move(all_); }

 private:
  void other_logits(std::string name, const Router& router, const OtherLogit& change);

  Router router_;
  MatrixView logits_;
  Answer answer_;
  std::shared_ptr<AnswerMemo> memo_ = std::make_shared<AnswerMemo>();
  Table all_;
};

void RouterRows::other_logits(std::string name, const Router& router, const OtherLogit& change) {
  add(std::move(name), [answer = answer_, router, x = logits_, change] {
    const std::vector<float> values = other_values(x, change);
    return answer(router, {Format::fp32, std::as_bytes(std::span(values)).data(), x.rows, x.cols, x.cols});
  });
}

void RouterRows::inputs() {
  if (!router_.bias.empty()) {
    changed("no bias", [](Router& r) { r.bias = {}; });
    Router plain = router_;
    plain.bias = {};
    other_logits("a bias added to the logits, weights included", plain,
                 [bias = router_.bias](float x, std::size_t e) { return x + bias[e]; });
  }
  if (router_.groups != 0) changed("no groups", [](Router& r) { r.groups = r.groups_kept = 0; });
  if (router_.nan == NanLogits::last && !router_.variant->packed) {
    for (const auto& [name, value] : {std::pair("NaN taken for +Inf", std::numeric_limits<float>::infinity()),
                                      std::pair("NaN taken for zero", 0.0F)}) {
      other_logits(name, router_, [value = value](float x, std::size_t) { return std::isnan(x) ? value : x; });
    }
  }
  if (logits_.dtype != Format::bf16) {
    other_logits("logits rounded to BF16 first", router_, [](float x, std::size_t) { return as_bf16(x); });
  }
}

void RouterRows::faults(const std::function<Answers(const RouterFaults&)>& model) {
  for (const RouterFault& fault : all_router_faults()) {
    RouterFaults one;
    one.*fault.on = true;
    add(std::string(fault.text), [model, one] { return model(one); });
  }
}

RouterRows rows_of_choice(const Router& router, const MatrixView& logits) {
  return {router, logits, [](const Router& r, const MatrixView& x) { return bytes_of(route(r, x)); }};
}

void add_choice_slips(RouterRows& rows, const Router& router, const MatrixView& logits) {
  rows.faults([router, logits](const RouterFaults& faults) { return bytes_of(model_routes(router, logits, faults)); });
  rows.inputs();
  rows.add("experts in the order of their index, not best first",
           [router, logits] { return bytes_of(in_order_of_experts(route(router, logits))); });
  rows.add("weights rounded to BF16", [router, logits] {
    Routes routes = route(router, logits);
    routes.weights = as_bf16(std::move(routes.weights));
    return bytes_of(routes);
  });
}

}  // namespace

Table router_variants(const Router& router, const MatrixView& logits) {
  RouterRows rows = rows_of_choice(router, logits);
  for (const RouterVariant& v : all_router_variants()) rows.variant(v, std::string(v.name));
  return rows.take();
}

Table choice_slips(const Router& router, const MatrixView& logits) {
  RouterRows rows = rows_of_choice(router, logits);
  add_choice_slips(rows, router, logits);
  return rows.take();
}

Table choice_definitions(const Router& router, const MatrixView& logits) {
  RouterRows rows = rows_of_choice(router, logits);
  rows.other_variants();
  add_choice_slips(rows, router, logits);
  return rows.take();
}

Table rounding_definitions(const Router& router, const TokenRounding& rounding, const MatrixView& logits) {
  RouterRows rows(router, logits,
                  [rounding](const Router& r, const MatrixView& x) { return bytes_of(round_tokens(r, rounding, x)); });
  rows.other_variants();
  const auto changed = [&](const std::string& name, auto TokenRounding::*field, auto value,
                           const std::string& source = {}) {
    if (rounding.*field == value) return;
    TokenRounding other = rounding;
    other.*field = value;
    rows.add(
        name, [=] { return bytes_of(round_tokens(router, other, logits)); }, source);
  };
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    changed("rule " + std::string(rule.name), &TokenRounding::rule, rule.rule, source_of(rule.rule));
  }
  changed("raw scores for weights", &TokenRounding::renormalize, false);
  changed("scores divided by those that are kept", &TokenRounding::renormalize, true);
  changed("a seed of 0", &TokenRounding::seed, std::uint64_t{0});
  changed("a step of 0", &TokenRounding::step, std::uint64_t{0});
  changed("a step of 32 bits", &TokenRounding::step, rounding.step & 0xFFFFFFFF);
  changed("a layer of 0", &TokenRounding::layer, std::uint32_t{0});
  rows.faults([=](const RouterFaults& faults) { return bytes_of(model_rows(router, rounding, logits, faults)); });
  rows.inputs();
  rows.add("weights rounded to BF16", [=] {
    RoundedTokens a = round_tokens(router, rounding, logits);
    a.row_weight = as_bf16(std::move(a.row_weight));
    return bytes_of(a);
  });
  return rows.take();
}

Table metadata_definitions(std::span<const std::int32_t> slot_experts, std::int64_t width,
                           std::span<const std::int64_t> token_offsets, std::int64_t experts, std::int64_t tile) {
  const auto descending = [=] {
    return bytes_of(metadata_descending(slot_experts, width, token_offsets, experts, tile));
  };
  const auto fault = std::ranges::find(all_router_faults(), &RouterFaults::descending, &RouterFault::on);
  const auto memo = std::make_shared<AnswerMemo>();
  Table table{definition_of_all(std::string(fault->text), descending, memo)};
  const auto changed = [&](const char* name, auto change) {
    table.push_back(definition_of_all(
        name,
        [=] {
          RouteMetadata m = route_metadata(slot_experts, width, token_offsets, experts, tile);
          change(m);
          return bytes_of(m);
        },
        memo));
  };
  changed("the last expert's rows not padded to a tile", [tile](RouteMetadata& m) {
    if (!m.counts.empty()) m.offsets.back() -= (tile - m.counts.back() % tile) % tile;
  });
  changed("experts' rows not padded to tiles", [=](RouteMetadata& m) {
    const std::size_t capacity = m.row_slot.size();
    m = route_metadata(slot_experts, width, token_offsets, experts, 1);
    for (std::vector<std::int32_t>* rows : {&m.row_slot, &m.row_token, &m.row_expert}) rows->resize(capacity, -1);
  });
  changed("padding of 0 in place of -1", [](RouteMetadata& m) {
    for (std::vector<std::int32_t>* rows : {&m.row_slot, &m.row_token, &m.row_expert})
      std::ranges::replace(*rows, -1, 0);
  });
  changed("the number of a slot in place of its token", [](RouteMetadata& m) { m.row_token = m.row_slot; });
  changed("dropped routes in row 0", [](RouteMetadata& m) { std::ranges::replace(m.slot_row, -1, 0); });
  return table;
}

Table gradient_definitions(const Router& router, const MatrixView& logits, std::span<const std::int32_t> experts,
                           std::span<const float> gradient) {
  RouterRows rows(router, logits, [=, dtype = logits.dtype](const Router& r, const MatrixView& x) {
    return gradient_bytes(dtype, route_backward(r, x, experts, gradient, r.top_k));
  });
  rows.other_variants();
  rows.inputs();
  if (logits.dtype == Format::bf16) {
    rows.add("gradients cut to BF16, not rounded", [=]() -> Answers {
      return {cut_to_bf16(route_backward(router, logits, experts, gradient, router.top_k))};
    });
  }
  if (router.scale != 1) rows.changed("no scale", [](Router& r) { r.scale = 1; });
  return rows.take();
}

RouterLoss loss_of(const RouterLossInputs& of) {
  return of.counts.empty() ? router_z_loss(of.logits, of.coefficient)
                           : load_balancing_loss(of.logits, of.counts, of.coefficient);
}

Table loss_definitions(const RouterLossInputs& of) {
  Table rows;
  const auto memo = std::make_shared<AnswerMemo>();
  const Format dtype = of.logits.dtype;
  const auto add = [&](std::string name, std::function<Answers()> answer, std::string source = {}) {
    rows.push_back(definition_of_all(std::move(name), where_taken(std::move(answer)), memo, std::move(source)));
  };
  for (const LossFault& fault : all_loss_faults()) {
    if (!fault.is_of(of)) continue;
    LossFaults one;
    one.*fault.on = true;
    add(
        std::string(fault.text), [=] { return bytes_of(model_loss(of, one), dtype); }, std::string(fault.source));
  }
  if (dtype == Format::bf16) {
    add("gradients cut to BF16, not rounded", [=]() -> Answers {
      const RouterLoss loss = loss_of(of);
      return {bytes_of(loss, dtype)[0], cut_to_bf16(loss.gradient)};
    });
  } else {
    add("logits rounded to BF16 first", [=] {
      const std::vector<float> rounded = other_values(of.logits, [](float x, std::size_t) { return as_bf16(x); });
      const std::byte* data = std::as_bytes(std::span(rounded)).data();
      return bytes_of(
          loss_of({{Format::fp32, data, of.logits.rows, of.logits.cols, of.logits.cols}, of.counts, of.coefficient}),
          dtype);
    });
  }
  return rows;
}

std::vector<Bytes> bytes_of(const RouterLoss& loss, Format dtype) {
  return {to_bytes(std::vector<float>{loss.value}), gradient_bytes(dtype, loss.gradient)[0]};
}
std::vector<Bytes> bytes_of(const Routes& r) { return {to_bytes(r.experts), to_bytes(r.weights)}; }
std::vector<Bytes> bytes_of(const RoundedTokens& a) {
  return {to_bytes(a.chosen),     to_bytes(a.offsets),       to_bytes(a.row_token),
          to_bytes(a.row_weight), to_bytes(a.token_offsets), to_bytes(a.token_rows)};
}
std::vector<Bytes> bytes_of(const RouteMetadata& m) {
  return {to_bytes(m.counts),    to_bytes(m.offsets),    to_bytes(m.row_slot),
          to_bytes(m.row_token), to_bytes(m.row_expert), to_bytes(m.slot_row)};
}

std::vector<Bytes> gradient_bytes(Format dtype, const std::vector<float>& gradient) {
  if (dtype == Format::fp32) return {to_bytes(gradient)};
  std::vector<std::uint16_t> words(gradient.size());
  std::transform(gradient.begin(), gradient.end(), words.begin(),
                 [](float value) { return static_cast<std::uint16_t>(bf16_word(value)); });
  return {to_bytes(words)};
}

}  // namespace mxcheck
