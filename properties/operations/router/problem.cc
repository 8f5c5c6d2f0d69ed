#include "properties/operations/router/problem.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kernels/candidate_route.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

TensorInfo integers(std::string name, int bits, std::int64_t rows, std::int64_t cols) {
  TensorInfo info{std::move(name), Format::fp32, rows, cols, 0, 0, false};
  info.integer_bits = bits;
  return info;
}

TensorInfo floats(std::string name, Format format, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), format, rows, cols, 0, 0, true};
}

std::vector<TensorInfo> outputs_of(const Case& c, std::int64_t slots) {
  const std::string& operation = c.variant.operation;
  const std::int64_t capacity = rows_capacity(c, slots);
  if (operation == "route") {
    return {integers("experts", 32, c.rows, c.top_k), floats("weights", Format::fp32, c.rows, c.top_k)};
  }
  if (operation == "route_round") {
    return {integers("chosen", 32, 1, c.cols),
            integers("offsets", 64, 1, c.cols + 1),
            integers("row_token", 32, 1, capacity),
            floats("row_weight", Format::fp32, 1, capacity),
            integers("token_offsets", 64, 1, c.rows + 1),
            integers("token_rows", 32, 1, capacity)};
  }
  if (operation == "route_metadata") {
    return {integers("counts", 32, 1, c.cols),       integers("offsets", 64, 1, c.cols + 1),
            integers("row_slot", 32, 1, capacity),   integers("row_token", 32, 1, capacity),
            integers("row_expert", 32, 1, capacity), integers("slot_row", 32, 1, slots)};
  }
  return {floats("gradient of the logits", c.variant.wide, c.rows, c.cols)};
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

CallTensor float_tensor(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  CallTensor t;
  t.dtype = Format::fp32;
  t.shape = std::move(shape);
  t.data = reinterpret_cast<const std::byte*>(values.data());
  t.bytes = values.size() * sizeof(float);
  return t;
}

CallTensor logits_tensor(const Problem& p) {
  const Case& c = p.c;
  const std::int64_t stride = p.input.view.row_stride;
  CallTensor t;
  t.dtype = c.variant.wide;
  t.shape = {c.rows, c.cols};
  t.row_stride = stride > c.cols ? stride : 0;
  t.data = p.input.bytes.data();
  const std::uint64_t width = c.variant.wide == Format::fp32 ? 4 : 2;
  // The gap behind the last row is not part of a strided tensor.
  if (c.elements() != 0) t.bytes = static_cast<std::uint64_t>((c.rows - 1) * stride + c.cols) * width;
  return t;
}

template <class T>
std::vector<T> values_of(const CallTensor& t) {
  return values_in<T>({t.data, t.bytes});
}

std::vector<std::byte> rounded_to(Format wide, const std::vector<float>& values) {
  if (wide == Format::fp32) return bytes_of(values);
  std::vector<std::uint16_t> words(values.size());
  std::transform(values.begin(), values.end(), words.begin(), [](float value) {
    return static_cast<std::uint16_t>(
        encode(Format::bf16, static_cast<double>(value), Rounding::nearest_even, Overflow::non_saturate));
  });
  return bytes_of(words);
}

}  // namespace

std::vector<Variant> askable_routes(const std::string& operation) {
  std::vector<Variant> all;
  Variant v;
  v.operation = operation, v.recipe = "", v.block = {0, 0};
  if (operation == "route_metadata") return {v};
  const bool chooses = operation != "route_backward";
  const bool rounds = operation == "route_round";
  const auto add_rules = [&] {
    if (!rounds) return all.push_back(v);
    for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
      v.rule = rule.name;
      for (const bool renormalize : {true, false}) {
        v.renormalize = renormalize;
        if (renormalize || rule.rule != TokenRoundingRule::none) all.push_back(v);  // whose weights are token choice's
      }
    }
  };
  for (const RouterVariant& router : all_router_variants()) {
    v.recipe = router.name;
    for (const Format wide : {Format::bf16, Format::fp32}) {
      v.wide = wide;
      for (const bool last : {false, true}) {
        v.nan_last = last;
        for (const int options : {0, 1, 2, 3}) {
          if (!chooses && options != 0) continue;
          v.bias = (options & 1) != 0, v.limited = (options & 2) != 0;
          add_rules();
        }
      }
    }
  }
  return all;
}

