#include "benchmarks/sm90/moe/model/transpose.h"

#include <limits>

#include "benchmarks/sm90/common/device_memory.h"
#include "numerics/error.h"

namespace mxcheck::bench {
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
