#include "benchmarks/sm90/moe/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <optional>

#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/route/router_call.h"
#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

using mxcheck_kernels::sm90::MoePlan;
using mxcheck_kernels::sm90::MoeStep;
using mxcheck_kernels::sm90::MoeStepKind;

constexpr int kLeastWarmUp = 3;
constexpr std::chrono::milliseconds kSettled{1500};

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const { check_cuda(cudaEventRecord(event_, stream), "event"); }
  [[nodiscard]] double microseconds_since(const Event& before) const {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, before.event_, event_), "event");
    return 1000.0 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class TimedGraph {
 public:
  TimedGraph(const Enqueue& work, cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    work(stream);
    check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    check_cuda(cudaGraphInstantiate(&graph_, graph, 0), "graph");
    cudaGraphDestroy(graph);
  }
  ~TimedGraph() { cudaGraphExecDestroy(graph_); }
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;

  void launch(cudaStream_t stream) {
    begin_.record(stream);
    check_cuda(cudaGraphLaunch(graph_, stream), "graph");
    end_.record(stream);
  }
  void keep() { times_.push_back(end_.microseconds_since(begin_)); }
  CallTime time() {
    std::sort(times_.begin(), times_.end());
    return {times_[times_.size() / 2], times_.front(), times_.back()};
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
  Event begin_;
  Event end_;
  std::vector<double> times_;
};

StepKind kind_of(MoeStepKind kind) {
  switch (kind) {
    case MoeStepKind::check: return StepKind::check;
    case MoeStepKind::quantize: return StepKind::quantize;
    case MoeStepKind::gemm: return StepKind::gemm;
    case MoeStepKind::elementwise: break;
  }
  return StepKind::elementwise;
}

}  // namespace

std::vector<CallTime> time_in_turn(std::span<const Enqueue> works, int samples, cudaStream_t stream) {
  std::deque<TimedGraph> graphs;
  for (const Enqueue& work : works) graphs.emplace_back(work, stream);
  const auto round = [&] {
    for (TimedGraph& g : graphs) g.launch(stream);
    check_cuda(cudaStreamSynchronize(stream), "a round of samples");
  };
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLeastWarmUp || std::chrono::steady_clock::now() - start < kSettled; ++i) round();
  for (int i = 0; i < samples; ++i) {
    round();
    for (TimedGraph& g : graphs) g.keep();
  }
  std::vector<CallTime> times;
  for (TimedGraph& g : graphs) times.push_back(g.time());
  return times;
}

std::vector<StepTime> time_steps(const MoePlan& plan, const LayerRecipe& recipe, int samples, cudaStream_t stream) {
  std::deque<std::vector<Event>> events;  // of each pass, one before every step and one after the last
  for (int i = 0; i < samples; ++i) events.emplace_back(plan.steps.size() + 1);
  for (int i = -kLeastWarmUp; i < samples; ++i) {
    const std::vector<Event>* const pass = i < 0 ? nullptr : &events[static_cast<std::size_t>(i)];
    if (pass != nullptr) pass->front().record(stream);
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      check_cuda(plan.steps[s].enqueue(stream), plan.steps[s].name.c_str());
      if (pass != nullptr) (*pass)[s + 1].record(stream);
    }
  }
  check_cuda(cudaStreamSynchronize(stream), "steps");
  std::vector<StepTime> out;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const MoeStep& step = plan.steps[s];
    std::vector<double> times;
    for (const std::vector<Event>& pass : events) times.push_back(pass[s + 1].microseconds_since(pass[s]));
    std::sort(times.begin(), times.end());
    out.push_back({step.name, kind_of(step.kind), times[times.size() / 2], step.bytes, step.products,
                   peak_tflops_of(recipe, step.name)});
  }
  return out;
}

// --- shapes

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
  ShapeResult result{shape, std::string(name_in(kRouteLoads, wanted.load)), 0, std::nullopt, {}, current_card().name};
  const LayerRoutes routes = draw_moe_routes(shape, wanted.load, kMoeSeed);
  result.busiest = busiest_expert(routes);
  result.router = time_router(wanted.route_library, shape, wanted.samples, stream);
  LayerMemory memory(shape, routes);
  std::deque<RecipeOnDevice> recipes;
  for (const LayerRecipe* recipe : wanted.recipes) {
    memory.reserve_workspace(
        recipes.emplace_back(shape, *recipe, wanted.gate_up, wanted.weights, memory).workspace_bytes());
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
