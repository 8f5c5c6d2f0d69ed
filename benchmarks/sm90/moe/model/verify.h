#pragma once
// Layers step by step, every output of every GEMM compared with the GPU model before the next step runs. Prints as it
// goes; nothing is timed but the model.
//
// Errors: those of measure.h and gpu_model.h.

#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "benchmarks/sm90/moe/measure.h"

namespace mxcheck::bench {

struct ModelRequest {
  std::string library;
  std::string spoil;  // the name of a GEMM whose last output gets one wrong bit before it is compared; "": none
};

// Whether all is equal, in all shapes under all recipes; with wanted.check what the reference says counts too.
bool verify(const std::vector<MoeShape>& shapes, const Measurement& wanted, const ModelRequest& request,
            cudaStream_t stream);

}  // namespace mxcheck::bench
