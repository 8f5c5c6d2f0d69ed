// A host library of routers whose answers are the reference's, so that the gate's statements about routers run against
// something that is right; and, named by ROUTE_FAULT, the faults that kernels make: those of
// properties/operations/router/faults.h, of losses too, and those below.

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/candidate_route.h"
#include "numerics/format/codec.h"
#include "properties/operations/router/faults.h"
#include "tests/libraries/right/right_call.h"

namespace {

using mxcheck::Format, mxcheck::RoundedTokens, mxcheck::RouteMetadata, mxcheck::Router, mxcheck::Routes;
using mxcheck::TokenRounding;

std::string_view fault() { return right::variable("ROUTE_FAULT"); }

mxcheck::RouterFaults faults() {
  mxcheck::RouterFaults one;
  for (const mxcheck::RouterFault& modelled : mxcheck::all_router_faults()) {
    if (modelled.name == fault()) one.*modelled.on = true;
  }
  return one;
}

mxcheck::LossFaults loss_faults() {
  mxcheck::LossFaults one;
  for (const mxcheck::LossFault& modelled : mxcheck::all_loss_faults()) {
    if (modelled.name == fault()) one.*modelled.on = true;
  }
  return one;
}

bool is_of_model() {
  const auto all = mxcheck::all_router_faults();
  return std::any_of(all.begin(), all.end(), [](const auto& modelled) { return modelled.name == fault(); });
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// The tensors of a call: taken one after the other, each with the type and shape that it must have.
class Tensors {
 public:
  explicit Tensors(const mxcheck_call& call) : call_(call) {}

  const DLTensor& input(int code, int bits, const std::vector<std::int64_t>& shape) {
    require(in_ < call_.num_inputs, "an input is missing");
    return checked(call_.inputs[in_++], code, bits, shape);
  }
  template <class T>
  T* output(int code, const std::vector<std::int64_t>& shape) {
    require(out_ < call_.num_outputs, "an output is missing");
    const DLTensor& t = checked(call_.outputs[out_++], code, 8 * static_cast<int>(sizeof(T)), shape);
    return reinterpret_cast<T*>(const_cast<std::byte*>(data_of(t)));
  }
  void done() const {
    require(in_ == call_.num_inputs && out_ == call_.num_outputs, "there are more tensors than the operation has");
  }
  [[nodiscard]] const DLTensor* next() const { return in_ < call_.num_inputs ? &call_.inputs[in_] : nullptr; }

  static const std::byte* data_of(const DLTensor& t) { return static_cast<const std::byte*>(t.data) + t.byte_offset; }

 private:
  static const DLTensor& checked(const DLTensor& t, int code, int bits, const std::vector<std::int64_t>& shape) {
    require(t.ndim == static_cast<int>(shape.size()), "a tensor has another rank");
    require(t.dtype.code == code && t.dtype.bits == bits, "a tensor has another type");
    for (std::size_t i = 0; i < shape.size(); ++i) require(t.shape[i] == shape[i], "a tensor has another shape");
    return t;
  }
  const mxcheck_call& call_;
  int in_ = 0, out_ = 0;
};

template <class T>
std::vector<T> values_of(const DLTensor& t) {
  std::int64_t count = 1;
  for (int i = 0; i < t.ndim; ++i) count *= t.shape[i];
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count != 0) std::memcpy(values.data(), Tensors::data_of(t), values.size() * sizeof(T));
  return values;
}

template <class T, class U>
void write(T* to, const std::vector<U>& from) {
  static_assert(sizeof(T) == sizeof(U));
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(U));
}

const mxcheck_route_policy& policy_of(const mxcheck_policy* p) {
  require(p != nullptr && p->size >= sizeof(mxcheck_route_policy), "no policy of a router");
  return *reinterpret_cast<const mxcheck_route_policy*>(p);
}

