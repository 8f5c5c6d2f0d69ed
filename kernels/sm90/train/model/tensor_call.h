#pragma once
// A call of kernels/candidate.h as it is put together: tensors in the order in which they are added, contiguous, on the
// current device.

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/candidate.h"
#include "kernels/common/dtype.h"

namespace mxcheck_kernels::sm90 {

class TensorCall {
 public:
  // The policy outlives the call.
  TensorCall(const mxcheck_policy& policy, cudaStream_t stream) : policy_(&policy), stream_(stream) {
    (void)cudaGetDevice(&device_);
  }

  void in(const void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
    inputs_.push_back(tensor(data, type, shape));
  }
  void out(void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
    outputs_.push_back(tensor(data, type, shape));
  }

  // Valid while this is. Without a workspace it asks for its bytes alone.
  mxcheck_call call(void* workspace, std::uint64_t bytes, mxcheck_device_report* report) {
    mxcheck_call c{};
    c.size = sizeof(c);
    c.num_inputs = static_cast<std::int32_t>(inputs_.size()), c.inputs = inputs_.data();
    c.num_outputs = static_cast<std::int32_t>(outputs_.size()), c.outputs = outputs_.data();
    c.policy = policy_;
    c.workspace = workspace, c.workspace_bytes = bytes;
    c.stream = stream_;
    c.report = report;
    return c;
  }

 private:
  DLTensor tensor(const void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
    std::vector<std::int64_t>& kept = shapes_.emplace_back(shape);
    DLTensor t{};
    t.data = const_cast<void*>(data);
    t.device = {kDLCUDA, device_};
    t.ndim = static_cast<std::int32_t>(kept.size()), t.shape = kept.data();
    t.dtype = type;
    return t;
  }

  const mxcheck_policy* policy_;
  cudaStream_t stream_;
  int device_ = 0;
  std::deque<std::vector<std::int64_t>> shapes_;
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
};

inline mxcheck_policy empty_policy(const char* recipe, std::int64_t rows, std::int64_t cols) {
  mxcheck_policy policy{};
  policy.format = "", policy.recipe = recipe;
  policy.rows = rows, policy.cols = cols;
  return policy;
}

}  // namespace mxcheck_kernels::sm90
