#pragma once
// One shape of a layer under several recipes on the device: compared with the reference if asked, then timed.
//
// Errors: Error{environment} of CUDA; Error{internal} for a call that the library or the device refuses, and for a
// router that is wrong.

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "benchmarks/sm90/moe/report/results.h"
#include "benchmarks/sm90/moe/routes.h"
#include "kernels/candidate_layer.h"

namespace mxcheck::bench {

inline constexpr std::uint64_t kMoeSeed = 7;  // of routes

struct Measurement {
  std::vector<const LayerRecipe*> recipes;
  RouteLoad load = RouteLoad::uniform;
  mxcheck_gate_up gate_up = MXCHECK_HALVES;
  std::string route_library;  // whose router is timed; "": none
  int samples = 0;
  std::int64_t check = 0;  // experts to compare; 0: nothing is compared
};

ShapeResult measure(const MoeShape& shape, const Measurement& wanted, cudaStream_t stream);

}  // namespace mxcheck::bench
