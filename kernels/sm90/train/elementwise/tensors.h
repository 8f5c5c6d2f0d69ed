#pragma once
// Operations on many tensors of one allocation in one launch: blocks of kBlockElements elements of one tensor each.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr int kBlockElements = 1024;

struct TensorEntry {
  std::int64_t offset = 0;  // elements from the allocation's start, a multiple of 4
  std::int64_t size = 0;
  std::int64_t first_block = 0;
  bool decays = false;  // under AdamW
};

// On the device; entries ascend.
struct TensorTable {
  const TensorEntry* entries = nullptr;
  int count = 0;
  std::int64_t blocks = 0;
};

// BF16 of all elements.
cudaError_t launch_round(const TensorTable& table, const float* from, std::uint16_t* to, cudaStream_t stream);

// digests[i] = the digest of tensor i, a NaN as 0x7FFFFFFF.
cudaError_t launch_digests(const TensorTable& table, const float* values, unsigned long long* digests,
                           cudaStream_t stream);

// One round of pairwise sums: element b of tensor i of `out` is the sum of its b-th 1024 elements in `in`, or of their
// squares. A tensor's last block counts as followed by +0: squares and sums of them are never -0, which alone would
// become another number by it.
cudaError_t launch_block_sums(const TensorTable& in_table, const float* in, bool squares, const TensorTable& out_table,
                              float* out, cudaStream_t stream);

// `terms` numbers, which are no -0, likewise.
cudaError_t launch_token_sum(const float* terms, std::int64_t count, float* partials, float* sum, cudaStream_t stream);
std::int64_t token_sum_partials(std::int64_t count);

}  // namespace mxcheck_kernels::sm90