wire::Policy route_question(const Variant& v) {
  Case c;
  c.variant = v;
  c.groups = v.limited ? 1 : 0;
  c.tile = 0;
  wire::Policy policy;
  set_route_policy(c, policy);
  return policy;
}

void set_route_policy(const Case& c, wire::Policy& p) {
  const Variant& v = c.variant;
  p.is_route = 1;
  std::snprintf(p.recipe, sizeof(p.recipe), "%s", v.recipe.c_str());
  std::snprintf(p.rule, sizeof(p.rule), "%s", v.rule.c_str());
  p.rows = c.rows, p.cols = c.cols, p.threads = c.threads;
  p.top_k = c.top_k, p.groups = c.groups, p.groups_kept = c.groups_kept;
  p.nan = v.nan_last ? MXCHECK_NAN_LAST : MXCHECK_NAN_REFUSE;
  p.bias = v.bias ? 1 : 0;
  p.scale = c.scale;
  p.renormalize = v.renormalize ? 1 : 0;
  if (v.operation == "route_round" || v.operation == "route_metadata") p.tile = c.tile;
  if (v.operation != "route_round") return;
  p.capacity = c.capacity;
  // Of a question all three are 0, as those of a case without them.
  p.seed = c.seed, p.step = c.step, p.layer = c.layer;
}

bool is_route_option(const Case& c) { return c.scale != 1 || c.stride > c.cols || c.top_k > 16; }

Router router_of(const Problem& p) {
  const Case& c = p.c;
  Router router;
  router.variant = &router_variant_named(c.variant.recipe);
  router.top_k = c.top_k, router.groups = c.groups, router.groups_kept = c.groups_kept;
  router.nan = c.variant.nan_last ? NanLogits::last : NanLogits::refuse;
  router.scale = c.scale;
  if (c.variant.bias) router.bias = p.bias;
  return router;
}

TokenRounding token_rounding_of(const Case& c) {
  TokenRounding token_rounding;
  token_rounding.rule = token_rounding_rule_named(c.variant.rule);
  token_rounding.tile = c.tile, token_rounding.capacity = c.capacity;
  token_rounding.renormalize = c.variant.renormalize;
  token_rounding.seed = c.seed, token_rounding.layer = c.layer, token_rounding.step = c.step;
  return token_rounding;
}

std::int64_t rows_capacity(const Case& c, std::int64_t slots) {
  if (c.variant.operation == "route_metadata") return slots + c.cols * (c.tile - 1);
  if (c.variant.operation != "route_round") return 0;
  const TokenRoundingRule rule = token_rounding_rule_named(c.variant.rule);
  if (rule == TokenRoundingRule::expert_choice) return c.cols * std::min(c.capacity, c.rows);
  if (!rounds_to_tiles(rule)) return c.rows * c.top_k;
  return std::min(c.rows * c.cols, c.rows * c.top_k + c.cols * (c.tile - 1));
}

Problem make_route(const Case& c) {
  const std::string& operation = c.variant.operation;
  Problem p;
  p.c = c;
  std::int64_t slots = 0;
  if (operation == "route_metadata") {
    if (c.top_k == 0) p.token_offsets = expand_token_offsets(c);
    slots = c.top_k == 0 ? p.token_offsets.back() : c.rows * c.top_k;
    p.routes = expand_slot_experts(c, slots);
  } else {
    p.input = expand_logits(c);
    if (c.variant.bias) p.bias = expand_bias(c);
  }
  if (operation == "route_backward") {
    p.routes = expand_chosen_experts(c);
    p.gradient = expand_gradient(c, p.routes);
  }
  p.outputs = outputs_of(c, slots);
  return p;
}

