#pragma once
// Operands that lie by k, as the GPU model reads them: with k last.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mxcheck::bench {

// matrices x rows x cols of 16-bit words to matrices x cols x rows.
void transpose_words(const void* from, void* to, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                     cudaStream_t stream);

}  // namespace mxcheck::bench
