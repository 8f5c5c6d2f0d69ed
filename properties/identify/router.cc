#include "properties/identify/router.h"

#include <bit>
#include <cmath>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "properties/identify/values.h"
#include "reference/router/router.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kTokens = 64;

template <class Make>
RouteCall call_of(const RouteSpace& s, const Make& logit) {
  RouteCall call{kTokens, s.experts, s.top_k, {}, s.logits};
  for (std::int64_t i = 0; i < kTokens * s.experts; ++i) {
    const std::uint32_t word =
        encode(s.logits, static_cast<float>(logit()), Rounding::nearest_even, Overflow::saturate);
    call.logits.push_back(static_cast<float>(decode(s.logits, word)));
  }
  return call;
}

std::vector<std::pair<std::string, RouteCall>> probes_of(const RouteSpace& s) {
  Draw draw(derived_seed(0, "identify router"));
  const auto uniform = [&] { return std::ldexp(static_cast<double>(draw.between(-(1 << 23), 1 << 23)), -23); };
  const double zeros[] = {0.0, -0.0, 1.0, -1.0};
  const double ends[] = {0.0,  -0.0,   1e-40, -1e-40,
                         88.0, -104.0, 1e30,  -1e30};  // packed order takes finite logits alone
  std::vector<std::pair<std::string, RouteCall>> probes;
  probes.emplace_back("logits in (-4, 4)", call_of(s, [&] { return 4 * uniform(); }));
  probes.emplace_back("logits in (-100, 100)", call_of(s, [&] { return 100 * uniform(); }));
  probes.emplace_back("ties", call_of(s, [&] { return static_cast<double>(draw.between(-2, 2)); }));
  probes.emplace_back("zeros of both signs", call_of(s, [&] { return draw.pick(zeros); }));
  probes.emplace_back("neighbours", call_of(s, [&] {
                        return std::bit_cast<float>(0x3F800000U + static_cast<std::uint32_t>(draw.below(8)));
                      }));
  probes.emplace_back("negative logits", call_of(s, [&] { return -60 + 20 * uniform(); }));
  probes.emplace_back("ends of the range",
                      call_of(s, [&] { return draw.chance(10) ? draw.pick(ends) : 4 * uniform(); }));
  return probes;
}

BoxAnswer parts_of(const RouteCall& call, const RouteAnswer& a) {
  const auto size = static_cast<std::size_t>(call.tokens * call.top_k);
  if (a.experts.size() != size || a.weights.size() != size) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(a.experts.size()) + " experts and " +
                                      std::to_string(a.weights.size()) + " weights; both are " +
                                      std::to_string(call.tokens) + " x " + std::to_string(call.top_k));
  }
  AnswerPart experts{"experts", std::nullopt, {}, call.top_k, false};
  for (std::int32_t e : a.experts) experts.words.push_back(static_cast<std::uint32_t>(e));
  AnswerPart weights{"weights", Format::fp32, {}, call.top_k, true};
  for (float w : a.weights) weights.words.push_back(std::bit_cast<std::uint32_t>(w));
  return {std::move(experts), std::move(weights)};
}

std::vector<Definition> variants(std::span<const std::pair<std::string, RouteCall>> probes) {
  std::vector<Definition> definitions;
  for (const RouterVariant& variant : all_router_variants()) {
    definitions.push_back({std::string(variant.name), [&variant, probes](std::size_t p) {
                             const RouteCall& call = probes[p].second;
                             Router router;
                             router.variant = &variant, router.top_k = call.top_k, router.nan = NanLogits::last;
                             const std::vector<std::byte> bytes = value_bytes(call.dtype, call.logits);
                             const MatrixView x{call.dtype, bytes.data(), call.tokens, call.experts, call.experts};
                             Routes r = route(router, x, 1);
                             return parts_of(call, {std::move(r.experts), std::move(r.weights)});
                           }});
  }
  return definitions;
}

}  // namespace

Match match_routes(const std::string& name, const RouteCall& call, const RouteAnswer& answer) {
  const std::pair<std::string, RouteCall> probe{name, call};
  const BoxAnswer parts = parts_of(call, answer);
  return match_answers({&name, 1}, {&parts, 1}, variants({&probe, 1}));
}

Match identify_router(const RouteSpace& space, const RouteBox& box, const std::string& declared) {
  if (space.top_k < 1 || space.top_k > space.experts) {
    throw Error(ErrorKind::usage, "top_k is " + std::to_string(space.top_k) + "; it must be 1 to the " +
                                      std::to_string(space.experts) + " experts");
  }
  const std::vector<std::pair<std::string, RouteCall>> probes = probes_of(space);
  std::vector<std::string> names;
  std::vector<BoxAnswer> answers;
  for (const auto& [name, call] : probes) {
    names.push_back(name);
    answers.push_back(parts_of(call, box(call)));
  }
  return match_answers(names, answers, variants(probes), declared);
}

}  // namespace mxcheck
