// mxcheck_sm90_moe_bench [--shape T,d,n,E,K ...] [--recipe NAME ...] [--routes uniform|skewed] [--gate-up ORDER]
// [--samples N] [--check N] [--quick] [--json] [--svg FILE] [--route PATH]: whole layers, forward and backward, of the
// library that is linked in. Every pass is timed as one call, all recipes in turn, and step by step; then what is kept
// between the passes and what memory they need. With --check its outputs are compared with the reference on the host,
// in N experts and some tokens. docs/performance.md has its tables.

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device_timer.h"
#include "benchmarks/sm90/moe/check/check.h"
#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/report/json.h"
#include "benchmarks/sm90/moe/report/svg.h"
#include "benchmarks/sm90/moe/report/table.h"
#include "benchmarks/sm90/moe/timing.h"
#include "benchmarks/sm90/route/router_call.h"
#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

constexpr std::uint64_t kSeed = 7;

struct Options {
  std::vector<std::string> shapes;
  std::vector<std::string> recipes;
  std::string routes = "uniform";
  std::string gate_up = "halves";
  std::string svg;
  std::string route_library;
  bool quick = false;
  bool json = false;
  int samples = 15;
  std::int64_t check = 0;
};

std::vector<MoeShape> shapes_of(const Options& options) {
  std::vector<MoeShape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(parse_moe_shape(text));
  if (!shapes.empty()) return shapes;
  const auto all = options.quick ? quick_moe_shapes() : default_moe_shapes();
  return {all.begin(), all.end()};
}

std::vector<const LayerRecipe*> recipes_of(const Options& options, mxcheck_gate_up gate_up) {
  std::vector<const LayerRecipe*> recipes;
  for (const std::string& name : options.recipes) {
    recipes.push_back(&layer_recipe_named(name));
    if (!moe_library_offers(*recipes.back(), gate_up)) {
      throw Error(ErrorKind::usage, fmt::format("--recipe {}: the library does not offer it", name));
    }
  }
  if (!recipes.empty()) return recipes;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    if (moe_library_offers(recipe, gate_up)) recipes.push_back(&recipe);
  }
  return recipes;
}

std::string device_text() {
  int device = 0;
  int clock = 0;
  int driver = 0;
  cudaDeviceProp properties{};
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "device");
  check_cuda(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device), "clock");
  check_cuda(cudaDriverGetVersion(&driver), "driver");
  return fmt::format("{}, {} processors, at most {} MHz, driver of CUDA {}.{}", properties.name,
                     properties.multiProcessorCount, clock / 1000, driver / 1000, driver % 1000 / 10);
}

// The library beside this program's folder, as builds and installations have it, unless one is named.
std::string route_library_of(const Options& options) {
  if (!options.route_library.empty()) return options.route_library;
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto path = program.parent_path().parent_path() / "lib" / "libmxcheck_sm90_route.so";
  return std::filesystem::exists(path, none) ? path.string() : "";
}

// Token choice by "topk-softmax" of BF16 logits and the rows by expert: what a layer does before its first GEMM.
std::optional<RouterTime> time_router(const std::string& path, const MoeShape& s, const Options& o,
                                      cudaStream_t stream) {
  if (path.empty()) return std::nullopt;
  RouterShape shape;
  shape.tokens = s.tokens, shape.experts = s.experts, shape.top_k = s.top_k, shape.tile = 1;
  const mxcheck_candidate_table& library = load_candidate(path);
  RouteCall route(operation(library, "route"), shape, kSeed);
  std::string wrong = route.difference(stream);
  MetadataCall metadata(operation(library, "route_metadata"), shape, route.experts());
  if (wrong.empty()) wrong = metadata.difference(stream);
  if (!wrong.empty()) throw Error(ErrorKind::internal, fmt::format("the router of {}: {}", s.text(), wrong));
  const std::array<Enqueue, 2> works{[&](cudaStream_t to) { route.enqueue(to); },
                                     [&](cudaStream_t to) { metadata.enqueue(to); }};
  const std::vector<CallTime> times = time_in_turn(works, o.samples, stream);
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

void time_passes(std::deque<RecipeOnDevice>& recipes, ShapeResult& result, const Options& options,
                 cudaStream_t stream) {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const auto at = static_cast<std::size_t>(direction);
    std::vector<Enqueue> works;
    for (RecipeOnDevice& r : recipes) {
      works.emplace_back([&r, direction](cudaStream_t to) { r.pass(direction).enqueue(to); });
    }
    const std::vector<CallTime> times = time_in_turn(works, options.samples, stream);
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      PassResult& p = result.recipes[i].passes[at];
      p.call = times[i];
      p.steps = time_steps(recipes[i].pass(direction).plan(), recipes[i].recipe(), options.samples, stream);
    }
  }
}

