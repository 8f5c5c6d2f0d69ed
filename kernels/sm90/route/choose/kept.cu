#include "kernels/sm90/route/choose/kept.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 132 * 8;

template <class Word>
__global__ void __launch_bounds__(kThreads)
    copy(const std::int32_t* stop, const Word* from, Word* to, std::int64_t count) {
  if (*stop != 0) return;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) to[i] = from[i];
}

template <class Word>
cudaError_t launch(const std::int32_t* stop, const void* from, void* to, std::int64_t count, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  copy<<<blocks, kThreads, 0, stream>>>(stop, static_cast<const Word*>(from), static_cast<Word*>(to), count);
  return cudaGetLastError();
}

}  // namespace

cudaError_t copy_kept(const std::int32_t* stop, const void* from, void* to, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (count % 4 == 0 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    return launch<int4>(stop, from, to, count / 4, stream);
  }
  return launch<int>(stop, from, to, count, stream);
}

}  // namespace mxcheck_kernels::sm90
