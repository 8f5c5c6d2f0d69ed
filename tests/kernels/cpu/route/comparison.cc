#include "tests/kernels/cpu/route/comparison.h"

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/candidate_route.h"
#include "numerics/error.h"
#include "reference/router/metadata.h"
#include "tests/kernels/candidate_call.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

constexpr DLDataType kI32Type{kDLInt, 32, 1};

float number(LogitKind kind, Words& words) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float unit = static_cast<float>(words.below(1 << 24)) * 0x1p-23F - 1;  // [-1, 1)
  switch (kind) {
    case LogitKind::few_values: return static_cast<float>(words.below(5)) - 2;
    case LogitKind::close: return 1 + unit * 0x1p-17F;
    case LogitKind::wide: return std::ldexp(unit, static_cast<int>(words.below(276)) - 148);
    case LogitKind::infinities: {
      const std::int64_t which = words.below(8);
      return which == 0 ? kInfinity : which < 4 ? -kInfinity : 20 * unit;
    }
    case LogitKind::nans: return words.below(4) == 0 ? (words.below(2) == 0 ? kNan : -kNan) : 4 * unit;
    case LogitKind::nan_rows: return words.below(40) == 0 ? 3 * unit : kNan;
    case LogitKind::zeros: {
      const float tiny = static_cast<float>(words.below(3)) * 0x1p-149F;
      return words.below(2) == 0 ? tiny : -tiny;
    }
    case LogitKind::normal: break;
  }
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += static_cast<float>(words.below(1 << 20)) * 0x1p-19F - 1;
  return sum;
}

Router router_of(const RouteCase& c) {
  Router r;
  r.variant = &router_variant_named(c.variant), r.top_k = c.top_k, r.groups = c.groups, r.groups_kept = c.groups_kept;
  r.nan = c.nan, r.scale = c.scale, r.bias = c.bias;
  return r;
}

// A call, its tensors ending where their memory does.
struct RouteCall {
  mxcheck_route_policy policy{};
  CandidateCall memory{mxcheck_policy{}};
  std::vector<DLTensor> inputs;
  std::vector<TestTensor*> outputs;
  std::string variant, rule;

  RouteCall(const RouteCase& c, std::int64_t tokens, std::int64_t experts)
      : variant(c.variant), rule(to_text(c.token_rounding.rule)) {
    policy.policy = make_policy("", variant.c_str(), 0, 0), policy.policy.size = sizeof policy;
    policy.policy.rows = tokens, policy.policy.cols = experts, policy.policy.threads = c.threads;
    policy.top_k = c.top_k, policy.groups = c.groups, policy.groups_kept = c.groups_kept;
    policy.nan = c.nan == NanLogits::refuse ? MXCHECK_NAN_REFUSE : MXCHECK_NAN_LAST;
    policy.bias = c.bias.empty() ? 0 : 1;
    policy.scale = c.scale;
    policy.renormalize = c.token_rounding.renormalize ? 1 : 0;
    policy.rule = rule.c_str(), policy.tile = c.token_rounding.tile, policy.capacity = c.token_rounding.capacity;
    policy.seed = c.token_rounding.seed, policy.step = c.token_rounding.step, policy.layer = c.token_rounding.layer;
  }

  template <class T>
  void take_logits(const Sample<T>& x) {
    const std::int64_t elements = x.rows == 0 ? 0 : (x.rows - 1) * x.stride + x.cols;
    const auto bytes = std::as_bytes(std::span(x.bits).first(static_cast<std::size_t>(elements)));
    take(memory.matrix(sizeof(T) == 2 ? kBf16Type : kFp32Type, x.rows, x.cols, x.stride, bytes));
  }
  template <class T>
  void take_logits(const Sample<T>& x, const std::vector<float>& bias) {
    take_logits(x);
    if (!bias.empty()) take(memory.flat(kFp32Type, x.cols, std::as_bytes(std::span(bias))));
  }
  void take(TestTensor& t) { inputs.push_back(t.dl); }
  TestTensor& flat(DLDataType type, std::int64_t count) { return *outputs.emplace_back(&memory.flat(type, count)); }
  TestTensor& matrix(DLDataType type, std::int64_t rows, std::int64_t cols) {
    return *outputs.emplace_back(&memory.matrix(type, rows, cols));
  }

  mxcheck_status run(const char* name, std::uint32_t mxcsr) {
    std::vector<DLTensor> out;
    for (const TestTensor* t : outputs) out.push_back(t->dl);
    const mxcheck_call call = call_of(policy.policy, inputs, out, memory.message);
    memory.message.fill('\0');
    const UseControlBits control(mxcsr);
    return operation(*mxcheck_candidate(), name).run(&call);
  }
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_same_v<T, std::uint16_t>) return a == b || ((a & 0x7FFF) > 0x7F80 && (b & 0x7FFF) > 0x7F80);
  return a == b;
}