// The common part of the operations; bias is kept by the caller.
struct Problem {
  explicit Problem(const mxcheck_call& call, bool gaps = true) : p(policy_of(call.policy)), tensors(call) {
    const char* problem = right::problem_of(call, sizeof(mxcheck_route_policy), gaps);
    require(problem == nullptr, problem);
    require(p.policy.layout == MXCHECK_COMPACT && p.policy.block_rows == 0 && p.policy.block_cols == 0 &&
                *p.policy.format == '\0',
            "a router has neither a format nor blocks");
    require(p.top_k >= 0 && p.top_k <= INT32_MAX, "top_k counts in int32");
    require((p.bias == 0 || p.bias == 1) && (p.renormalize == 0 || p.renormalize == 1), "flags are 0 or 1");
    require(p.groups != 0 || p.groups_kept == 0, "no groups are kept where there are none");
    require(p.nan == MXCHECK_NAN_REFUSE || p.nan == MXCHECK_NAN_LAST, "nan is refuse or last");
  }
  void read_matrix() {
    require(tensors.next() != nullptr, "the logits are missing");
    const DLTensor& t = *tensors.next();
    const bool bf16 = t.dtype.code == kDLBfloat;
    (void)tensors.input(bf16 ? kDLBfloat : kDLFloat, bf16 ? 16 : 32, {p.policy.rows, p.policy.cols});
    const std::int64_t stride = t.strides != nullptr ? t.strides[0] : p.policy.cols;
    logits = {bf16 ? Format::bf16 : Format::fp32, Tensors::data_of(t), p.policy.rows, p.policy.cols, stride};
  }
  void read_logits(bool has_bias) {
    read_matrix();
    if (has_bias && p.bias != 0) bias = values_of<float>(tensors.input(kDLFloat, 32, {p.policy.cols}));
    router.variant = &mxcheck::router_variant_named(p.policy.recipe);
    router.top_k = p.top_k, router.groups = p.groups, router.groups_kept = p.groups_kept;
    router.nan = p.nan == MXCHECK_NAN_LAST ? mxcheck::NanLogits::last : mxcheck::NanLogits::refuse;
    router.scale = p.scale, router.bias = bias;
    require(p.top_k >= 1 && p.top_k <= p.policy.cols, "top_k is 1 to the number of experts");
    const bool below = std::ranges::all_of(bias, [](float b) { return b < -1; });
    if (fault() == "bias_below_minus_one_lost" && p.top_k >= 9 && below) router.bias = {};
    if (fault() == "nan_accepted" && !router.variant->packed) router.nan = mxcheck::NanLogits::last;
    if (fault() == "wrong_set" && router.variant->name == "topk-softmax")
      router.variant = &mxcheck::router_variant_named("softmax-topk");
    if (fault() == "not_renormalized" && router.variant->name == "softmax-topk-renorm")
      router.variant = &mxcheck::router_variant_named("softmax-topk");
  }
  const mxcheck_route_policy& p;
  Tensors tensors;
  mxcheck::MatrixView logits;
  std::vector<float> bias;
  Router router;
};

// The router's answer; under packed_order: that of packed values, where those are finite.
template <class Run>
auto answer(Router router, Run run) {
  if (fault() != "packed_order" || router.variant->name != "topk-softmax") return run(router);
  try {
    Router other = router;
    other.variant = &mxcheck::router_variant_named("topk-softmax-packed");
    return run(other);
  } catch (const std::exception&) {
    return run(router);
  }
}

void run_route(const mxcheck_call& call) {
  Problem x(call);
  x.read_logits(true);
  auto* experts = x.tensors.output<std::int32_t>(kDLInt, {x.p.policy.rows, x.p.top_k});
  auto* weights = x.tensors.output<float>(kDLFloat, {x.p.policy.rows, x.p.top_k});
  x.tensors.done();
  Routes routes = answer(x.router, [&](const Router& router) { return route(router, x.logits); });
  if (is_of_model()) routes = model_routes(x.router, x.logits, faults());
  const auto width = static_cast<std::size_t>(x.p.top_k);
  for (std::size_t i = 0; i < routes.experts.size(); ++i) {
    const bool last = i % width == width - 1 && width > 1;
    if (fault() == "top_k_minus_one" && last) routes.experts[i] = 0, routes.weights[i] = 0;
    if (fault() == "duplicate_route" && last) routes.experts[i] = routes.experts[i - 1];
    if (fault() == "rows_depend" && i >= 64 * width) routes.weights[i] = routes.weights[i % width];
  }
  write(experts, routes.experts), write(weights, routes.weights);
}

