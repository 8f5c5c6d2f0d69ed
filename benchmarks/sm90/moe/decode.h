#pragma once
// Forward passes of few tokens, as decoding has them: by the path of steps, by that of few tokens, and by the latter
// with weights that were quantized before, beside the time in which a copy moves as many bytes as there are touched
// weights. All have the same outputs, which is compared.
//
// Errors: Error{environment} of CUDA; Error{internal} for outputs that differ.

#include <cuda_runtime_api.h>

#include <span>
#include <string>

#include "benchmarks/sm90/moe/shape.h"

namespace mxcheck::bench {

// Batches of sgl-DeepGEMM's figures on Hopper, and the largest that the path takes: d 4096, n 2048, E 256, K 6.
std::span<const MoeShape> decode_moe_shapes();

// A table of lines, one for each recipe.
std::string decode_text(const MoeShape& shape, double copy_bytes_per_second, int samples, cudaStream_t stream);

}  // namespace mxcheck::bench
