#pragma once
// A call of the Hopper library in one allocation of the device, whose outputs are poisoned before each run; tests
// change of it what they like. Without a device the allocation is the host's, which is the last thing to be refused.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/loaded_library.h"

namespace mxcheck::test {

class DeviceInterface : public ::testing::Test {
 protected:
  // Where in the allocation what is.
  struct Places {
    std::size_t outputs;  // and nothing else up to outputs_end
    std::size_t outputs_end;
    std::size_t workspace;
    std::size_t workspace_bytes;
    std::size_t report;  // the last
  };

  DeviceInterface(const char* name, const Places& places, const mxcheck_policy& policy)
      : operation(&mxcheck::operation(*mxcheck_candidate(), name)),
        host(places.report + sizeof(mxcheck_device_report)),
        places_(places) {
    int devices = 0;
    on_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0;
    if (!on_device || cudaMalloc(reinterpret_cast<void**>(&arena), host.size()) != cudaSuccess) arena = host.data();
    call.size = sizeof(call), call.policy = &policy;
    call.message = message, call.message_bytes = sizeof(message);
    call.workspace = arena + places.workspace, call.workspace_bytes = places.workspace_bytes;
    call.report = reinterpret_cast<mxcheck_device_report*>(arena + places.report);
    put(places.report, std::vector<char>(sizeof(mxcheck_device_report)));
  }
  ~DeviceInterface() override {
    if (arena != host.data()) cudaFree(arena);
  }

  template <class T>
  void put(std::size_t at, const std::vector<T>& values) {
    if (arena == host.data()) return;
    ASSERT_EQ(cudaMemcpy(arena + at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  DLTensor tensor(std::size_t at, DLDataType type, std::int64_t* shape, int rank = 2) const {
    DLTensor t{};
    t.data = arena + at, t.device = {kDLCUDA, 0}, t.ndim = rank, t.dtype = type, t.shape = shape;
    return t;
  }

  mxcheck_status run() {
    call.num_inputs = static_cast<std::int32_t>(inputs.size()), call.inputs = inputs.data();
    call.num_outputs = static_cast<std::int32_t>(outputs.size()), call.outputs = outputs.data();
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
  std::vector<DLTensor> inputs;
  std::vector<DLTensor> outputs;

 private:
  Places places_;
};

}  // namespace mxcheck::test
