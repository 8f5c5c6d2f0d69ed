#pragma once
// A call of the layer's elementwise steps: policy and tensors, on the device, and the same call on the host.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device_operation.h"
#include "kernels/candidate_layer.h"

namespace mxcheck::bench {

inline constexpr DLDataType kByte{kDLUInt, 8, 1};

enum class Content : std::uint8_t { normal, given, output };

struct LayerTensor {
  DLDataType type{};
  std::vector<std::int64_t> shape;
  Content content = Content::output;
  std::vector<std::uint8_t> given;

  [[nodiscard]] std::uint64_t elements() const;
  [[nodiscard]] std::uint64_t bytes() const { return elements() * (type.bits / 8U); }
};

// An operation's name, what it is asked for, and its tensors.
struct LayerRequest {
  std::string operation;
  std::string text;
  mxcheck_swiglu_policy swiglu{};  // its first member is the policy of quantize_transposed
  mxcheck_aggregate_policy aggregate{};
  std::vector<LayerTensor> inputs;
  std::vector<LayerTensor> outputs;
  std::uint64_t traffic = 0;  // bytes that must be read and written

  [[nodiscard]] const mxcheck_policy* policy() const {
    return operation == "aggregate" ? &aggregate.policy : &swiglu.policy;
  }
};

// The calls that are measured; `shrink` divides the rows.
std::vector<LayerRequest> layer_requests(std::int64_t shrink);

class LayerCall {
 public:
  LayerCall(const mxcheck_operation& operation, const LayerRequest& request);
  void enqueue(cudaStream_t stream) { call_.enqueue(stream); }
  // Runs the same call on the host; empty where every output has the same bytes.
  std::string difference(const mxcheck_operation& on_host, cudaStream_t stream);

 private:
  const LayerRequest& request_;
  std::deque<DeviceBuffer> inputs_;
  std::deque<DeviceBuffer> outputs_;
  DeviceOperation call_;
};

}  // namespace mxcheck::bench
