#include "benchmarks/sm90/moe/fill.h"

#include <cuda_bf16.h>

#include "benchmarks/sm90/common/device_memory.h"

namespace mxcheck::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4096;

__device__ std::uint64_t mixed(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return n ^ n >> 33;
}

__global__ void fill_kernel(__nv_bfloat16* to, std::int64_t count, float deviation, std::uint32_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::uint64_t a = mixed((std::uint64_t{seed} << 40) + static_cast<std::uint64_t>(i));
    // Four bytes have 1021 sums, too few for BF16's eight bits; what is left of the word lies between two of them.
    const std::uint64_t sum = (a & 0xFF) + (a >> 8 & 0xFF) + (a >> 16 & 0xFF) + (a >> 24 & 0xFF);
    const float fine = static_cast<float>(a >> 40) / 16777216.0F - 0.5F;
    to[i] = __float2bfloat16(deviation * (static_cast<float>(sum) - 510.0F + fine) / 147.8F);
  }
}

}  // namespace

void fill_normal(void* to, std::int64_t count, float deviation, std::uint32_t seed, cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(to), count, deviation, seed);
  check_cuda(cudaGetLastError(), "fill");
}

}  // namespace mxcheck::bench
