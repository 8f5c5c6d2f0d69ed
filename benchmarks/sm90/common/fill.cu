#include "benchmarks/sm90/common/fill.h"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <limits>

#include "benchmarks/sm90/common/device.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4096;

__device__ std::uint64_t mixed_word(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return n;
}
__device__ std::uint32_t mixed(std::uint64_t n) { return static_cast<std::uint32_t>(mixed_word(n) >> 32); }

__device__ std::int64_t first() { return std::int64_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ std::int64_t stride() { return std::int64_t{gridDim.x} * kThreads; }

// Standard deviation 1, within 3.47.
__device__ float bell(std::uint32_t a) {
  const std::uint32_t sum = (a & 0xFF) + (a >> 8 & 0xFF) + (a >> 16 & 0xFF) + (a >> 24);
  return (static_cast<float>(sum) - 510.0F) / 147.8F;
}

__global__ void fill_kernel(void* to, std::int64_t count, Filling filling, std::uint32_t seed) {
  for (std::int64_t i = first(); i < count; i += stride()) {
    const std::uint32_t a = mixed((std::uint64_t{seed} << 40) + static_cast<std::uint64_t>(i));
    switch (filling) {
      case Filling::e4m3:
        static_cast<std::uint8_t*>(to)[i] = __nv_cvt_float_to_fp8(115.0F * bell(a), __NV_SATFINITE, __NV_E4M3);
        break;
      case Filling::bf16: {
        // 1021 values of the bell are too few for eight bits: half a step of it is uniform.
        const float fine = static_cast<float>(mixed(a) >> 8) / 16777216.0F - 0.5F;
        static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(bell(a) + fine / 147.8F);
        break;
      }
      case Filling::fp32: static_cast<float*>(to)[i] = 1000.0F * bell(a) + static_cast<float>(a & 0xFFF) / 4096; break;
      case Filling::e8m0_scales: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(120 + a % 11); break;
      case Filling::two_codes: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(a >> 8); break;
      case Filling::e4m3_scales: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(0x30 + a % 8); break;
      case Filling::fp32_scales: static_cast<float*>(to)[i] = 0.75F + static_cast<float>(a >> 8) / 33554432.0F; break;
    }
  }
}

__device__ float scale_at(const void* scales, bool e8m0, std::int64_t i) {
  if (!e8m0) return static_cast<const float*>(scales)[i];
  return ldexpf(1.0F, static_cast<const std::uint8_t*>(scales)[i] - 127);
}

__global__ void by_block_kernel(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to) {
  for (std::int64_t i = first(); i < rows * blocks; i += stride()) {
    to[i] = scale_at(scales, e8m0, i % rows * blocks + i / rows);
  }
}

__global__ void padded_kernel(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to) {
  const std::int64_t padded = (blocks + 3) / 4 * 4;
  for (std::int64_t i = first(); i < rows * padded; i += stride()) {
    const std::int64_t block = i % padded;
    to[i] = block < blocks ? scale_at(scales, e8m0, i / padded * blocks + block) : 0.0F;
  }
}

__global__ void squares_kernel(const __nv_bfloat16* x, const __nv_bfloat16* y, std::int64_t count, double* sums) {
  double difference = 0;
  double size = 0;
  for (std::int64_t i = first(); i < count; i += stride()) {
    const double a = __bfloat162float(x[i]);
    const double b = __bfloat162float(y[i]);
    difference += (a - b) * (a - b);
    size += a * a;
  }
  for (int step = 16; step != 0; step /= 2) {
    difference += __shfl_down_sync(0xFFFFFFFF, difference, step);
    size += __shfl_down_sync(0xFFFFFFFF, size, step);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(&sums[0], difference), atomicAdd(&sums[1], size);
}

constexpr int kWordsOfThread = 4;

__global__ void widening_kernel(const std::uint32_t* from, uint4* to, std::int64_t count) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kThreads * kWordsOfThread + threadIdx.x;
  std::uint32_t words[kWordsOfThread];
#pragma unroll
  for (int i = 0; i < kWordsOfThread; ++i)
    words[i] = begin + i * kThreads < count ? __ldcs(from + begin + i * kThreads) : 0;
#pragma unroll
  for (int i = 0; i < kWordsOfThread; ++i) {
    if (begin + i * kThreads < count) __stcs(to + begin + i * kThreads, make_uint4(words[i], 1, 2, 3));
  }
}

}  // namespace

void fill(void* to, std::int64_t count, Filling filling, std::uint32_t seed, cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(to, count, filling, seed);
  check_cuda(cudaGetLastError(), "fill");
}

void scales_by_block(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to,
                     cudaStream_t stream) {
  by_block_kernel<<<kBlocks, kThreads, 0, stream>>>(scales, e8m0, rows, blocks, to);
  check_cuda(cudaGetLastError(), "scales");
}

