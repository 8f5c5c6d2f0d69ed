#include "kernels/sm90/train/model/buffers.h"

#include <algorithm>

#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"

namespace mxcheck_kernels::sm90 {

Buffers::~Buffers() {
  for (const auto& [name, data] : owned_) cudaFree(data);
}

void* Buffers::take_bytes(const std::string& name, std::int64_t count, std::uint64_t element_bytes) {
  const std::uint64_t bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(count) * element_bytes, 1);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Refusal(MXCHECK_NO_MEMORY, "the device has no " + std::to_string(bytes) + " bytes left for " + name);
  }
  require_success(error);
  owned_[name] = data;
  // Done before anything else can be: a stream that does not wait for the default one may upload to it next.
  require_success(cudaMemset(data, 0, bytes));
  require_success(cudaStreamSynchronize(cudaStreamLegacy));
  parts_[name] = {data, static_cast<std::uint64_t>(count) * element_bytes};
  return data;
}

Buffers::Part Buffers::find(const std::string& name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) invalid("there is no tensor '" + name + "': \"\" gives the list");
  return found->second;
}

std::string Buffers::names() const {
  std::string all;
  for (const auto& [name, part] : parts_) all += name + "\n";
  return all;
}

}  // namespace mxcheck_kernels::sm90