template <class T>
std::string first_difference(const char* what, const std::vector<T>& expected, const TestTensor& tensor) {
  const std::vector<T> got = tensor.values<T>();
  if (expected.size() != got.size()) {
    return std::string(what) + ": expected " + std::to_string(expected.size()) + " elements, got room for " +
           std::to_string(got.size()) + "; ";
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (same(expected[i], got[i])) continue;
    std::string text = std::string(what) + "[" + std::to_string(i) + "]: expected " + std::to_string(expected[i]);
    if constexpr (std::is_same_v<T, float>) text += " " + std::to_string(std::bit_cast<std::uint32_t>(expected[i]));
    text += ", got " + std::to_string(got[i]);
    if constexpr (std::is_same_v<T, float>) text += " " + std::to_string(std::bit_cast<std::uint32_t>(got[i]));
    return text + "; ";
  }
  return "";
}

// prepare(call) adds tensors; compare(call) says how outputs differ. `refused`: the reference's error, if it threw.
template <class Prepare, class Compare>
std::string on_every_target(const char* name, const RouteCase& c, std::int64_t tokens, std::int64_t experts,
                            const std::string& refused, const Prepare& prepare, const Compare& compare) {
  for (const std::int64_t target : c.best_target_only ? std::vector<std::int64_t>{0} : simd_targets()) {
    std::optional<UseSimdTarget> use;
    if (target != 0) use.emplace(target);
    RouteCall call(c, tokens, experts);
    prepare(call);
    const mxcheck_status status = call.run(name, c.mxcsr);
    const std::string where = (target == 0 ? "" : simd_target_name(target) + ", ") + c.text() + ": ";
    if (!call.memory.kept_inside()) return where + "wrote before a tensor";
    if (!refused.empty()) {
      if (status != MXCHECK_INVALID) return where + "not refused, but the reference says: " + refused;
      if (call.memory.message[0] == '\0') return where + "refused without a message";
      for (const TestTensor* t : call.outputs) {
        if (!t->memory.intact()) return where + "refused after writing";
      }
      continue;
    }
    if (status != MXCHECK_OK) return where + call.memory.message.data();
    const std::string difference = compare(call);
    if (!difference.empty()) return where + difference;
  }
  return "";
}

template <class Model>
auto ask(const Model& model, std::string& refused) -> decltype(model()) {
  try {
    return model();
  } catch (const Error& e) {
    refused = e.what();
    return {};
  }
}

std::uint16_t to_bf16(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  if (std::isnan(v)) return 0x7FC0;
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

template <class T>
Sample<T> random_logits(LogitKind kind, std::uint64_t seed, std::int64_t tokens, std::int64_t experts,
                        std::int64_t stride) {
  Words words(seed);
  Sample<T> x{std::vector<T>(static_cast<std::size_t>(tokens * stride)), tokens, experts, stride};
  // NaN in the gaps: must not be read.
  std::fill(x.bits.begin(), x.bits.end(), static_cast<T>(~T{0}));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto bits = std::bit_cast<std::uint32_t>(number(kind, words));
      x.bits[static_cast<std::size_t>(t * stride + e)] = static_cast<T>(sizeof(T) == 2 ? bits >> 16 : bits);
    }
  }
  return x;
}

std::string RouteCase::text() const {
  return variant + ", top_k " + std::to_string(top_k) + ", groups " + std::to_string(groups) + "/" +
         std::to_string(groups_kept) + (bias.empty() ? "" : ", bias") + ", scale " + std::to_string(scale) + ", rule " +
         std::string(to_text(token_rounding.rule)) + ", tile " + std::to_string(token_rounding.tile) + ", capacity " +
         std::to_string(token_rounding.capacity) + ", " + std::to_string(threads) + " threads";
}

template <class T>
std::string route_difference(const RouteCase& c, const Sample<T>& logits) {
  std::string refused;
  const Routes expected = ask([&] { return route(router_of(c), logits.view(), 1); }, refused);
  return on_every_target(
      "route", c, logits.rows, logits.cols, refused,
      [&](RouteCall& call) {
        call.take_logits(logits, c.bias);
        call.matrix(kI32Type, logits.rows, c.top_k);
        call.matrix(kFp32Type, logits.rows, c.top_k);
      },
      [&](const RouteCall& call) {
        return first_difference("experts", expected.experts, *call.outputs[0]) +
               first_difference("weights", expected.weights, *call.outputs[1]);
      });
}

