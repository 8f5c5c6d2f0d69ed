#pragma once
// The parts of attention that are not GEMMs: docs/training.md, "Forward" 3 to 5 and "Backward". Tokens are sequence
// after sequence. q, k, v and their gradients are, for the GEMMs, matrices of one head of one sequence each: groups x
// length x head_width, a group for each sequence's heads in order. Scores are groups x length x length.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr int kMostLength = 4096;

struct AttentionShape {
  std::int64_t sequences = 0;
  int length = 0;  // a multiple of 8, at most kMostLength
  int heads = 0;
  int head_width = 0;  // a multiple of 8
  float scale = 1;     // score_scale(head_width)

  [[nodiscard]] __host__ __device__ std::int64_t groups() const { return sequences * heads; }
  [[nodiscard]] __host__ __device__ std::int64_t elements() const { return groups() * length * head_width; }
};

// length x head_width / 2, on the device.
struct Rotation {
  const float* cosine = nullptr;
  const float* sine = nullptr;
};

struct QkvHeads {
  std::uint16_t* q = nullptr;
  std::uint16_t* k = nullptr;
  std::uint16_t* v = nullptr;
};

// qkv, tokens x 3 width, to heads; q and k rotated.
cudaError_t launch_split_qkv(const AttentionShape& shape, const Rotation& rotation, const std::uint16_t* qkv,
                             const QkvHeads& out, cudaStream_t stream);

// P of scores Z.
cudaError_t launch_causal_softmax(const AttentionShape& shape, const float* z, std::uint16_t* p, cudaStream_t stream);

// Between heads and tokens x width.
cudaError_t launch_merge_heads(const AttentionShape& shape, const std::uint16_t* heads, std::uint16_t* tokens,
                               cudaStream_t stream);
cudaError_t launch_split_heads(const AttentionShape& shape, const std::uint16_t* tokens, std::uint16_t* heads,
                               cudaStream_t stream);

// dZ of P and dP.
cudaError_t launch_score_gradient(const AttentionShape& shape, const std::uint16_t* p, const float* dp,
                                  std::uint16_t* dz, cudaStream_t stream);

// dq and dk rotated back, and dv, to tokens x 3 width.
cudaError_t launch_merge_qkv(const AttentionShape& shape, const Rotation& rotation, const float* dq, const float* dk,
                             const std::uint16_t* dv, std::uint16_t* dqkv, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
