// The kernel of mma.h: a warpgroup takes 64 rows by kN columns, 128 bytes of k at a time.

#include "kernels/sm90/gemm/candidate/mma.h"

#include <cstdint>
#include <limits>

#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/ptx/wgmma.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kMmaThreads = 128;
constexpr int kMmaRows = 64;
constexpr int kLineBytes = 128;

// `rows` lines of a matrix from `first_row` and byte first_byte of each on, zeros outside it, in wgmma's shared memory
// layout.
template <int kRows>
__device__ __forceinline__ void copy_lines(unsigned char* to, const unsigned char* from, std::int64_t first_row,
                                           std::int64_t rows, std::int64_t first_byte, std::int64_t line) {
  // By bytes: operands may lie at any address of their element, and rows have any length.
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kLineBytes; i += kMmaThreads) {
    const int row = i / kLineBytes;
    const int byte = i % kLineBytes;
    const bool inside = first_row + row < rows && first_byte + byte < line;
    const unsigned char value = inside ? from[(first_row + row) * line + first_byte + byte] : 0;
    to[row * kLineBytes + ((byte / 16) ^ (row % 8)) * 16 + byte % 16] = value;
  }
}

template <Code kA, Code kB, int kN>
__global__ void __launch_bounds__(kMmaThreads) mma_kernel(MmaJob job) {
  __shared__ alignas(1024) unsigned char a_lines[kMmaRows * kLineBytes];
  __shared__ alignas(1024) unsigned char b_lines[kN * kLineBytes];
  constexpr int kCount = kN / 2;
  const std::int64_t line = job.k * bytes_of(kA);
  const std::int64_t column_tiles = (job.n + kN - 1) / kN;
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.x) / column_tiles * kMmaRows;
  const std::int64_t col0 = static_cast<std::int64_t>(blockIdx.x) % column_tiles * kN;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = row0 + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  const std::int64_t col = col0 + lane % 4 * 2;

  // Accumulator i is at row + 8 if bit 1 is set, column + 1 if bit 0 is, and 8 columns on for every 4. Without C they
  // start as NaN, and the first step is told not to add, so that any use of them would show.
  float d[kCount];
  const auto place = [&](int i, std::int64_t& r, std::int64_t& c) {
    r = row + (i / 2 % 2) * 8, c = col + i / 4 * 8 + i % 2;
    return r < job.m && c < job.n;
  };
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    std::int64_t r = 0;
    std::int64_t c = 0;
    const bool inside = place(i, r, c);
    d[i] = job.c == nullptr ? __int_as_float(0x7FC0BAD0) : inside ? job.c[r * job.n + c] : 0.0F;
  }
  int add = job.c != nullptr;
  const std::uint64_t a = ptx::make_smem_desc(ptx::shared_address(a_lines));
  const std::uint64_t b = ptx::make_smem_desc(ptx::shared_address(b_lines));
  for (std::int64_t first = 0; first < line; first += kLineBytes) {
    copy_lines<kMmaRows>(a_lines, static_cast<const unsigned char*>(job.a), row0, job.m, first, line);
    copy_lines<kN>(b_lines, static_cast<const unsigned char*>(job.b), col0, job.n, first, line);
    ptx::fence_proxy_async();
    __syncthreads();
    const std::int64_t left = line - first;
    const int steps = left >= kLineBytes ? 4 : static_cast<int>((left + 31) / 32);
    for (int step = 0; step < steps; ++step, add = 1) {
      ptx::warpgroup_fence_operand(d);
      ptx::warpgroup_arrive();
      ptx::wgmma<kA, kB>(d, a + 2 * step, b + 2 * step, add);
      ptx::warpgroup_commit_batch();
      ptx::warpgroup_wait<0>();
      ptx::warpgroup_fence_operand(d);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    std::int64_t r = 0;
    std::int64_t c = 0;
    if (place(i, r, c)) job.d[r * job.n + c] = line == 0 && job.c == nullptr ? 0.0F : d[i];
  }
}

template <Code kA, Code kB>
cudaError_t launch_mma_of(const MmaJob& job, cudaStream_t stream) {
  const auto run = [&](auto kernel, int columns) {
    const std::int64_t tiles = ((job.m + kMmaRows - 1) / kMmaRows) * ((job.n + columns - 1) / columns);
    if (tiles > std::numeric_limits<std::int32_t>::max()) return cudaErrorInvalidConfiguration;
    kernel<<<static_cast<unsigned>(tiles), kMmaThreads, 0, stream>>>(job);
    return cudaGetLastError();
  };
  if (job.n <= 8) return run(mma_kernel<kA, kB, 8>, 8);
  if (job.n <= 64) return run(mma_kernel<kA, kB, 64>, 64);
  return run(mma_kernel<kA, kB, 256>, 256);
}

cudaError_t launch_mma_fp8(const MmaJob& job, cudaStream_t stream) {
  const bool a_e5m2 = job.a_code == Code::e5m2;
  const bool b_e5m2 = job.b_code == Code::e5m2;
  if (a_e5m2 && b_e5m2) return launch_mma_of<Code::e5m2, Code::e5m2>(job, stream);
  if (a_e5m2) return launch_mma_of<Code::e5m2, Code::e4m3>(job, stream);
  if (b_e5m2) return launch_mma_of<Code::e4m3, Code::e5m2>(job, stream);
  return launch_mma_of<Code::e4m3, Code::e4m3>(job, stream);
}

}  // namespace

cudaError_t launch_mma(const MmaJob& job, cudaStream_t stream) {
  switch (job.a_code) {
    case Code::e4m3:
    case Code::e5m2: return launch_mma_fp8(job, stream);
    case Code::bf16: return launch_mma_of<Code::bf16, Code::bf16>(job, stream);
    case Code::fp16: return launch_mma_of<Code::fp16, Code::fp16>(job, stream);
    case Code::tf32: return launch_mma_of<Code::tf32, Code::tf32>(job, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mxcheck_kernels::sm90