template <class T>
std::string round_difference(const RouteCase& c, const Sample<T>& logits) {
  std::string refused;
  const RoundedTokens a = ask([&] { return round_tokens(router_of(c), c.token_rounding, logits.view(), 1); }, refused);
  const std::int64_t capacity = token_rounding_capacity(router_of(c), c.token_rounding, logits.rows, logits.cols);
  return on_every_target(
      "route_round", c, logits.rows, logits.cols, refused,
      [&](RouteCall& call) {
        call.take_logits(logits, c.bias);
        call.flat(kI32Type, logits.cols);
        call.flat(kI64Type, logits.cols + 1);
        call.flat(kI32Type, capacity);
        call.flat(kFp32Type, capacity);
        call.flat(kI64Type, logits.rows + 1);
        call.flat(kI32Type, capacity);
      },
      [&](const RouteCall& call) {
        return first_difference("chosen", a.chosen, *call.outputs[0]) +
               first_difference("offsets", a.offsets, *call.outputs[1]) +
               first_difference("row_token", a.row_token, *call.outputs[2]) +
               first_difference("row_weight", a.row_weight, *call.outputs[3]) +
               first_difference("token_offsets", a.token_offsets, *call.outputs[4]) +
               first_difference("token_rows", a.token_rows, *call.outputs[5]);
      });
}

template <class T>
std::string backward_difference(const RouteCase& c, const Sample<T>& logits, const std::vector<std::int32_t>& experts,
                                const std::vector<float>& gradient) {
  std::string refused;
  const std::vector<float> expected =
      ask([&] { return route_backward(router_of(c), logits.view(), experts, gradient, c.top_k, 1); }, refused);
  return on_every_target(
      "route_backward", c, logits.rows, logits.cols, refused,
      [&](RouteCall& call) {
        call.take_logits(logits);
        call.take(call.memory.matrix(kI32Type, logits.rows, c.top_k, 0, std::as_bytes(std::span(experts))));
        call.take(call.memory.matrix(kFp32Type, logits.rows, c.top_k, 0, std::as_bytes(std::span(gradient))));
        call.matrix(sizeof(T) == 2 ? kBf16Type : kFp32Type, logits.rows, logits.cols);
      },
      [&](const RouteCall& call) {
        if constexpr (sizeof(T) == 4) {
          return first_difference("gradient", expected, *call.outputs[0]);
        } else {
          std::vector<std::uint16_t> narrow(expected.size());
          std::transform(expected.begin(), expected.end(), narrow.begin(), to_bf16);
          return first_difference("gradient", narrow, *call.outputs[0]);
        }
      });
}

std::string metadata_difference(const std::vector<std::int32_t>& slot_experts, std::int64_t width,
                                const std::vector<std::int64_t>& token_offsets, std::int64_t experts, std::int64_t tile,
                                std::int32_t threads) {
  std::string refused;
  const std::int64_t slots = static_cast<std::int64_t>(slot_experts.size());
  const std::int64_t tokens =
      token_offsets.empty() ? slots / width : static_cast<std::int64_t>(token_offsets.size()) - 1;
  const RouteMetadata m =
      ask([&] { return route_metadata(slot_experts, width, token_offsets, experts, tile); }, refused);
  RouteCase c;
  c.top_k = token_offsets.empty() ? width : 0;
  c.token_rounding.tile = tile, c.threads = threads, c.best_target_only = true;
  return on_every_target(
      "route_metadata", c, tokens, experts, refused,
      [&](RouteCall& call) {
        call.take(call.memory.flat(kI32Type, slots, std::as_bytes(std::span(slot_experts))));
        if (!token_offsets.empty()) call.take(call.memory.offsets(token_offsets));
        const std::int64_t capacity = metadata_capacity(slots, experts, tile);
        call.flat(kI32Type, experts);
        call.flat(kI64Type, experts + 1);
        for (int i = 0; i < 3; ++i) call.flat(kI32Type, capacity);
        call.flat(kI32Type, slots);
      },
      [&](const RouteCall& call) {
        return first_difference("counts", m.counts, *call.outputs[0]) +
               first_difference("offsets", m.offsets, *call.outputs[1]) +
               first_difference("row_slot", m.row_slot, *call.outputs[2]) +
               first_difference("row_token", m.row_token, *call.outputs[3]) +
               first_difference("row_expert", m.row_expert, *call.outputs[4]) +
               first_difference("slot_row", m.slot_row, *call.outputs[5]);
      });
}

template Sample<std::uint16_t> random_logits(LogitKind, std::uint64_t, std::int64_t, std::int64_t, std::int64_t);
template Sample<std::uint32_t> random_logits(LogitKind, std::uint64_t, std::int64_t, std::int64_t, std::int64_t);
template std::string route_difference(const RouteCase&, const Sample<std::uint16_t>&);
template std::string route_difference(const RouteCase&, const Sample<std::uint32_t>&);
template std::string round_difference(const RouteCase&, const Sample<std::uint16_t>&);
template std::string round_difference(const RouteCase&, const Sample<std::uint32_t>&);
template std::string backward_difference(const RouteCase&, const Sample<std::uint16_t>&,
                                         const std::vector<std::int32_t>&, const std::vector<float>&);
template std::string backward_difference(const RouteCase&, const Sample<std::uint32_t>&,
                                         const std::vector<std::int32_t>&, const std::vector<float>&);

}  // namespace mxcheck
