#pragma once
// One operation of a CUDA library bound to tensors on the device, ready to be enqueued again and again.

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device_memory.h"
#include "kernels/candidate.h"

namespace mxcheck::bench {

inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kBfloat16{kDLBfloat, 16, 1};

class DeviceOperation {
 public:
  // The policy is read at every call and outlives this.
  DeviceOperation(const mxcheck_operation& operation, const mxcheck_policy* policy);

  void input(void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  void output(void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  // The workspace that the call wants; before anything is captured.
  void prepare();
  void enqueue(cudaStream_t stream);  // throws Error{internal} unless the library accepts it
  // The device's report of what was wrong with the calls so far; waits for it. Empty: nothing.
  std::string report();

 private:
  static DLTensor tensor(void* data, DLDataType type, std::deque<std::array<std::int64_t, 2>>& shapes,
                         std::initializer_list<std::int64_t> shape);
  [[nodiscard]] mxcheck_call call(char* message, std::size_t bytes);

  const mxcheck_operation& operation_;
  const mxcheck_policy* policy_;
  std::deque<std::array<std::int64_t, 2>> shapes_;  // whose elements stay where they are
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
  DeviceBuffer report_;
  std::unique_ptr<DeviceBuffer> workspace_;
};

}  // namespace mxcheck::bench
