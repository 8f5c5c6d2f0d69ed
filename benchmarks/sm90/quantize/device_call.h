#pragma once
// One operation of a CUDA library bound to device memory of its own, as the gate binds it, ready to be enqueued again
// and again; with enough copies of its tensors that no run finds them in L2.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device_memory.h"
#include "kernels/candidate.h"
#include "numerics/format/format.h"
#include "reference/common/matrix.h"

namespace mxcheck::bench {

struct DeviceRequest {
  std::string operation = "quantize";
  Format wide = Format::bf16;
  Format element = Format::e4m3;
  BlockShape block{1, 32};
  bool tiled = true;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  int experts = 0;      // ragged, some empty; 0: no offsets
  bool gather = false;  // rows by index, from as many
  [[nodiscard]] std::string text() const;
};

// Fills with values of training tensors: normal, with row scales and outliers. fill.cu.
void fill_normal(void* to, std::int64_t rows, std::int64_t cols, bool fp32, std::uint32_t seed, cudaStream_t stream);
// Kernels that do nothing, for what a launch alone takes.
void launch_nothing(cudaStream_t stream);

class DeviceCall {
 public:
  DeviceCall(const mxcheck_operation& operation, const DeviceRequest& request, std::uint64_t least_bytes);
  void enqueue(cudaStream_t stream);  // the next copy's; throws Error{internal} unless the library accepts it
  // Runs once, over poison, and compares every output byte with the reference: "" or what differs.
  std::string difference(cudaStream_t stream);
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // read plus written by one run
  [[nodiscard]] std::size_t copies() const { return sets_.size(); }

 private:
  struct Set {
    std::vector<DeviceBuffer> memory;
    std::vector<DLTensor> inputs;
    std::vector<DLTensor> outputs;
  };
  void add(Set& set, bool input, DLDataType type, std::vector<std::int64_t> shape);
  void add_scales(Set& set, bool input, BlockShape block);

  const mxcheck_operation& operation_;
  DeviceRequest request_;
  mxcheck_policy policy_{};
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> index_;
  std::vector<std::unique_ptr<std::int64_t[]>> shapes_;
  std::vector<Set> sets_;
  std::unique_ptr<DeviceBuffer> workspace_;
  std::size_t next_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace mxcheck::bench