Call route_call(const Problem& p) {
  const Case& c = p.c;
  const std::string& operation = c.variant.operation;
  Call call;
  call.operation = operation;
  call.policy = to_policy(c);
  if (reads_logits(c.variant)) call.inputs.push_back(logits_tensor(p));
  if (c.variant.bias) call.inputs.push_back(float_tensor(p.bias, {c.cols}));
  if (operation == "route_metadata" || operation == "route_backward") {
    call.inputs.push_back(index_tensor(p.routes));
    if (operation == "route_backward") call.inputs.back().shape = {c.rows, c.top_k};
  }
  if (operation == "route_metadata" && c.top_k == 0) call.inputs.push_back(offsets_tensor(p.token_offsets));
  if (operation == "route_backward") call.inputs.push_back(float_tensor(p.gradient, {c.rows, c.top_k}));
  for (const TensorInfo& info : p.outputs) {
    CallTensor t;
    t.dtype = info.format;
    t.is_index = info.integer_bits == 32, t.is_offsets = info.integer_bits == 64;
    const bool matrix = operation == "route" || operation == "route_backward";
    t.shape = matrix ? std::vector<std::int64_t>{info.rows, info.cols} : std::vector<std::int64_t>{info.cols};
    t.bytes = static_cast<std::uint64_t>(info.rows * info.cols) * bytes_of_element(info);
    call.outputs.push_back(t);
  }
  return call;
}

std::vector<ExpectedTensor> route_answer(const Problem& p) {
  const Case& c = p.c;
  const std::string& operation = c.variant.operation;
  std::vector<std::vector<std::byte>> bytes;
  if (operation == "route") {
    const Routes routes = route(router_of(p), p.input.view);
    bytes = {bytes_of(routes.experts), bytes_of(routes.weights)};
  } else if (operation == "route_round") {
    const RoundedTokens rows = round_tokens(router_of(p), token_rounding_of(c), p.input.view);
    bytes = {bytes_of(rows.chosen),     bytes_of(rows.offsets),       bytes_of(rows.row_token),
             bytes_of(rows.row_weight), bytes_of(rows.token_offsets), bytes_of(rows.token_rows)};
  } else if (operation == "route_metadata") {
    const RouteMetadata rows = route_metadata(p.routes, c.top_k, p.token_offsets, c.cols, c.tile);
    bytes = {bytes_of(rows.counts),    bytes_of(rows.offsets),    bytes_of(rows.row_slot),
             bytes_of(rows.row_token), bytes_of(rows.row_expert), bytes_of(rows.slot_row)};
  } else {
    bytes = {rounded_to(c.variant.wide, route_backward(router_of(p), p.input.view, p.routes, p.gradient, c.top_k))};
  }
  std::vector<ExpectedTensor> answer;
  for (std::size_t i = 0; i < bytes.size(); ++i) answer.push_back({p.outputs[i], std::move(bytes[i])});
  return answer;
}

Problem route_problem_of(const Call& call) {
  Problem p;
  Case& c = p.c;
  const wire::Policy& policy = call.policy;
  c.variant.operation = call.operation;
  c.variant.recipe = policy.recipe, c.variant.block = {0, 0};
  c.variant.nan_last = policy.nan == MXCHECK_NAN_LAST;
  c.variant.bias = policy.bias != 0, c.variant.limited = policy.groups != 0;
  c.variant.rule = policy.rule, c.variant.renormalize = policy.renormalize != 0;
  c.rows = policy.rows, c.cols = policy.cols;
  c.top_k = policy.top_k, c.groups = policy.groups, c.groups_kept = policy.groups_kept;
  c.tile = std::max<std::int64_t>(1, policy.tile), c.capacity = policy.capacity;
  c.scale = policy.scale, c.seed = policy.seed, c.step = policy.step, c.layer = policy.layer;
  std::size_t next = 0;
  const auto take = [&]() -> const CallTensor& {
    if (next == call.inputs.size()) throw Error(ErrorKind::internal, "a call of a router that no statement makes");
    return call.inputs[next++];
  };
  std::int64_t slots = 0;
  if (reads_logits(c.variant)) {
    const CallTensor& logits = take();
    c.variant.wide = logits.dtype;
    p.input.bytes.assign(logits.data, logits.data + logits.bytes);
    p.input.view = {logits.dtype, p.input.bytes.data(), c.rows, c.cols,
                    logits.row_stride != 0 ? logits.row_stride : c.cols};
    if (c.variant.bias) p.bias = values_of<float>(take());
    if (call.operation == "route_backward")
      p.routes = values_of<std::int32_t>(take()), p.gradient = values_of<float>(take());
  } else {
    p.routes = values_of<std::int32_t>(take());
    slots = static_cast<std::int64_t>(p.routes.size());
    if (c.top_k == 0) p.token_offsets = values_of<std::int64_t>(take());
  }
  p.outputs = outputs_of(c, slots);
  return p;
}

}  // namespace mxcheck