void scales_padded(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to,
                   cudaStream_t stream) {
  padded_kernel<<<kBlocks, kThreads, 0, stream>>>(scales, e8m0, rows, blocks, to);
  check_cuda(cudaGetLastError(), "scales");
}

void add_squares(const void* x, const void* y, std::int64_t count, double* sums, cudaStream_t stream) {
  squares_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(x),
                                                   static_cast<const __nv_bfloat16*>(y), count, sums);
  check_cuda(cudaGetLastError(), "squares");
}

// --- training tensors

namespace {

template <class T>
__global__ void training_kernel(T* to, std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols; i += step) {
    const std::uint32_t a = mixed(static_cast<std::uint64_t>(i) * 2 + seed);
    const float bell = static_cast<float>((a & 0xFF) + (a >> 8 & 0xFF) + (a >> 16 & 0xFF) + (a >> 24)) / 256.0F - 2.0F;
    const std::uint32_t b = mixed(static_cast<std::uint64_t>(i / cols) + seed * 977ULL);
    const float outlier = (a ^ b) % 4001 == 0 ? 40.0F : 1.0F;
    to[i] = static_cast<T>(ldexpf(bell * outlier, static_cast<int>(b % 7) - 3));
  }
}

__global__ void nothing() {}

}  // namespace

void fill_normal(void* to, std::int64_t rows, std::int64_t cols, bool fp32, std::uint32_t seed, cudaStream_t stream) {
  if (fp32) {
    training_kernel<<<4096, 256, 0, stream>>>(static_cast<float*>(to), rows, cols, seed);
  } else {
    training_kernel<<<4096, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(to), rows, cols, seed);
  }
  check_cuda(cudaGetLastError(), "fill");
}

void launch_widening(const void* from, void* to, std::int64_t count, cudaStream_t stream) {
  constexpr std::int64_t kEach = kThreads * kWordsOfThread;
  widening_kernel<<<static_cast<unsigned>((count + kEach - 1) / kEach), kThreads, 0, stream>>>(
      static_cast<const std::uint32_t*>(from), static_cast<uint4*>(to), count);
  check_cuda(cudaGetLastError(), "widening");
}

void launch_nothing(cudaStream_t stream) {
  nothing<<<132, 128, 0, stream>>>();
  check_cuda(cudaGetLastError(), "empty kernel");
}

// --- a layer's inputs

namespace {

__global__ void normal_kernel(__nv_bfloat16* to, std::int64_t count, float deviation, std::uint32_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::uint64_t word = mixed_word((std::uint64_t{seed} << 40) + static_cast<std::uint64_t>(i));
    const std::uint64_t a = word ^ word >> 33;
    // Four bytes have 1021 sums, too few for BF16's eight bits; what is left of the word lies between two of them.
    const std::uint64_t sum = (a & 0xFF) + (a >> 8 & 0xFF) + (a >> 16 & 0xFF) + (a >> 24 & 0xFF);
    const float fine = static_cast<float>(a >> 40) / 16777216.0F - 0.5F;
    to[i] = __float2bfloat16(deviation * (static_cast<float>(sum) - 510.0F + fine) / 147.8F);
  }
}

}  // namespace

void fill_normal(void* to, std::int64_t count, float deviation, std::uint32_t seed, cudaStream_t stream) {
  normal_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(to), count, deviation, seed);
  check_cuda(cudaGetLastError(), "fill");
}

// --- operands of the GPU model

namespace {

constexpr int kTile = 64;
constexpr int kLines = 8;  // rows of a tile that a block moves at a time

__global__ void transpose_kernel(const std::uint16_t* from, std::uint16_t* to, std::int64_t rows, std::int64_t cols) {
  __shared__ std::uint16_t tile[kTile][kTile + 2];
  const std::int64_t across = (cols + kTile - 1) / kTile;
  const std::int64_t down = (rows + kTile - 1) / kTile;
  const std::int64_t block = blockIdx.x;
  const std::int64_t matrix = block / (across * down) * rows * cols;
  const std::int64_t row = block / across % down * kTile;
  const std::int64_t col = block % across * kTile;
  const int x = static_cast<int>(threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kLines) {
    if (row + y < rows && col + x < cols) tile[y][x] = from[matrix + (row + y) * cols + col + x];
  }
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kLines) {
    if (col + y < cols && row + x < rows) to[matrix + (col + y) * rows + row + x] = tile[x][y];
  }
}

}  // namespace

void transpose_words(const void* from, void* to, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                     cudaStream_t stream) {
  const std::int64_t blocks = matrices * ((rows + kTile - 1) / kTile) * ((cols + kTile - 1) / kTile);
  if (blocks == 0) return;
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorKind::usage, "an operand has too many tiles to be transposed for the GPU model");
  }
  transpose_kernel<<<static_cast<unsigned>(blocks), dim3(kTile, kLines), 0, stream>>>(
      static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to), rows, cols);
  check_cuda(cudaGetLastError(), "transposing an operand");
}

}  // namespace mxcheck::bench
