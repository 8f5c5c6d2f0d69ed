#pragma once
// Values for a layer's inputs, made on the device.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mxcheck::bench {

// BF16 of nearly normal numbers of this standard deviation, within 3.5 of it; element i depends on seed and i alone.
void fill_normal(void* to, std::int64_t count, float deviation, std::uint32_t seed, cudaStream_t stream);

}  // namespace mxcheck::bench
