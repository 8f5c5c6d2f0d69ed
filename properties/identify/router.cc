#include "properties/identify/router.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "properties/identify/blocks.h"
#include "properties/operations/router/definitions.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kTokens = 64;

// A call of the box, and its logits as the reference reads them.
struct RouterProbe {
  RouterProbe(std::string name_of, RouteCall call_of)
      : name(std::move(name_of)), call(std::move(call_of)), bytes(value_bytes(call.dtype, call.logits)) {}
  [[nodiscard]] MatrixView logits() const {
    return {call.dtype, bytes.data(), call.tokens, call.experts, call.experts};
  }
  [[nodiscard]] Router router(const RouterVariant& variant) const {
    Router router;
    router.variant = &variant, router.top_k = call.top_k, router.nan = NanLogits::last;
    return router;
  }

  std::string name;
  RouteCall call;
  std::vector<std::byte> bytes;
};

template <class Make>
RouteCall router_call_of(const RouteSpace& s, const Make& logit) {
  RouteCall call{kTokens, s.experts, s.top_k, {}, s.logits};
  for (std::int64_t i = 0; i < kTokens * s.experts; ++i) {
    const std::uint32_t word =
        encode(s.logits, static_cast<float>(logit()), Rounding::nearest_even, Overflow::saturate);
    call.logits.push_back(static_cast<float>(decode(s.logits, word)));
  }
  return call;
}

std::vector<RouterProbe> router_probes_of(const RouteSpace& s) {
  Draw draw(derived_seed(0, "identify router"));
  const auto uniform = [&] { return std::ldexp(static_cast<double>(draw.between(-(1 << 23), 1 << 23)), -23); };
  const double zeros[] = {0.0, -0.0, 1.0, -1.0};
  const double ends[] = {0.0,  -0.0,   1e-40, -1e-40,
                         88.0, -104.0, 1e30,  -1e30};  // packed order takes finite logits alone
  std::vector<RouterProbe> probes;
  const auto add = [&](const char* name, const auto& logit) { probes.emplace_back(name, router_call_of(s, logit)); };
  add("logits in (-4, 4)", [&] { return 4 * uniform(); });
  add("logits in (-100, 100)", [&] { return 100 * uniform(); });
  add("ties", [&] { return static_cast<double>(draw.between(-2, 2)); });
  add("zeros of both signs", [&] { return draw.pick(zeros); });
  add("neighbours", [&] { return std::bit_cast<float>(0x3F800000U + static_cast<std::uint32_t>(draw.below(8))); });
  add("negative logits", [&] { return -60 + 20 * uniform(); });
  add("ends of the range", [&] { return draw.chance(10) ? draw.pick(ends) : 4 * uniform(); });
  return probes;
}

std::vector<Bytes> observed_by(const RouteCall& call, const RouteAnswer& a) {
  const auto size = static_cast<std::size_t>(call.tokens * call.top_k);
  if (a.experts.size() == size && a.weights.size() == size) return {to_bytes(a.experts), to_bytes(a.weights)};
  throw Error(ErrorKind::usage, "the box answered " + std::to_string(a.experts.size()) + " experts and " +
                                    std::to_string(a.weights.size()) + " weights; both are " +
                                    std::to_string(call.tokens) + " x " + std::to_string(call.top_k));
}

std::vector<TensorInfo> router_outputs(const RouteCall& call) {
  const TensorInfo experts{"experts", Format::fp32, call.tokens, call.top_k, 0, 0, false, 32};
  const TensorInfo weights{"weights", Format::fp32, call.tokens, call.top_k, 0, 0, true};
  return {experts, weights};
}

// The variants first. Where none explains the box, slips of each of the closest.
Match match_router(std::span<const RouterProbe> probes, std::span<const RouteAnswer> answers,
                   const std::string& declared = "") {
  std::vector<Probe> asked;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const RouterProbe& p = probes[i];
    asked.push_back({p.name, router_outputs(p.call), observed_by(p.call, answers[i]),
                     router_variants(p.router(all_router_variants().front()), p.logits())});
  }
  Match match = match_answers(asked, declared);
  if (match.explained()) return match;
  for (const Explained& near : match.closest) {
    for (std::size_t i = 0; i < probes.size(); ++i) {
      asked[i].table = choice_slips(probes[i].router(router_variant_named(near.name)), probes[i].logits());
      for (Definition& slip : asked[i].table) slip.name = near.name + " with " + slip.name;
    }
    try_slips(match, asked);
  }
  return match;
}

}  // namespace

Match match_routes(const std::string& name, const RouteCall& call, const RouteAnswer& answer) {
  const RouterProbe probe(name, call);
  return match_router({&probe, 1}, {&answer, 1});
}

Match identify_router(const RouteSpace& space, const RouteBox& box, const std::string& declared) {
  if (space.top_k < 1 || space.top_k > space.experts) {
    throw Error(ErrorKind::usage, "top_k is " + std::to_string(space.top_k) + "; it must be 1 to the " +
                                      std::to_string(space.experts) + " experts");
  }
  const std::vector<RouterProbe> probes = router_probes_of(space);
  std::vector<RouteAnswer> answers;
  for (const RouterProbe& probe : probes) answers.push_back(box(probe.call));
  return match_router(probes, answers, declared);
}

}  // namespace mxcheck
