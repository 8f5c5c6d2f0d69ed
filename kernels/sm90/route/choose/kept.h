#pragma once
// Outputs that were kept in the workspace until nothing could refuse them.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

// Enqueues: `count` words of 32 bits from `from`, aligned to 16 bytes, to `to`, where *stop is 0.
cudaError_t copy_kept(const std::int32_t* stop, const void* from, void* to, std::int64_t count, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
