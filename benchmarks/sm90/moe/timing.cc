#include "benchmarks/sm90/moe/timing.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "benchmarks/sm90/common/device_memory.h"

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

}  // namespace mxcheck::bench