RoundedTokens rows_of(const Problem& x) {
  TokenRounding token_rounding;
  token_rounding.rule = mxcheck::token_rounding_rule_named(x.p.rule);
  token_rounding.tile = rounds_to_tiles(token_rounding.rule) ? x.p.tile : 1;
  token_rounding.capacity = x.p.capacity, token_rounding.renormalize = x.p.renormalize != 0;
  token_rounding.seed = x.p.seed, token_rounding.step = x.p.step, token_rounding.layer = x.p.layer;
  require(token_rounding.tile >= 1 && token_rounding.capacity >= 0, "tile is 1 or more, capacity 0 or more");
  if (fault() == "half_even" && token_rounding.rule == mxcheck::TokenRoundingRule::nr_f)
    token_rounding.rule = mxcheck::TokenRoundingRule::nr_even;
  if (fault() == "layer_ignored") token_rounding.layer = 0;
  if (fault() == "step_cut") token_rounding.step &= 0xFFFFFFFF;
  RoundedTokens right =
      answer(x.router, [&](const Router& router) { return round_tokens(router, token_rounding, x.logits); });
  return is_of_model() ? model_rows(x.router, token_rounding, x.logits, faults()) : right;
}

void run_round(const mxcheck_call& call) {
  Problem x(call);
  x.read_logits(true);
  const std::int64_t tokens = x.p.policy.rows;
  const std::int64_t experts = x.p.policy.cols;
  RoundedTokens a = rows_of(x);
  const auto capacity = static_cast<std::int64_t>(a.row_token.size());
  auto* chosen = x.tensors.output<std::int32_t>(kDLInt, {experts});
  auto* offsets = x.tensors.output<std::int64_t>(kDLInt, {experts + 1});
  auto* row_token = x.tensors.output<std::int32_t>(kDLInt, {capacity});
  auto* row_weight = x.tensors.output<float>(kDLFloat, {capacity});
  auto* token_offsets = x.tensors.output<std::int64_t>(kDLInt, {tokens + 1});
  auto* token_rows = x.tensors.output<std::int32_t>(kDLInt, {capacity});
  x.tensors.done();
  const auto rows = static_cast<std::size_t>(a.offsets.back());
  if (fault() == "count_off_by_one") --a.chosen.back();
  if (fault() == "tail_zero") std::fill(a.row_token.begin() + a.offsets.back(), a.row_token.end(), 0);
  if (fault() == "token_offsets_off" && tokens > 1) ++a.token_offsets[1];
  if (fault() == "row_twice" && rows > 1) a.token_rows[rows - 1] = a.token_rows[rows - 2];
  write(chosen, a.chosen), write(offsets, a.offsets), write(row_token, a.row_token);
  write(row_weight, a.row_weight), write(token_offsets, a.token_offsets), write(token_rows, a.token_rows);
}

void run_metadata(const mxcheck_call& call) {
  Problem x(call, false);
  const mxcheck_route_policy& p = x.p;
  require(p.tile >= 1 && p.tile <= INT32_MAX, "tile is 1 or more, and counts in int32");
  const DLTensor* first = x.tensors.next();
  require(first != nullptr && first->ndim == 1, "slot_experts is missing");
  const std::int64_t slots = p.top_k == 0 ? first->shape[0] : p.policy.rows * p.top_k;
  auto slot_experts = values_of<std::int32_t>(x.tensors.input(kDLInt, 32, {slots}));
  std::vector<std::int64_t> token_offsets;
  if (p.top_k == 0) token_offsets = values_of<std::int64_t>(x.tensors.input(kDLInt, 64, {p.policy.rows + 1}));
  const std::int64_t experts = p.policy.cols;
  const std::int64_t capacity = slots + experts * (p.tile - 1);
  auto* counts = x.tensors.output<std::int32_t>(kDLInt, {experts});
  auto* offsets = x.tensors.output<std::int64_t>(kDLInt, {experts + 1});
  std::int32_t* of_rows[3];
  for (std::int32_t*& rows : of_rows) rows = x.tensors.output<std::int32_t>(kDLInt, {capacity});
  auto* slot_row = x.tensors.output<std::int32_t>(kDLInt, {slots});
  x.tensors.done();
  if (fault() == "bad_experts_dropped") {
    for (std::int32_t& e : slot_experts) e = e >= experts ? -1 : e;
  }
  RouteMetadata m = mxcheck::route_metadata(slot_experts, p.top_k, token_offsets, experts, p.tile);
  if (fault() == "descending") m = mxcheck::metadata_descending(slot_experts, p.top_k, token_offsets, experts, p.tile);
  if (fault() == "padding_zero") std::replace(m.row_token.begin(), m.row_token.end(), -1, 0);
  if (fault() == "no_tiles")
    m.offsets.back() -=
        m.offsets.back() % p.tile == 0 && p.tile > 1 && !m.counts.empty() && m.counts.back() % p.tile != 0
            ? p.tile - m.counts.back() % p.tile
            : 0;
  write(counts, m.counts), write(offsets, m.offsets), write(slot_row, m.slot_row);
  write(of_rows[0], m.row_slot), write(of_rows[1], m.row_token), write(of_rows[2], m.row_expert);
}

