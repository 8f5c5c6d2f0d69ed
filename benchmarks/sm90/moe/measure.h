#pragma once
// One shape of a layer under several recipes on the device: compared with the reference if asked, then timed.
//
// Errors: Error{environment} of CUDA; Error{internal} for a call that the library or the device refuses, and for a
// router that is wrong.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/report.h"
#include "benchmarks/sm90/moe/shape.h"
#include "benchmarks/sm90/moe/sublayer.h"
#include "kernels/candidate_layer.h"
#include "kernels/sm90/moe/moe_plan.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck::bench {

inline constexpr std::uint64_t kMoeSeed = 7;  // of routes

struct Measurement {
  std::vector<const LayerRecipe*> recipes;
  RouteLoad load = RouteLoad::uniform;
  mxcheck_gate_up gate_up = MXCHECK_HALVES;
  WeightsOfCalls weights = WeightsOfCalls::read;
  std::string route_library;  // whose router is timed; "": none
  int samples = 0;
  std::int64_t check = 0;  // experts to compare; 0: nothing is compared
};

ShapeResult measure(const MoeShape& shape, const Measurement& wanted, cudaStream_t stream);

// --- times
//
// Times of whole passes, sample by sample in turn, and of the steps of one.

using Enqueue = std::function<void(cudaStream_t)>;

// Each work as a graph, launched in turn until the clocks have settled, then `samples` times more.
std::vector<CallTime> time_in_turn(std::span<const Enqueue> works, int samples, cudaStream_t stream);

// Medians of each step between two events, in passes that follow one another without a gap. An event costs a
// microsecond or two, and a launch is not hidden as in a graph: short steps look longer than they are.
std::vector<StepTime> time_steps(const mxcheck_kernels::sm90::MoePlan& plan, const LayerRecipe& recipe, int samples,
                                 cudaStream_t stream);

// --- the reference on the host
//
// The outputs of a recipe's passes, against the reference on the host, on parts of the layer that it can compute alone.
//
//   const LayerCheck check(shape, MXCHECK_HALVES, routes, memory);
//   const CheckResult found = check.compare(recipe, 3);   // after both its passes, before those of another recipe
//
// Compared are outputs and what is kept, bit for bit. Other intermediates are in a workspace that is used again, and
// show in what follows from them: A' in dW2, dH in dW1, dX~ in dX, Y in O, P and A in dS.

struct CheckResult {
  bool equal = true;
  std::string text;  // what was compared, and what differs
};

class LayerCheck {
 public:
  // Downloads the inputs.
  LayerCheck(const MoeShape& shape, mxcheck_gate_up gate_up, const LayerRoutes& routes, const LayerMemory& memory);

  // All of this many experts, the busiest and the idlest first, and 32 tokens; the whole layer where that is all
  // experts.
  [[nodiscard]] CheckResult compare(RecipeOnDevice& recipe, std::int64_t experts) const;

 private:
  HostLayer layer_;
};

}  // namespace mxcheck::bench
