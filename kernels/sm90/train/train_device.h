#pragma once
// A run's device: memory by name, copies, streams, CUDA graphs of their work, and memory of the host that the device
// reads and writes while the host goes on.
//
// Errors: Refusal{NO_MEMORY, DEVICE_ERROR}; Refusal{INVALID} of Buffers::find() for a name that there is not.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "kernels/sm90/common/arguments.h"

namespace mxcheck_kernels::sm90 {

// Device memory of a run: everything is taken once, holds zeros at first, and can be read back by its name.
class Buffers {
 public:
  Buffers() = default;
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  template <class T>
  T* take(const std::string& name, std::int64_t count) {
    return static_cast<T*>(take_bytes(name, count, sizeof(T)));
  }

  // Part of what was taken, under a name of its own.
  void name_part(const std::string& name, const void* data, std::uint64_t bytes) { parts_[name] = {data, bytes}; }

  struct Part {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Part find(const std::string& name) const;
  [[nodiscard]] std::string names() const;  // a line each

 private:
  void* take_bytes(const std::string& name, std::int64_t count, std::uint64_t element_bytes);

  std::map<std::string, Part> parts_;
  std::map<std::string, void*> owned_;
};

// Copies between the host and the device that a stream makes in its turn.
template <class T>
void upload(T* to, const T* from, std::int64_t count, cudaStream_t stream) {
  require_success(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), cudaMemcpyHostToDevice, stream));
}
template <class T>
void download(T* to, const T* from, std::int64_t count, cudaStream_t stream) {
  require_success(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), cudaMemcpyDeviceToHost, stream));
}

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
