#pragma once
// The model's two ends: the embedding of bytes, and the loss of logits, with gradients: docs/training.md.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr int kVocabulary = 256;  // tokens are bytes

// Sequences of length + 1 bytes as they come: what is read, and what follows it.
struct TokenBytes {
  const std::uint8_t* bytes = nullptr;
  std::int64_t sequences = 0;
  std::int64_t length = 0;

  [[nodiscard]] __host__ __device__ std::int64_t tokens() const { return sequences * length; }
  [[nodiscard]] __device__ int token(std::int64_t t) const { return bytes[t / length * (length + 1) + t % length]; }
  [[nodiscard]] __device__ int target(std::int64_t t) const {
    return bytes[t / length * (length + 1) + t % length + 1];
  }
};

// x, tokens x width, of the embedding in BF16.
cudaError_t launch_embed(const TokenBytes& tokens, const std::uint16_t* embedding, int width, float* x,
                         cudaStream_t stream);

// 256 x width, each row's sum in the order of tokens.
cudaError_t launch_embed_backward(const TokenBytes& tokens, const float* dx, int width, float* d_embedding,
                                  cudaStream_t stream);

// The loss of each token, and the gradient of the logits where d_logits is not null. share: RN(1 / tokens).
cudaError_t launch_token_loss(const TokenBytes& tokens, const float* logits, float share, float* losses,
                              std::uint16_t* d_logits, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
