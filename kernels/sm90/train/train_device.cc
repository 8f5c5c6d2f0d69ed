#include "kernels/sm90/train/train_device.h"

#include <algorithm>
#include <cstring>

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

OwnStream::~OwnStream() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}
void OwnStream::create() { require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }

SideStream::~SideStream() {
  if (forked_ != nullptr) cudaEventDestroy(forked_);
  if (joined_ != nullptr) cudaEventDestroy(joined_);
}

void SideStream::create() {
  stream_.create();
  require_success(cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming));
  require_success(cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming));
}

cudaStream_t SideStream::fork(cudaStream_t main) const {
  require_success(cudaEventRecord(forked_, main));
  require_success(cudaStreamWaitEvent(stream_.get(), forked_));
  return stream_.get();
}

void SideStream::join(cudaStream_t main) const {
  require_success(cudaEventRecord(joined_, stream_.get()));
  require_success(cudaStreamWaitEvent(main, joined_));
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

void Graph::capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {  // the stream must not stay in capture
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  require_success(cudaStreamEndCapture(stream, &graph));
  const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  require_success(error);
}

void Graph::launch(cudaStream_t stream) const { require_success(cudaGraphLaunch(executable_, stream)); }

void* take_pinned(std::uint64_t bytes) {
  void* memory = nullptr;
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
  require_success(cudaMallocHost(&memory, size));
  std::memset(memory, 0, size);
  return memory;
}
void drop_pinned(void* memory) {
  if (memory != nullptr) cudaFreeHost(memory);
}

}  // namespace mxcheck_kernels::sm90
