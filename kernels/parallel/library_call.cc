#include "kernels/parallel/library_call.h"

#include <array>
#include <string>

#include "kernels/parallel/parallel_error.h"

namespace mxcheck_kernels::parallel {

DLTensor LibraryCall::tensor(void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
  shapes_.emplace_back(shape);
  DLTensor t{};
  t.data = data, t.dtype = type, t.device = {device_.type(), 0};
  t.ndim = static_cast<std::int32_t>(shape.size()), t.shape = shapes_.back().data();
  return t;
}

LibraryCall& LibraryCall::in(const void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
  inputs_.push_back(tensor(const_cast<void*>(data), type, shape));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return *this;
}

LibraryCall& LibraryCall::out(void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
  outputs_.push_back(tensor(data, type, shape));
  return *this;
}

void LibraryCall::run(Scratch& scratch) {
  std::array<char, 512> message{};
  mxcheck_call call{};
  call.size = sizeof(call), call.policy = policy_;
  call.num_inputs = static_cast<std::int32_t>(inputs_.size()), call.inputs = inputs_.data();
  call.num_outputs = static_cast<std::int32_t>(outputs_.size()), call.outputs = outputs_.data();
  call.stream = device_.stream();
  call.message = message.data(), call.message_bytes = message.size();
  if (device_.type() != kDLCPU) {
    if (scratch.report.data() == nullptr) {
      scratch.report = Memory(device_, sizeof(mxcheck_device_report));
      device_.clear(scratch.report.data(), sizeof(mxcheck_device_report));
    }
    call.report = static_cast<mxcheck_device_report*>(scratch.report.data());
  }
  const auto require_ok = [&](mxcheck_status status) {
    if (status == MXCHECK_OK) return;
    throw ParallelError(Fault::configuration, std::string("the library refuses ") + operation_.name + ": " +
                                                  (message[0] == '\0' ? "no reason given" : message.data()));
  };
  if (operation_.workspace != nullptr) {
    require_ok(operation_.workspace(&call, &call.workspace_bytes));
    if (call.workspace_bytes > scratch.workspace.bytes()) {
      scratch.workspace = Memory();
      scratch.workspace = Memory(device_, call.workspace_bytes);
    }
    if (call.workspace_bytes != 0) call.workspace = scratch.workspace.data();
  }
  require_ok(operation_.run(&call));
}

void check_report(Device& device, const Scratch& scratch) {
  if (scratch.report.data() == nullptr) return;
  mxcheck_device_report report{};
  device.to_host(&report, scratch.report.data(), sizeof(report));
  if (report.status == MXCHECK_OK) return;
  report.message[sizeof(report.message) - 1] = '\0';
  throw ParallelError(Fault::configuration, std::string("the library's kernel refuses its arguments: ") +
                                                report.message + ", at " + std::to_string(report.index) + " is " +
                                                std::to_string(report.value));
}

}  // namespace mxcheck_kernels::parallel
