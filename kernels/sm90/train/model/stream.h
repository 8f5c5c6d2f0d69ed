#pragma once
// A run's stream, what of it is replayed as a CUDA graph, and memory of the host that the device reads and writes while
// the host goes on.
//
// Errors: Refusal{DEVICE_ERROR}.

#include <cstdint>
#include <functional>
#include <type_traits>

#include <cuda_runtime_api.h>

namespace mxcheck_kernels::sm90 {

// A stream that does not wait for the default one. Its end waits for what is on it.
class OwnStream {
 public:
  OwnStream() = default;
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  void create();
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A second stream for work that nothing on the first waits for until join(): beside it, in a graph too.
class SideStream {
 public:
  SideStream() = default;
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  void create();
  // Work enqueued on the stream returned comes after what `main` has so far.
  [[nodiscard]] cudaStream_t fork(cudaStream_t main) const;
  // Work that `main` gets from here on comes after what the side stream has so far.
  void join(cudaStream_t main) const;

 private:
  OwnStream stream_;
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
};

// Work that is captured once and replayed.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  [[nodiscard]] bool captured() const { return executable_ != nullptr; }
  void capture(cudaStream_t stream, const std::function<void()>& enqueue);
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

void* take_pinned(std::uint64_t bytes);
void drop_pinned(void* memory);

// An array of the host's, pinned, of zeros at first.
template <class T>
class Pinned {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  Pinned() = default;
  ~Pinned() { drop_pinned(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void create(std::int64_t count) {
    data_ = static_cast<T*>(take_pinned(static_cast<std::uint64_t>(count) * sizeof(T)));
    count_ = count;
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::int64_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace mxcheck_kernels::sm90
