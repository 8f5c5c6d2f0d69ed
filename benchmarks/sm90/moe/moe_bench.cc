// mxcheck_sm90_moe_bench [--shape T,d,n,E,K ...] [--recipe NAME ...] [--routes uniform|skewed] [--gate-up ORDER]
// [--weights read|kept|checked] [--samples N] [--check N] [--quick] [--json] [--svg FILE] [--route PATH] [--model
// [--gpu-model PATH] | --decode]: whole layers, forward and backward, of the library that is linked in. Every pass is
// timed as one call, all recipes in turn, and step by step; then what is kept between the passes and what memory they
// need. With --check its outputs are compared with the reference on the host, in N experts and some tokens. With
// --model nothing is timed: the passes run step by step, and every output of every GEMM is compared with the GPU model.
// With
// --decode it is forward passes of few tokens. docs/performance.md has its tables.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/moe/decode.h"
#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/measure.h"
#include "benchmarks/sm90/moe/report.h"
#include "benchmarks/sm90/moe/verify.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

struct Options {
  std::vector<std::string> shapes;
  std::vector<std::string> recipes;
  std::string routes = "uniform";
  std::string gate_up = "halves";
  std::string weights = "read";
  std::string svg;
  std::string route_library;
  std::string gpu_model;
  std::string spoil;
  bool model = false;
  bool decode = false;
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

WeightsOfCalls weights_of(const Options& options) {
  return options.weights == "read"   ? WeightsOfCalls::read
         : options.weights == "kept" ? WeightsOfCalls::kept
                                     : WeightsOfCalls::checked;
}

std::vector<const LayerRecipe*> recipes_of(const Options& options, mxcheck_gate_up gate_up) {
  std::vector<const LayerRecipe*> recipes;
  for (const std::string& name : options.recipes) {
    recipes.push_back(&layer_recipe_named(name));
    if (!moe_library_offers(*recipes.back(), gate_up, weights_of(options))) {
      throw Error(ErrorKind::usage, fmt::format("--recipe {}: the library does not offer it", name));
    }
  }
  if (!recipes.empty()) return recipes;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    if (moe_library_offers(recipe, gate_up, weights_of(options))) recipes.push_back(&recipe);
  }
  return recipes;
}

std::vector<std::string> gemm_names() {
  std::vector<std::string> names;
  for (const LayerGemmSpec& gemm : kLayerGemms) names.emplace_back(gemm.name);
  return names;
}

// A library beside this program's folder, as builds and installations have it, unless one is named.
std::string library_of(const std::string& named, const char* file) {
  if (!named.empty()) return named;
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  return (program.parent_path().parent_path() / "lib" / file).string();
}

// "" where there is none: the router is then not timed.
std::string route_library_of(const Options& options) {
  std::error_code none;
  std::string path = library_of(options.route_library, "libmxcheck_sm90_route.so");
  return !options.route_library.empty() || std::filesystem::exists(path, none) ? path : "";
}

// The objection of `parse` to an argument, as CLI11 wants it.
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

Measurement measurement_of(const Options& options) {
  const auto gate_up = options.gate_up == "halves" ? MXCHECK_HALVES : MXCHECK_INTERLEAVED;
  const RouteLoad load = entry_named(kRouteLoads, "distribution of routes", options.routes).value;
  return {recipes_of(options, gate_up),
          load,
          gate_up,
          weights_of(options),
          route_library_of(options),
          options.samples,
          options.check};
}

int run_steps(const Options& options) {
  const ModelRequest request{library_of(options.gpu_model, "libmxcheck_gpu_model.so"), options.spoil};
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  fmt::print("{}\nlibrary {}\n", to_text(current_card()), moe_library_name());
  const bool equal = verify(shapes_of(options), measurement_of(options), request, stream);
  check_cuda(cudaStreamDestroy(stream), "stream");
  return equal ? 0 : 1;
}

int run_decode(const Options& options) {
  Timer timer;
  const double copy = timer.large_copy_rate(options.samples);
  fmt::print("{}\nlibrary {}, a copy moves {:.0f} GB/s\n", to_text(current_card()), moe_library_name(), copy * 1e-9);
  std::vector<MoeShape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(parse_moe_shape(text));
  if (shapes.empty()) shapes.assign(decode_moe_shapes().begin(), decode_moe_shapes().end());
  for (const MoeShape& shape : shapes) {
    fmt::print("\n{}", decode_text(shape, copy, options.samples, timer.stream()));
    std::fflush(stdout);
  }
  return 0;
}

int run(const Options& options) {
  Timer timer;
  MoeResults results{current_card(), moe_library_name(), options.samples, 0, {}};
  results.copy_bytes_per_second = timer.large_copy_rate(options.samples);
  const Measurement wanted = measurement_of(options);
  if (!options.json) fmt::print("{}", head_text(results));
  for (const MoeShape& shape : shapes_of(options)) {
    results.shapes.push_back(measure(shape, wanted, timer.stream()));
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
  app.add_option("--weights", options.weights, "Read and quantized by each call, kept from the first, or compared too")
      ->check(CLI::IsMember({"read", "kept", "checked"}));
  app.add_option("--check", options.check,
                 "Compare this many experts with the reference, or the layer if it has no more")
      ->check(CLI::NonNegativeNumber);
  auto* const svg = app.add_option("--svg", options.svg, "Write the steps as a picture");
  app.add_option("--route", options.route_library, "The library whose router is timed, where it is not in ../lib");
  auto* const model =
      app.add_flag("--model", options.model, "Compare every output of every GEMM with the GPU model; nothing is timed");
  app.add_option("--gpu-model", options.gpu_model, "The GPU model's library, where it is not in ../lib")->needs(model);
  app.add_option("--spoil", options.spoil, "Change a bit of this GEMM's last output: --model must find it")
      ->needs(model)
      ->check(CLI::IsMember(mxcheck::bench::gemm_names()));
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  auto* const json = app.add_flag("--json", options.json, "Print JSON");
  model->excludes(svg)->excludes(json);
  app.add_flag("--decode", options.decode, "Forward passes of few tokens, by each path of the library")
      ->excludes(svg)
      ->excludes(json)
      ->excludes(model);
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] {
    if (options.quick && app.count("--samples") == 0) options.samples = 3;
    if (options.decode) return mxcheck::bench::run_decode(options);
    return options.model ? mxcheck::bench::run_steps(options) : mxcheck::bench::run(options);
  });
}
