#include "benchmarks/sm90/common/device_memory.h"

#include <algorithm>
#include <string>

#include "numerics/error.h"

namespace mxcheck::bench {

void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw Error(ErrorKind::environment, std::string(what) + ": CUDA error " + cudaGetErrorString(error));
  }
}

DeviceBuffer::DeviceBuffer(std::uint64_t bytes) : bytes_(bytes) {
  check_cuda(cudaMalloc(&data_, std::max<std::uint64_t>(bytes, 1)), "cudaMalloc");
}
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

}  // namespace mxcheck::bench
