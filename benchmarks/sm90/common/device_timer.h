#pragma once
// Times of work on the device, by CUDA events around graphs.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "benchmarks/sm90/common/device_memory.h"

namespace mxcheck::bench {

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

}  // namespace mxcheck::bench
