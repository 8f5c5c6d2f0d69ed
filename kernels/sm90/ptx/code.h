#pragma once
// Formats of the tensor cores' operands.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

enum class Code : std::uint8_t { e4m3, e5m2, bf16, fp16, tf32 };

__host__ __device__ constexpr int bytes_of(Code code) {
  return code == Code::tf32 ? 4 : code == Code::bf16 || code == Code::fp16 ? 2 : 1;
}

}  // namespace mxcheck_kernels::sm90
