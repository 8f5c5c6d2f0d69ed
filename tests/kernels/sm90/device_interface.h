#pragma once
// A call of the Hopper library in one allocation of the device, whose outputs are poisoned before each run; tests
// change of it what they like. Without a device the allocation is the host's, which is the last thing to be refused.
//
//   struct QuantizeCall : DeviceCall { QuantizeCall() : DeviceCall("quantize", ...) { inputs = ...; } };
//   expect_refused<QuantizeCall>({{"row stride 95", [](auto& c) { c.shapes[0][1] = 97; }}});

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/loaded_library.h"

namespace mxcheck::test {

struct DeviceCall {
  // Where in the allocation what is.
  struct Places {
    std::size_t outputs;  // and nothing else up to outputs_end
    std::size_t outputs_end, workspace, workspace_bytes;
    std::size_t report;  // the last
  };

  DeviceCall(const char* name, const Places& places, mxcheck_policy& policy, bool on_host = false)
      : operation(&mxcheck::operation(*mxcheck_candidate(), name)),
        host(places.report + sizeof(mxcheck_device_report)),
        places_(places) {
    int devices = 0;
    on_device = !on_host && cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0;
    if (!on_device || cudaMalloc(reinterpret_cast<void**>(&arena), host.size()) != cudaSuccess) arena = host.data();
    call.size = sizeof(call), call.policy = &policy, call.message = message, call.message_bytes = sizeof(message);
    call.workspace = arena + places.workspace, call.workspace_bytes = places.workspace_bytes;
    call.report = reinterpret_cast<mxcheck_device_report*>(arena + places.report);
    put(places.report, std::vector<char>(sizeof(mxcheck_device_report)));
  }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;
  ~DeviceCall() {
    if (arena != host.data()) cudaFree(arena);
  }

  template <class T>
  void put(std::size_t at, const std::vector<T>& values) {
    if (arena == host.data()) return;
    ASSERT_EQ(cudaMemcpy(arena + at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  DLTensor tensor(std::size_t at, DLDataType type, std::vector<std::int64_t> shape) {
    auto& own = shapes.emplace_back(std::move(shape));
    DLTensor t{};
    t.data = arena + at, t.device = {kDLCUDA, 0}, t.dtype = type;
    t.ndim = static_cast<std::int32_t>(own.size()), t.shape = own.data();
    return t;
  }

  void set_stride(std::int64_t rows, DLTensor& t) {
    strides = {rows, 1};
    t.strides = strides.data();
  }

  std::uint64_t workspace() {
    fill_in();
    std::uint64_t bytes = 0;
    EXPECT_EQ(operation->workspace(&call, &bytes), MXCHECK_OK) << message;
    return bytes;
  }
  mxcheck_status run() {
    fill_in();
    if (!on_device) return operation->run(&call);
    EXPECT_EQ(cudaMemset(arena + places_.outputs, kPoison, places_.outputs_end - places_.outputs), cudaSuccess);
    const mxcheck_status status = operation->run(&call);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return status;
  }
  [[nodiscard]] bool untouched() const {
    if (!on_device) return true;
    std::vector<unsigned char> bytes(places_.outputs_end - places_.outputs);
    EXPECT_EQ(cudaMemcpy(bytes.data(), arena + places_.outputs, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == kPoison; });
  }
  void expect_refused(const char* words, mxcheck_status status = MXCHECK_INVALID) {
    EXPECT_EQ(run(), status);
    EXPECT_NE(std::string(message).find(words), std::string::npos) << message;
    EXPECT_TRUE(untouched());
  }
  void expect_refused_on_the_device(const char* words, std::int64_t index, std::int64_t value) {
    EXPECT_EQ(run(), MXCHECK_OK) << message;
    mxcheck_device_report report{};
    ASSERT_EQ(cudaMemcpy(&report, call.report, sizeof(report), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(report.status, MXCHECK_INVALID);
    EXPECT_NE(std::string(report.message).find(words), std::string::npos) << report.message;
    EXPECT_EQ(report.index, index);
    EXPECT_EQ(report.value, value);
    EXPECT_TRUE(untouched());
  }

  static constexpr unsigned char kPoison = 0xA5;
  const mxcheck_operation* operation;
  std::vector<unsigned char> host;
  unsigned char* arena = nullptr;
  bool on_device = false;
  mxcheck_call call{};
  char message[512] = "";
  std::vector<DLTensor> inputs, outputs;
  std::deque<std::vector<std::int64_t>> shapes;  // in the order in which tensors were made; addresses stay
  std::array<std::int64_t, 2> strides{};

 private:
  void fill_in() {
    call.num_inputs = static_cast<std::int32_t>(inputs.size()), call.inputs = inputs.data();
    call.num_outputs = static_cast<std::int32_t>(outputs.size()), call.outputs = outputs.data();
  }

  Places places_;
};

// A good call that is made wrong in one way, and a part of what is said of it.
template <class Call>
struct Spoilt {
  const char* words;
  std::function<void(Call&)> spoil;
  mxcheck_status status = MXCHECK_INVALID;
};
template <class Call>
void expect_refused(const std::vector<Spoilt<Call>>& rows) {
  for (const auto& row : rows) {
    SCOPED_TRACE(row.words);
    Call call;
    row.spoil(call);
    call.expect_refused(row.words, row.status);
  }
}

// The same of what only the device sees, with the place and the value that it names.
template <class Call>
struct SpoiltOnDevice {
  const char* words;
  std::int64_t index, value;
  std::function<void(Call&)> spoil;
};
template <class Call>
void expect_refused_on_the_device(const std::vector<SpoiltOnDevice<Call>>& rows) {
  for (const auto& row : rows) {
    SCOPED_TRACE(row.words);
    Call call;
    row.spoil(call);
    call.expect_refused_on_the_device(row.words, row.index, row.value);
  }
}

}  // namespace mxcheck::test
