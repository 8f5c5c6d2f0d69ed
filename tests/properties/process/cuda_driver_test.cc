// The driver's calls, on the driver of host memory of tests/cuda.

#include "properties/process/cuda_driver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "numerics/error.h"
#include "tests/cuda/fake.h"

namespace mxcheck {
namespace {

TEST(CudaDevice, describes_itself) {
  const auto pairs = CudaDevice().description();
  std::map<std::string, std::string> all(pairs.begin(), pairs.end());
  EXPECT_EQ(all["device"], "Fake GPU");
  EXPECT_EQ(all["compute capability"], "9.9");
  EXPECT_EQ(all["multiprocessors"], "9");
  EXPECT_EQ(all["device memory"], "1024 MiB");
  EXPECT_TRUE(all["driver"].starts_with("CUDA 13.0")) << all["driver"];
}

TEST(CudaDevice, a_machine_without_one_is_an_error_of_the_environment) {
  setenv("FAKE_NO_DEVICE", "1", 1);
  try {
    const CudaDevice device;
    ADD_FAILURE() << "there is a device";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::environment);
    EXPECT_STREQ(e.what(), "there is no CUDA device");
  }
  unsetenv("FAKE_NO_DEVICE");
}

TEST(CudaDevice, memory_is_filled_and_copied_in_the_order_of_the_stream) {
  CudaDevice device;
  CudaHandle stream = device.create_stream();
  const CudaPointer a = device.allocate(64);
  const CudaPointer b = device.allocate(64);
  const std::array<char, 4> word{'w', 'o', 'r', 'd'};
  std::array<char, 8> got{};
  device.fill(a, 0x2E, 64, stream);
  device.to_device(a + 2, word.data(), word.size(), stream);
  device.copy(b, a, 64, stream);
  device.fill(a, 0, 64, stream);
  device.to_host(got.data(), b, got.size(), stream);
  device.synchronize(stream);
  EXPECT_EQ(std::string(got.data(), got.size()), "..word..");
  device.fill(a, 1, 0, stream);  // nothing at all is no call of the driver
  device.free(a), device.free(b), device.free(0);
}

void count(void* at) { ++*static_cast<int*>(at); }

TEST(CudaDevice, what_is_captured_runs_when_its_graph_is_launched) {
  CudaDevice device;
  CudaHandle stream = device.create_stream();
  int runs = 0;
  device.begin_capture(stream);
  device.run_on_host(stream, count, &runs);
  CudaHandle graph = device.end_capture(stream);
  ASSERT_NE(graph, nullptr);
  CudaHandle executable = device.instantiate(graph);
  device.synchronize(stream);
  EXPECT_EQ(runs, 0);
  for (int launch = 1; launch <= 2; ++launch) {
    device.launch(executable, stream);
    device.synchronize(stream);
    EXPECT_EQ(runs, launch);
  }
  device.destroy_graph(graph, executable);
}

TEST(CudaDevice, a_spoiled_capture_gives_no_graph) {
  CudaDevice device;
  CudaHandle stream = device.create_stream();
  device.begin_capture(stream);
  const CudaPointer memory = device.allocate(16);
  EXPECT_EQ(device.end_capture(stream), nullptr);
  device.free(memory);
}

// In a process of its own: no later call of the driver would succeed.
TEST(CudaDevice, a_call_that_fails_says_so_in_the_drivers_words) {
  const auto fail = [] {
    CudaDevice device;
    fake_fault();
    try {
      device.synchronize(nullptr);
    } catch (const CudaFailure& failure) {
      std::fputs(failure.what.c_str(), stderr);
      _exit(failure.code == 700 ? 7 : 1);
    }
    _exit(0);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(7), "CUDA error 700, an illegal memory access was encountered");
}

TEST(CudaDevice, guarded_memory_ends_at_addresses_where_nothing_is) {
  CudaDevice device;
  const CudaDevice::Guarded memory = device.allocate_guarded(5000);
  EXPECT_EQ(memory.bytes, 8192U);  // whole granules
  EXPECT_LT(memory.reserved, memory.begin);
  auto* const bytes = reinterpret_cast<volatile unsigned char*>(memory.begin);
  const std::uint64_t last = memory.bytes - 1;
  bytes[0] = 1;
  bytes[last] = 2;
  EXPECT_EQ(bytes[0] + bytes[last], 3);
  EXPECT_EXIT(bytes[memory.bytes] = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(*(bytes - 1) = 1, testing::KilledBySignal(SIGSEGV), "");
  device.free_guarded(memory);
  device.free_guarded({});
}

}  // namespace
}  // namespace mxcheck
