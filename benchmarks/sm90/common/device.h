#pragma once
// Memory of the device, times of work on it, and one operation of a CUDA library bound to tensors there.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/sm90/common/card.h"
#include "kernels/candidate.h"
#include "properties/core/call.h"
#include "properties/gpu_model/gpu_model.h"

namespace mxcheck::bench {

// --- memory!
//
// Memory of the device, its card, and CUDA's errors as exceptions.

// Throws Error{environment} with CUDA's words.
void check_cuda(cudaError_t error, const char* what);

// That CUDA has chosen for this thread.
Card current_card();

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::uint64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// --- times
//
// Times of work on the device, by CUDA events around graphs.

struct Spread {
  double median = 0;  // microseconds
  double least = 0;
  double most = 0;
};

class Timer {
 public:
  Timer() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check_cuda(cudaEventCreate(&begin_), "event");
    check_cuda(cudaEventCreate(&end_), "event");
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  // Microseconds of one `work`, from graphs of several one after another: launches cost the host, not the measurement.
  template <class Work>
  Spread time(int samples, int together, const Work& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < together; ++i) work();
    check_cuda(cudaStreamEndCapture(stream_, &graph), "capture");
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "graph");
    std::vector<double> times;
    for (int i = -3; i < samples; ++i) {
      check_cuda(cudaEventRecord(begin_, stream_), "event");
      check_cuda(cudaGraphLaunch(executable, stream_), "graph");
      check_cuda(cudaEventRecord(end_, stream_), "event");
      check_cuda(cudaEventSynchronize(end_), "event");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "event");
      if (i >= 0) times.push_back(1000.0 * ms / together);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front(), times.back()};
  }

  // Bytes per second, read and written, of device-to-device copies of this size, `together` of them over different
  // memory.
  double copy_rate(int samples, int together, std::uint64_t bytes) {
    const std::uint64_t size = std::max<std::uint64_t>(bytes / 4096 * 4096, 4096);
    const std::uint64_t all = size * static_cast<std::uint64_t>(together);
    const DeviceBuffer memory(2 * all);
    check_cuda(cudaMemset(memory.data(), 0x3C, memory.bytes()), "fill");
    check_cuda(cudaDeviceSynchronize(), "fill");  // the timer's stream does not wait for the default one
    std::uint64_t at = 0;
    const Spread one = time(samples, together, [&] {
      char* from = static_cast<char*>(memory.data()) + at;
      check_cuda(cudaMemcpyAsync(from + all, from, size, cudaMemcpyDeviceToDevice, stream_), "copy");
      at = (at + size) % all;
    });
    return 2e6 * static_cast<double>(size) / one.median;
  }

  // The best of large copies: the driver's way depends on the size, and 2.7 and 4.3 TB/s were seen side by side.
  double large_copy_rate(int samples) {
    static constexpr std::uint64_t kMib[] = {256, 340, 455, 512, 1024, 1358, 1820, 2048};
    double best = 0;
    for (const std::uint64_t mib : kMib) {
      best = std::max(best, copy_rate(samples, 1, mib << 20));
    }
    return best;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// --- operations
//
// One operation of a CUDA library bound to tensors on the device, ready to be enqueued again and again.

inline constexpr DLDataType kByte{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kBfloat16{kDLBfloat, 16, 1};

class DeviceOperation {
 public:
  DeviceOperation(const mxcheck_operation& operation, const Policy& policy);

  void input(void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  void output(void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  // The workspace that the call wants, that of `other` where it is one's own size; before anything is captured.
  void prepare(const DeviceOperation* other = nullptr);
  void enqueue(cudaStream_t stream);  // throws Error{internal} unless the library accepts it
  // The device's report of what was wrong with the calls so far; waits for it. Empty: nothing.
  std::string report();
  // Runs once over poison. Empty where every output is what the gate answers to this call, by bits.
  std::string difference(cudaStream_t stream);

 private:
  static DLTensor tensor(void* data, DLDataType type, std::deque<std::array<std::int64_t, 2>>& shapes,
                         std::initializer_list<std::int64_t> shape);
  [[nodiscard]] mxcheck_call call(char* message, std::size_t bytes);
  [[nodiscard]] Call posed() const;  // with copies of the inputs on the host

  const mxcheck_operation& operation_;
  Policy policy_;
  PolicyInPlace policy_in_place_;
  std::deque<std::array<std::int64_t, 2>> shapes_;  // whose elements stay where they are
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
  DeviceBuffer report_;
  std::shared_ptr<DeviceBuffer> workspace_;
};

// --- the GPU model

struct ModelRun {
  MxcheckGpuModelReport report{};
  double seconds = 0;
};
// Compares an output on the device with the model's, by `compare` of a library that has it. Report and stream are set
// here. Error{internal} with the model's words where it refuses the call.
ModelRun run_model(decltype(&mxcheck_gpu_model_compare) compare, MxcheckGpuModelCall call, cudaStream_t stream);

}  // namespace mxcheck::bench
