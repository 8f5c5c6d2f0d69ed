#include "benchmarks/sm90/common/device_operation.h"

#include <algorithm>

#include "numerics/error.h"

namespace mxcheck::bench {

DeviceOperation::DeviceOperation(const mxcheck_operation& operation, const mxcheck_policy* policy)
    : operation_(operation), policy_(policy), report_(sizeof(mxcheck_device_report)) {
  check_cuda(cudaMemset(report_.data(), 0, report_.bytes()), "report");
}

DLTensor DeviceOperation::tensor(void* data, DLDataType type, std::deque<std::array<std::int64_t, 2>>& shapes,
                                 std::initializer_list<std::int64_t> shape) {
  auto& kept = shapes.emplace_back();
  std::copy(shape.begin(), shape.end(), kept.begin());
  DLTensor t{};
  t.data = data, t.device = {kDLCUDA, 0}, t.dtype = type;
  t.ndim = static_cast<int>(shape.size()), t.shape = kept.data();
  return t;
}

void DeviceOperation::input(void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
  inputs_.push_back(tensor(data, type, shapes_, shape));
}

void DeviceOperation::output(void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
  outputs_.push_back(tensor(data, type, shapes_, shape));
}

mxcheck_call DeviceOperation::call(char* message, std::size_t bytes) {
  mxcheck_call c{};
  c.size = sizeof c;
  c.num_inputs = static_cast<std::int32_t>(inputs_.size()), c.num_outputs = static_cast<std::int32_t>(outputs_.size());
  c.policy = policy_;
  c.inputs = inputs_.data(), c.outputs = outputs_.data();
  c.message = message, c.message_bytes = bytes;
  c.report = static_cast<mxcheck_device_report*>(report_.data());
  if (workspace_) c.workspace = workspace_->data(), c.workspace_bytes = workspace_->bytes();
  return c;
}

void DeviceOperation::prepare() {
  if (operation_.workspace == nullptr) return;
  std::array<char, 512> message{};
  const mxcheck_call c = call(message.data(), message.size());
  std::uint64_t bytes = 0;
  if (operation_.workspace(&c, &bytes) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, std::string(operation_.name) + ": " + message.data());
  }
  if (bytes == 0) return;
  workspace_ = std::make_unique<DeviceBuffer>(bytes);
  check_cuda(cudaMemset(workspace_->data(), 0xA5, bytes), "workspace");
  check_cuda(cudaDeviceSynchronize(), "workspace");
}

void DeviceOperation::enqueue(cudaStream_t stream) {
  std::array<char, 512> message{};
  mxcheck_call c = call(message.data(), message.size());
  c.stream = stream;
  if (operation_.run(&c) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, std::string(operation_.name) + ": " + message.data());
  }
}

std::string DeviceOperation::report() {
  check_cuda(cudaDeviceSynchronize(), operation_.name);
  mxcheck_device_report found{};
  check_cuda(cudaMemcpy(&found, report_.data(), sizeof found, cudaMemcpyDeviceToHost), "report");
  return found.status == MXCHECK_OK ? "" : found.message;
}

}  // namespace mxcheck::bench
