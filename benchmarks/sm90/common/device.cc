#include "benchmarks/sm90/common/device.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/core/compare.h"
#include "properties/core/operation.h"

namespace mxcheck::bench {

void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw Error(ErrorKind::environment, std::string(what) + ": CUDA error " + cudaGetErrorString(error));
  }
}

namespace {

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos) return word;
  }
  return "";
}

}  // namespace

Card current_card() {
  int device = 0;
  int clock = 0;
  int memory_clock = 0;
  int cuda = 0;
  cudaDeviceProp properties{};
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "device");
  check_cuda(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device), "clock");
  check_cuda(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, device), "clock");
  check_cuda(cudaDriverGetVersion(&cuda), "driver");
  return {properties.name, properties.multiProcessorCount, clock / 1000, memory_clock / 1000, driver_version(), cuda};
}

DeviceBuffer::DeviceBuffer(std::uint64_t bytes) : bytes_(bytes) {
  check_cuda(cudaMalloc(&data_, std::max<std::uint64_t>(bytes, 1)), "cudaMalloc");
}
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

namespace {

constexpr std::uint8_t kPoison = 0xA5;

std::uint64_t bytes_of(const DLTensor& t) {
  std::uint64_t bytes = t.dtype.bits / 8U;
  for (int i = 0; i < t.ndim; ++i) bytes *= static_cast<std::uint64_t>(t.shape[i]);
  return bytes;
}

std::vector<std::byte> downloaded(const DLTensor& t) {
  std::vector<std::byte> bytes(bytes_of(t));
  check_cuda(cudaMemcpy(bytes.data(), t.data, bytes.size(), cudaMemcpyDeviceToHost), "download");
  return bytes;
}

}  // namespace

DeviceOperation::DeviceOperation(const mxcheck_operation& operation, const Policy& policy)
    : operation_(operation), policy_(policy), policy_in_place_(policy), report_(sizeof(mxcheck_device_report)) {
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
  c.policy = policy_in_place_.get();
  c.inputs = inputs_.data(), c.outputs = outputs_.data();
  c.message = message, c.message_bytes = bytes;
  c.report = static_cast<mxcheck_device_report*>(report_.data());
  if (workspace_) c.workspace = workspace_->data(), c.workspace_bytes = workspace_->bytes();
  return c;
}

void DeviceOperation::prepare(const DeviceOperation* other) {
  if (operation_.workspace == nullptr) return;
  std::array<char, 512> message{};
  const mxcheck_call c = call(message.data(), message.size());
  std::uint64_t bytes = 0;
  if (operation_.workspace(&c, &bytes) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, std::string(operation_.name) + ": " + message.data());
  }
  if (bytes == 0) return;
  if (other != nullptr && other->workspace_ && other->workspace_->bytes() == bytes) {
    workspace_ = other->workspace_;
    return;
  }
  workspace_ = std::make_shared<DeviceBuffer>(bytes);
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

Call DeviceOperation::posed() const {
  const auto described = [](const DLTensor& t) {
    CallTensor tensor;
    tensor.dtype = t.dtype.code == kDLBfloat ? Format::bf16 : t.dtype.code == kDLFloat ? Format::fp32 : Format::e4m3;
    tensor.is_offsets = t.dtype.code == kDLInt && t.dtype.bits == 64;
    tensor.is_index = t.dtype.code == kDLInt && t.dtype.bits == 32;
    tensor.shape.assign(t.shape, t.shape + t.ndim);
    tensor.bytes = bytes_of(t);
    return tensor;
  };
  Call call;
  call.operation = operation_.name;
  call.policy = policy_;
  for (const DLTensor& t : inputs_) {
    call.inputs.push_back(described(t));
    call.inputs.back().data = call.own(downloaded(t));
  }
  for (const DLTensor& t : outputs_) call.outputs.push_back(described(t));
  return call;
}

std::string DeviceOperation::difference(cudaStream_t stream) {
  for (const DLTensor& t : outputs_) check_cuda(cudaMemsetAsync(t.data, kPoison, bytes_of(t), stream), "poison");
  enqueue(stream);
  check_cuda(cudaStreamSynchronize(stream), "the call");
  if (std::string found = report(); !found.empty()) return found;
  const Call call = posed();
  const std::vector<ExpectedTensor> answer = operation_named(call.operation).problem_of(call)->answer();
  if (answer.size() != outputs_.size()) throw Error(ErrorKind::internal, call.operation + " has other outputs");
  for (std::size_t o = 0; o < answer.size(); ++o) {
    const std::vector<std::byte> observed = downloaded(outputs_[o]);
    if (observed.size() != answer[o].bytes.size()) return answer[o].info.name + " has another size";
    const std::optional<Difference> d = compare(answer[o].info, answer[o].bytes, observed, kPoison);
    if (!d) continue;
    return fmt::format("{}: {} of {} elements differ, first at ({}, {}): expected {}, observed {}", d->tensor.name,
                       d->count, d->total, d->first.row, d->first.col, expected_text(*d), observed_text(*d));
  }
  return "";
}

ModelRun run_model(decltype(&mxcheck_gpu_model_compare) compare, MxcheckGpuModelCall call, cudaStream_t stream) {
  const DeviceBuffer report(sizeof(MxcheckGpuModelReport));
  call.mode = MXCHECK_GPU_MODEL_COMPARE;
  call.row_end = call.m;
  call.report = static_cast<MxcheckGpuModelReport*>(report.data());
  call.stream = stream;
  check_cuda(cudaStreamSynchronize(stream), "what the GPU model reads");
  const auto start = std::chrono::steady_clock::now();
  std::array<char, 256> message{};
  if (compare(&call, message.data(), message.size()) != 0) {
    throw Error(ErrorKind::internal, std::string("the GPU model: ") + message.data());
  }
  check_cuda(cudaStreamSynchronize(stream), "the GPU model");
  ModelRun run;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  check_cuda(cudaMemcpy(&run.report, report.data(), sizeof run.report, cudaMemcpyDeviceToHost), "the model's report");
  return run;
}

}  // namespace mxcheck::bench
