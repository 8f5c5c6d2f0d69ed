#pragma once
// The block of a tensor that a block of threads has.

#include "kernels/sm90/train/elementwise/tensors.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kBlockThreads = 256;

struct TensorBlock {
  int tensor = 0;
  std::int64_t offset = 0;  // of the tensor
  std::int64_t size = 0;    // of the tensor
  std::int64_t block = 0;   // of the tensor
  bool decays = false;
};

__device__ __forceinline__ TensorBlock tensor_block(const TensorTable& table, std::int64_t index) {
  int low = 0;
  int high = table.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.entries[middle].first_block <= index ? low : high) = middle;
  }
  const TensorEntry entry = table.entries[low];
  return {low, entry.offset, entry.size, index - entry.first_block, entry.decays};
}

// Four elements a thread, each with its number in the tensor: neighbouring threads have neighbours.
template <class Body>
__device__ __forceinline__ void each_of_block(const TensorBlock& at, const Body& body) {
  const std::int64_t first = at.block * kBlockElements + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kBlockElements / kBlockThreads; ++i) {
    const std::int64_t element = first + i * kBlockThreads;
    if (element < at.size) body(element);
  }
}

}  // namespace mxcheck_kernels::sm90
