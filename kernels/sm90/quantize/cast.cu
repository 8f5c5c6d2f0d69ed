// The element cast without a scale: what the quantization kernels do to x * 2^-e, done to x.

#include <cuda_bf16.h>

#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/quantize/quantize.h"

namespace mxcheck_kernels::sm90 {
namespace {

__device__ float value(float x) { return x; }
__device__ float value(__nv_bfloat16 x) { return __uint_as_float(std::uint32_t{__bfloat16_as_ushort(x)} << 16); }

template <class T, Element kElement>
__global__ void __launch_bounds__(256) cast_kernel(const __grid_constant__ CastJob job) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t count = job.rows * job.cols;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const std::int64_t at = job.x.stride == job.cols ? i : i / job.cols * job.x.stride + i % job.cols;
    job.codes[i] = static_cast<std::uint8_t>(encode2<kElement>(value(static_cast<const T*>(job.x.data)[at]), 0.0F));
  }
}

}  // namespace

cudaError_t cast(const CastJob& job, Dtype dtype, Element element, cudaStream_t stream) {
  const std::int64_t blocks = divide_up(job.rows * job.cols, 256 * 4);
  const auto grid = static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
  if (dtype == Dtype::bf16 && element == Element::e4m3) {
    cast_kernel<__nv_bfloat16, Element::e4m3><<<grid, 256, 0, stream>>>(job);
  } else if (dtype == Dtype::bf16) {
    cast_kernel<__nv_bfloat16, Element::e5m2><<<grid, 256, 0, stream>>>(job);
  } else if (element == Element::e4m3) {
    cast_kernel<float, Element::e4m3><<<grid, 256, 0, stream>>>(job);
  } else {
    cast_kernel<float, Element::e5m2><<<grid, 256, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
