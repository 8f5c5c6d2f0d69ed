// Routers for the fake driver: the reference, as a kernel in a stream, that reports what only a device can see.
// FAKE_CUDA in the environment names what it does wrong. Nothing else is checked: calls of these tests are good.

#include <cmath>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "kernels/candidate_route.h"
#include "reference/router/token_rounding.h"
#include "tests/libraries/right/cuda/fake.h"

namespace {

using fake::mode;

struct Launch {
  fake::KeptCall kept;
  mxcheck_route_policy policy;
  std::string recipe, rule;
  bool rounds;
};

const std::byte* data_of(const DLTensor& t) { return static_cast<const std::byte*>(t.data) + t.byte_offset; }

template <class T>
void write(const DLTensor& t, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(const_cast<std::byte*>(data_of(t)), values.data(), values.size() * sizeof(T));
}

// Number of the first logit that is no number.
std::int64_t first_refused(const mxcheck::MatrixView& x) {
  for (std::int64_t i = 0; i < x.rows * x.cols; ++i) {
    if (!std::isfinite(x.at(i / x.cols, i % x.cols))) return i;
  }
  return -1;
}

void kernel(void* argument) {
  const Launch& launch = *static_cast<const Launch*>(argument);
  const mxcheck_call& call = launch.kept.call;
  const mxcheck_route_policy& p = launch.policy;
  const DLTensor& t = call.inputs[0];
  const DLTensor* out = call.outputs;
  mxcheck::Router router;
  router.variant = &mxcheck::router_variant_named(launch.recipe), router.top_k = p.top_k;
  router.nan = p.nan == MXCHECK_NAN_LAST ? mxcheck::NanLogits::last : mxcheck::NanLogits::refuse;
  router.scale = p.scale;
  const mxcheck::MatrixView logits{t.dtype.bits == 16 ? mxcheck::Format::bf16 : mxcheck::Format::fp32, data_of(t),
                                   p.policy.rows, p.policy.cols, t.strides != nullptr ? t.strides[0] : p.policy.cols};
  try {
    if (launch.rounds) {
      mxcheck::TokenRounding token_rounding;
      token_rounding.rule = mxcheck::token_rounding_rule_named(launch.rule);
      token_rounding.tile = p.tile, token_rounding.renormalize = p.renormalize != 0;
      const mxcheck::RoundedTokens a = round_tokens(router, token_rounding, logits);
      write(out[0], a.chosen), write(out[1], a.offsets), write(out[2], a.row_token);
      write(out[3], a.row_weight), write(out[4], a.token_offsets), write(out[5], a.token_rows);
    } else {
      const mxcheck::Routes routes = route(router, logits);
      write(out[0], routes.experts), write(out[1], routes.weights);
    }
  } catch (const std::exception& e) {
    mxcheck_device_report& report = *call.report;
    report.status = mode("says_nothing") ? MXCHECK_OK : MXCHECK_INVALID;
    report.index = first_refused(logits) + (mode("another_place") ? 1 : 0);
    std::strncpy(report.message, e.what(), sizeof(report.message) - 1);
    if (mode("writes_before_it_refuses")) write(out[0], std::vector<std::int32_t>{0});
  }
}

template <bool kRounds>
mxcheck_status run(const mxcheck_call* call) {
  const auto& policy = *reinterpret_cast<const mxcheck_route_policy*>(call->policy);
  auto* launch = new Launch{fake::KeptCall(*call), policy, policy.policy.recipe, policy.rule, kRounds};
  return fake_launch(call->stream, kernel, launch) == 0 ? MXCHECK_OK : MXCHECK_DEVICE_ERROR;
}

mxcheck_status supports(const mxcheck_policy* base, DLDataType) {
  const auto& p = *reinterpret_cast<const mxcheck_route_policy*>(base);
  return p.bias == 0 && p.groups == 0 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

mxcheck_status supports_nearest(const mxcheck_policy* base, DLDataType dtype) {
  const auto& p = *reinterpret_cast<const mxcheck_route_policy*>(base);
  return std::strcmp(p.rule, "nr-f") == 0 ? supports(base, dtype) : MXCHECK_UNSUPPORTED;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  static const std::array operations{
      mxcheck_operation{"route", "exact", 0, 0, 1, 1, supports, nullptr, run<false>},
      mxcheck_operation{"route_round", "exact", 0, 0, 1, 1, supports_nearest, nullptr, run<true>},
  };
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "fake_route", "1", kDLCUDA, 2, operations.data()};
  return &table;
}
