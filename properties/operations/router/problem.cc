#include "properties/operations/router/problem.h"

#include <algorithm>
#include <utility>

#include "kernels/candidate_route.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/operations/router/operation.h"

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

// Rows that an output of route_round or route_metadata has room for.
std::int64_t rows_capacity(const Case& c, std::int64_t slots) {
  const RouteCase& own = route_case(c);
  if (c.variant.operation == "route_metadata") return slots + c.cols * (own.tile - 1);
  if (c.variant.operation != "route_round") return 0;
  const TokenRoundingRule rule = token_rounding_rule_named(route_of(c.variant).rule);
  if (rule == TokenRoundingRule::expert_choice) return c.cols * std::min(own.capacity, c.rows);
  if (!rounds_to_tiles(rule)) return c.rows * own.top_k;
  return std::min(c.rows * c.cols, c.rows * own.top_k + c.cols * (own.tile - 1));
}

std::vector<TensorInfo> outputs_of(const Case& c, std::int64_t slots) {
  const std::string& operation = c.variant.operation;
  const std::int64_t top_k = route_case(c).top_k;
  const std::int64_t capacity = rows_capacity(c, slots);
  if (operation == "route") {
    return {integers("experts", 32, c.rows, top_k), floats("weights", Format::fp32, c.rows, top_k)};
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
  return {floats("gradient of the logits", c.variant.dtype, c.rows, c.cols)};
}

CallTensor float_tensor(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  CallTensor t;
  t.dtype = Format::fp32;
  t.shape = std::move(shape);
  t.data = reinterpret_cast<const std::byte*>(values.data());
  t.bytes = values.size() * sizeof(float);
  return t;
}

std::vector<std::byte> rounded_to(Format dtype, const std::vector<float>& values) {
  if (dtype == Format::fp32) return to_bytes(values);
  std::vector<std::uint16_t> words(values.size());
  std::transform(values.begin(), values.end(), words.begin(), [](float value) {
    return static_cast<std::uint16_t>(
        encode(Format::bf16, static_cast<double>(value), Rounding::nearest_even, Overflow::non_saturate));
  });
  return to_bytes(words);
}

}  // namespace

RouteProblem::RouteProblem(const Case& from) : Problem(from) {
  const std::string& operation = from.variant.operation;
  if (operation == "route_metadata") {
    const std::int64_t top_k = route_case(from).top_k;
    if (top_k == 0) token_offsets = expand_token_offsets(from);
    routes = expand_slot_experts(from, top_k == 0 ? token_offsets.back() : from.rows * top_k);
  } else {
    input = expand_logits(from);
    if (route_of(from.variant).bias) bias = expand_bias(from);
  }
  if (operation == "route_backward") {
    routes = expand_chosen_experts(from);
    gradient = expand_gradient(from, routes);
  }
  describe_outputs();
}

RouteProblem::RouteProblem(const Call& call) : Problem(Case{}) {
  const auto policy = read<mxcheck_route_policy>(call.policy);
  c.variant.operation = call.operation;
  route_of(c.variant) = {policy.policy.recipe, policy.nan == MXCHECK_NAN_LAST, policy.bias != 0, policy.groups != 0,
                         policy.rule,          policy.renormalize != 0};
  c.rows = policy.policy.rows, c.cols = policy.policy.cols;
  c.threads = policy.policy.threads;
  c.seed = policy.seed;
  route_case(c) = {policy.top_k,    policy.groups, policy.groups_kept, std::max<std::int64_t>(1, policy.tile),
                   policy.capacity, policy.scale,  policy.step,        policy.layer};
  std::size_t next = 0;
  const auto take = [&]() -> const CallTensor& {
    if (next == call.inputs.size()) throw Error(ErrorKind::internal, "a call of a router that no statement makes");
    return call.inputs[next++];
  };
  const auto floats_of = [](const CallTensor& t) { return values_in<float>({t.data, t.bytes}); };
  const auto integers_of = [](const CallTensor& t) { return values_in<std::int32_t>({t.data, t.bytes}); };
  if (reads_logits(c.variant)) {
    const CallTensor& logits = take();
    c.variant.dtype = logits.dtype;
    input = {{logits.data, logits.data + logits.bytes},
             logits.dtype,
             c.rows,
             c.cols,
             logits.row_stride != 0 ? logits.row_stride : c.cols};
    if (policy.bias != 0) bias = floats_of(take());
    if (call.operation == "route_backward") routes = integers_of(take()), gradient = floats_of(take());
  } else {
    routes = integers_of(take());
    if (policy.top_k == 0) {
      const CallTensor& offsets = take();
      token_offsets = values_in<std::int64_t>({offsets.data, offsets.bytes});
    }
  }
  describe_outputs();
}

