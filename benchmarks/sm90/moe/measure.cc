#include "benchmarks/sm90/moe/measure.h"

#include <array>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "benchmarks/sm90/moe/check/check.h"
#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/timing.h"
#include "benchmarks/sm90/route/router_call.h"
#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

// Token choice by "topk-softmax" of BF16 logits and the rows by expert: what a layer does before its first GEMM.
std::optional<RouterTime> time_router(const std::string& path, const MoeShape& s, int samples, cudaStream_t stream) {
  if (path.empty()) return std::nullopt;
  RouterShape shape;
  shape.tokens = s.tokens, shape.experts = s.experts, shape.top_k = s.top_k, shape.tile = 1;
  const mxcheck_candidate_table& library = load_candidate(path);
  RouteCall route(operation(library, "route"), shape, kMoeSeed);
  std::string wrong = route.difference(stream);
  MetadataCall metadata(operation(library, "route_metadata"), shape, route.experts());
  if (wrong.empty()) wrong = metadata.difference(stream);
  if (!wrong.empty()) throw Error(ErrorKind::internal, fmt::format("the router of {}: {}", s.text(), wrong));
  const std::array<Enqueue, 2> works{[&](cudaStream_t to) { route.enqueue(to); },
                                     [&](cudaStream_t to) { metadata.enqueue(to); }};
  const std::vector<CallTime> times = time_in_turn(works, samples, stream);
  return RouterTime{times[0].median, times[1].median};
}

// Once each, forward first, as the backward pass takes what it kept.
void run_once(RecipeOnDevice& recipe, cudaStream_t stream) {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    recipe.pass(direction).enqueue(stream);
    const std::string found = recipe.pass(direction).report();
    if (!found.empty()) {
      throw Error(ErrorKind::internal, fmt::format("{} {}: {}", recipe.recipe().name, to_text(direction), found));
    }
  }
}

RecipeResult result_of(RecipeOnDevice& recipe) {
  RecipeResult result{recipe.recipe().name, recipe.tensors().kept_bytes(), {}, "", true};
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    PassResult& p = result.passes[static_cast<std::size_t>(direction)];
    p.direction = direction;
    p.tensor_bytes = moe_call_bytes(recipe.tensors(), direction);
    p.workspace_bytes = recipe.pass(direction).workspace_bytes();
  }
  return result;
}

void time_passes(std::deque<RecipeOnDevice>& recipes, ShapeResult& result, int samples, cudaStream_t stream) {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const auto at = static_cast<std::size_t>(direction);
    std::vector<Enqueue> works;
    for (RecipeOnDevice& r : recipes) {
      works.emplace_back([&r, direction](cudaStream_t to) { r.pass(direction).enqueue(to); });
    }
    const std::vector<CallTime> times = time_in_turn(works, samples, stream);
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      PassResult& p = result.recipes[i].passes[at];
      p.call = times[i];
      p.steps = time_steps(recipes[i].pass(direction).plan(), recipes[i].recipe(), samples, stream);
    }
  }
}

}  // namespace

ShapeResult measure(const MoeShape& shape, const Measurement& wanted, cudaStream_t stream) {
  ShapeResult result{shape, std::string(name_in(kRouteLoads, wanted.load)), 0, std::nullopt, {}};
  const LayerRoutes routes = draw_moe_routes(shape, wanted.load, kMoeSeed);
  result.busiest = busiest_expert(routes);
  result.router = time_router(wanted.route_library, shape, wanted.samples, stream);
  LayerMemory memory(shape, routes);
  std::deque<RecipeOnDevice> recipes;
  for (const LayerRecipe* recipe : wanted.recipes) {
    memory.reserve_workspace(recipes.emplace_back(shape, *recipe, wanted.gate_up, memory).workspace_bytes());
  }
  std::optional<LayerCheck> check;
  if (wanted.check > 0) check.emplace(shape, wanted.gate_up, routes, memory);
  for (RecipeOnDevice& recipe : recipes) {
    run_once(recipe, stream);
    RecipeResult& r = result.recipes.emplace_back(result_of(recipe));
    if (!check) continue;
    const CheckResult found = check->compare(recipe, wanted.check);
    r.check = found.text, r.equal = found.equal;
  }
  time_passes(recipes, result, wanted.samples, stream);
  return result;
}

}  // namespace mxcheck::bench