ShapeResult measure(const MoeShape& shape, const Options& options, const std::string& route, cudaStream_t stream) {
  const RouteLoad load = entry_named(kRouteLoads, "distribution of routes", options.routes).value;
  const auto gate_up = options.gate_up == "halves" ? MXCHECK_HALVES : MXCHECK_INTERLEAVED;
  ShapeResult result{shape, options.routes, 0, std::nullopt, {}};
  const LayerRoutes routes = draw_moe_routes(shape, load, kSeed);
  result.busiest = busiest_expert(routes);
  result.router = time_router(route, shape, options, stream);
  LayerMemory memory(shape, routes);
  std::deque<RecipeOnDevice> recipes;
  for (const LayerRecipe* recipe : recipes_of(options, gate_up)) {
    memory.reserve_workspace(recipes.emplace_back(shape, *recipe, gate_up, memory).workspace_bytes());
  }
  std::optional<LayerCheck> check;
  if (options.check > 0) check.emplace(shape, gate_up, routes, memory);
  for (RecipeOnDevice& recipe : recipes) {
    run_once(recipe, stream);
    RecipeResult& r = result.recipes.emplace_back(result_of(recipe));
    if (!check) continue;
    const CheckResult found = check->compare(recipe, options.check);
    r.check = found.text, r.equal = found.equal;
  }
  time_passes(recipes, result, options, stream);
  return result;
}

// What `parse` says against an argument, as CLI11 wants it.
template <class Parse>
auto valid_by(const Parse& parse) {
  return [parse](const std::string& text) -> std::string {
    try {
      parse(text);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
}

int run(const Options& options) {
  Timer timer;
  MoeResults results{device_text(), moe_library_name(), options.samples, 0, {}};
  results.copy_bytes_per_second = timer.large_copy_rate(options.samples);
  const std::string route = route_library_of(options);
  if (!options.json) fmt::print("{}", head_text(results));
  for (const MoeShape& shape : shapes_of(options)) {
    results.shapes.push_back(measure(shape, options, route, timer.stream()));
    const ShapeResult& r = results.shapes.back();
    if (!options.json) {
      fmt::print("{}{}{}", passes_text(r), memory_text(r), steps_text(r, results.copy_bytes_per_second));
    }
    std::fflush(stdout);
  }
  if (options.json) fmt::print("{}\n", to_text(json_of(results)));
  if (!options.svg.empty()) {
    std::ofstream file(options.svg);
    file << time_line_svg(results);
    if (!file.flush()) throw Error(ErrorKind::environment, "cannot write " + options.svg);
  }
  const auto wrong = [](const ShapeResult& s) { return !std::ranges::all_of(s.recipes, &RecipeResult::equal); };
  return std::ranges::any_of(results.shapes, wrong) ? 1 : 0;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("Whole mixture-of-experts layers of a Hopper library, timed by pass and by step",
               "mxcheck_sm90_moe_bench");
  app.add_option("--shape", options.shapes, "T,d,n,E,K, several; without it SonicMoE's three")
      ->allow_extra_args(false)
      ->check(mxcheck::bench::valid_by(mxcheck::bench::parse_moe_shape));
  app.add_option("--recipe", options.recipes,
                 "Of mxcheck layer --list, several; without it all that the library offers")
      ->allow_extra_args(false)
      ->check(mxcheck::bench::valid_by(mxcheck::layer_recipe_named));
  app.add_option("--routes", options.routes, "How experts are loaded")->check(CLI::IsMember({"uniform", "skewed"}));
  app.add_option("--gate-up", options.gate_up, "Columns of W1 and H")->check(CLI::IsMember({"halves", "interleaved"}));
  app.add_option("--check", options.check,
                 "Compare this many experts with the reference, or the layer if it has no more")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--svg", options.svg, "Write the steps as a picture");
  app.add_option("--route", options.route_library, "The library whose router is timed, where it is not in ../lib");
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--json", options.json, "Print JSON");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] {
    if (options.quick && app.count("--samples") == 0) options.samples = 3;
    return mxcheck::bench::run(options);
  });
}