void RouteProblem::describe_outputs() {
  outputs = outputs_of(c, reads_logits(c.variant) ? 0 : static_cast<std::int64_t>(routes.size()));
}

Call RouteProblem::call() const {
  const std::string& operation = c.variant.operation;
  const std::int64_t top_k = route_case(c).top_k;
  Call call;
  call.operation = operation;
  call.policy = operation_named(operation).policy(c);
  if (reads_logits(c.variant))
    call.inputs.push_back(values_tensor(c.variant.dtype, c.rows, c.cols, input.stride, input.bytes));
  if (route_of(c.variant).bias) call.inputs.push_back(float_tensor(bias, {c.cols}));
  if (operation == "route_metadata" || operation == "route_backward") {
    call.inputs.push_back(index_tensor(routes));
    if (operation == "route_backward") call.inputs.back().shape = {c.rows, top_k};
  }
  if (operation == "route_metadata" && top_k == 0) call.inputs.push_back(offsets_tensor(token_offsets));
  if (operation == "route_backward") call.inputs.push_back(float_tensor(gradient, {c.rows, top_k}));
  for (const TensorInfo& info : outputs) {
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

Router RouteProblem::router() const {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  Router router;
  router.variant = &router_variant_named(v.router);
  router.top_k = own.top_k, router.groups = own.groups, router.groups_kept = own.groups_kept;
  router.nan = v.nan_last ? NanLogits::last : NanLogits::refuse;
  router.scale = own.scale;
  if (v.bias) router.bias = bias;
  return router;
}

TokenRounding RouteProblem::token_rounding() const {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  TokenRounding token_rounding;
  token_rounding.rule = token_rounding_rule_named(v.rule);
  token_rounding.tile = own.tile, token_rounding.capacity = own.capacity;
  token_rounding.renormalize = v.renormalize;
  token_rounding.seed = c.seed, token_rounding.layer = own.layer, token_rounding.step = own.step;
  return token_rounding;
}

RouteMetadata RouteProblem::metadata() const {
  return route_metadata(routes, route_case(c).top_k, token_offsets, c.cols, route_case(c).tile);
}

std::vector<std::vector<std::byte>> bytes_of(const Routes& r) { return {to_bytes(r.experts), to_bytes(r.weights)}; }
std::vector<std::vector<std::byte>> bytes_of(const RoundedTokens& a) {
  return {to_bytes(a.chosen),     to_bytes(a.offsets),       to_bytes(a.row_token),
          to_bytes(a.row_weight), to_bytes(a.token_offsets), to_bytes(a.token_rows)};
}
std::vector<std::vector<std::byte>> bytes_of(const RouteMetadata& m) {
  return {to_bytes(m.counts),    to_bytes(m.offsets),    to_bytes(m.row_slot),
          to_bytes(m.row_token), to_bytes(m.row_expert), to_bytes(m.slot_row)};
}

std::vector<ExpectedTensor> RouteProblem::answer() const {
  const std::string& operation = c.variant.operation;
  std::vector<std::vector<std::byte>> bytes;
  if (operation == "route") {
    bytes = bytes_of(route(router(), input.view()));
  } else if (operation == "route_round") {
    bytes = bytes_of(round_tokens(router(), token_rounding(), input.view()));
  } else if (operation == "route_metadata") {
    bytes = bytes_of(metadata());
  } else {
    bytes = {
        rounded_to(c.variant.dtype, route_backward(router(), input.view(), routes, gradient, route_case(c).top_k))};
  }
  std::vector<ExpectedTensor> answer;
  for (std::size_t i = 0; i < bytes.size(); ++i) answer.push_back({outputs[i], std::move(bytes[i])});
  return answer;
}

std::vector<SavedTensor> RouteProblem::saved() const {
  std::vector<SavedTensor> saved;
  const auto add = [&](const char* name, TensorInfo info, std::vector<std::byte> bytes) {
    const bool is_vector = info.rows == 1 && std::string_view(name) != "x";
    if (!bytes.empty()) saved.push_back({name, std::move(info), std::move(bytes), is_vector});
  };
  const auto count = [](const auto& values) { return static_cast<std::int64_t>(values.size()); };
  add("x", floats("x", input.dtype, input.rows, input.stride), input.bytes);
  add("bias", floats("bias", Format::fp32, 1, count(bias)), to_bytes(bias));
  add("routes", integers("routes", 32, 1, count(routes)), to_bytes(routes));
  add("token_offsets", integers("token_offsets", 64, 1, count(token_offsets)), to_bytes(token_offsets));
  add("gradient", floats("gradient", Format::fp32, 1, count(gradient)), to_bytes(gradient));
  return saved;
}

}  // namespace mxcheck
