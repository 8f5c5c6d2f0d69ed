#pragma once
// Times of whole passes, sample by sample in turn, and of the steps of one.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "benchmarks/sm90/moe/report/results.h"
#include "kernels/sm90/moe/moe_plan.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck::bench {

using Enqueue = std::function<void(cudaStream_t)>;

// Each work as a graph, launched in turn until the clocks have settled, then `samples` times more.
std::vector<CallTime> time_in_turn(std::span<const Enqueue> works, int samples, cudaStream_t stream);

// Medians of each step between two events, in passes that follow one another without a gap. An event costs a
// microsecond or two, and a launch is not hidden as in a graph: short steps look longer than they are.
std::vector<StepTime> time_steps(const mxcheck_kernels::sm90::MoePlan& plan, const LayerRecipe& recipe, int samples,
                                 cudaStream_t stream);

}  // namespace mxcheck::bench