// The gradient of the logits as an output, of their type.
struct Gradient {
  explicit Gradient(Problem& x) {
    const std::vector<std::int64_t> shape{x.p.policy.rows, x.p.policy.cols};
    const bool bf16 = x.logits.dtype == Format::bf16;
    words = bf16 ? x.tensors.output<std::uint16_t>(kDLBfloat, shape) : nullptr;
    floats = bf16 ? nullptr : x.tensors.output<float>(kDLFloat, shape);
  }
  std::uint16_t* words;
  float* floats;
};

void write_gradient(const Gradient& to, const std::vector<float>& dx, std::string_view cut) {
  if (to.words == nullptr) return write(to.floats, dx);
  const auto rounding = fault() == cut ? mxcheck::Rounding::toward_zero : mxcheck::Rounding::nearest_even;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    to.words[i] = static_cast<std::uint16_t>(
        mxcheck::encode(Format::bf16, static_cast<double>(dx[i]), rounding, mxcheck::Overflow::non_saturate));
  }
}

void run_backward(const mxcheck_call& call) {
  Problem x(call);
  x.read_logits(false);
  const std::int64_t tokens = x.p.policy.rows;
  const auto experts = values_of<std::int32_t>(x.tensors.input(kDLInt, 32, {tokens, x.p.top_k}));
  auto gradient = values_of<float>(x.tensors.input(kDLFloat, 32, {tokens, x.p.top_k}));
  const Gradient to(x);
  x.tensors.done();
  if (fault() == "scale_forgotten") x.router.scale = 1;
  if (fault() == "sum_left_out" && x.router.variant->name == "softmax-topk-renorm")
    x.router.variant = &mxcheck::router_variant_named("softmax-topk");
  write_gradient(to, route_backward(x.router, x.logits, experts, gradient, x.p.top_k), "gradient_cut");
}

template <bool kBalance>
void run_loss(const mxcheck_call& call) {
  Problem x(call);
  x.read_matrix();
  std::vector<std::int32_t> counts;
  if (kBalance) counts = values_of<std::int32_t>(x.tensors.input(kDLInt, 32, {x.p.policy.cols}));
  auto* value = x.tensors.output<float>(kDLFloat, {1});
  const Gradient to(x);
  x.tensors.done();
  if (fault() == "idle_experts_accepted" && x.p.policy.rows > 0 && kBalance &&
      std::ranges::all_of(counts, [](std::int32_t count) { return count == 0; }))
    counts[0] = 1;
  const mxcheck::RouterLossInputs of{x.logits, counts, x.p.scale};
  mxcheck::RouterLoss loss = loss_of(of);
  // Answers a call that is not refused.
  if (loss_faults() != mxcheck::LossFaults()) loss = model_loss(of, loss_faults());
  *value = fault() == "loss_added_to" ? *value + loss.value : loss.value;
  write_gradient(to, loss.gradient, "loss_gradient_cut");
}

template <void (*kRun)(const mxcheck_call&)>
mxcheck_status run(const mxcheck_call* call) {
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  try {
    kRun(*call);
    return MXCHECK_OK;
  } catch (const std::exception& e) {
    std::snprintf(call->message, call->message_bytes, "%s", e.what());
    return MXCHECK_INVALID;
  }
}

mxcheck_status supports(const mxcheck_policy* p, DLDataType) {
  return p != nullptr && p->size >= sizeof(mxcheck_route_policy) ? MXCHECK_OK : MXCHECK_INVALID;
}

constexpr mxcheck_operation kOperations[] = {
    {"route", "exact", 0, 0, 1, 1, supports, nullptr, run<run_route>},
    {"route_round", "exact", 0, 0, 1, 1, supports, nullptr, run<run_round>},
    {"route_metadata", "exact", 0, 0, 1, 1, supports, nullptr, run<run_metadata>},
    {"route_backward", "exact", 0, 0, 1, 1, supports, nullptr, run<run_backward>},
    {"route_balance_loss", "exact", 0, 0, 1, 1, supports, nullptr, run<run_loss<true>>},
    {"route_z_loss", "exact", 0, 0, 1, 1, supports, nullptr, run<run_loss<false>>},
};
constexpr mxcheck_candidate_table kTable{
    MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "host_route", "1", kDLCPU, 6, kOperations};

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() { return &kTable; }
