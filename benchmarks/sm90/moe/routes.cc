#include "benchmarks/sm90/moe/routes.h"

#include <algorithm>
#include <vector>

#include "reference/common/parallel.h"
#include "reference/router/router.h"

namespace mxcheck::bench {
namespace {

std::uint64_t mixed(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return n ^ n >> 33;
}

// Twelve uniform numbers of 10 bits: a standard deviation of 1, and nothing that differs between libraries.
float bell(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t a = mixed(seed + 2 * i);
  const std::uint64_t b = mixed(seed + 2 * i + 1);
  std::uint64_t sum = 0;
  for (int n = 0; n < 6; ++n) sum += (a >> (10 * n) & 1023) + (b >> (10 * n) & 1023);
  return static_cast<float>((static_cast<double>(sum) + static_cast<double>(a >> 60) / 16) / 1024 - 6);
}

std::vector<float> raises(std::int64_t experts, RouteLoad load, std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(experts));
  if (load == RouteLoad::uniform) return out;
  for (std::size_t e = 0; e < out.size(); ++e) {
    out[e] = 1.5F * static_cast<float>(mixed(seed + e) >> 40) / static_cast<float>(1 << 24);
  }
  return out;
}

}  // namespace

LayerRoutes draw_moe_routes(const MoeShape& shape, RouteLoad load, std::uint64_t seed) {
  const std::int64_t experts = shape.experts;
  const std::uint64_t start = mixed(seed);
  const std::vector<float> raised = raises(experts, load, mixed(start));
  std::vector<float> logits(static_cast<std::size_t>(shape.tokens * experts));
  parallel_ranges(shape.tokens, shape.tokens * experts, 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * experts; i < end * experts; ++i) {
      const auto at = static_cast<std::size_t>(i);
      logits[at] = bell(start, at) + raised[at % static_cast<std::size_t>(experts)];
    }
  });
  Router router;
  router.variant = &router_variant_named("topk-softmax");
  router.top_k = shape.top_k;
  const auto* const bytes = reinterpret_cast<const std::byte*>(logits.data());
  return layer_routes(route(router, {Format::fp32, bytes, shape.tokens, experts, experts}), experts);
}

double busiest_expert(const LayerRoutes& routes) {
  std::int64_t most = 0;
  for (std::size_t e = 1; e < routes.offsets.size(); ++e) {
    most = std::max(most, routes.offsets[e] - routes.offsets[e - 1]);
  }
  const double mean = static_cast<double>(routes.offsets.back()) / static_cast<double>(routes.offsets.size() - 1);
  return static_cast<double>(most) / mean;
}

}  // namespace mxcheck::bench
