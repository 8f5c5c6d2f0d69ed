#include "tests/kernels/sm90/nvfp4/reciprocal_device.h"

#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/reciprocal.cuh"

namespace mxcheck::test {
namespace {

namespace sm90 = mxcheck_kernels::sm90;

constexpr unsigned kThreads = 256;

__global__ void count_kernel(std::uint32_t first, ReciprocalCount* count) {
  const std::uint32_t bits = first + blockIdx.x * kThreads + threadIdx.x;
  const float x = __uint_as_float(bits);
  if (__float_as_uint(sm90::reciprocal_of_normal(x)) != __float_as_uint(__frcp_rn(x))) {
    atomicAdd(&count->differing, 1U);
    atomicMax(&count->example, bits);
  }
  const double inverse = __drcp_rn(static_cast<double>(x));
  const double off = fabs(static_cast<double>(sm90::ptx::rcp_approx_ftz_f32(x)) - inverse);
  if (off > scalbn(1.0, ilogb(inverse) - 23)) atomicAdd(&count->far, 1U);
}

}  // namespace

cudaError_t count_reciprocals(int exponent, ReciprocalCount& count) {
  ReciprocalCount* on_device = nullptr;
  if (const auto e = cudaMalloc(&on_device, sizeof(count)); e != cudaSuccess) return e;
  cudaError_t error = cudaMemset(on_device, 0, sizeof(count));
  if (error == cudaSuccess) {
    count_kernel<<<(1U << 23) / kThreads, kThreads>>>(static_cast<std::uint32_t>(exponent + 127) << 23, on_device);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(&count, on_device, sizeof(count), cudaMemcpyDeviceToHost);
  cudaFree(on_device);
  return error;
}

}  // namespace mxcheck::test
