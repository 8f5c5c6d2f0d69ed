#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "kernels/candidate_matmul.h"
#include "numerics/error.h"
#include "properties/process/cuda_driver.h"
#include "properties/process/worker_cuda.h"
#include "tests/libraries/right/cuda/fake.h"
#include "tests/properties/process/device_call.h"

extern "C" int cuMemAlloc_v2(std::uint64_t* memory, std::size_t bytes);

namespace mxcheck {
namespace {

using test::bytes_of;
using test::copy_in_stream;
using test::DeviceCallOf;

constexpr StreamMode kModes[] = {StreamMode::own, StreamMode::legacy, StreamMode::behind, StreamMode::captured,
                                 StreamMode::crowded};

Outcome run(CudaWorker& worker, DeviceCallOf& call, StreamMode mode) {
  call.call.stream = mode;
  worker.run(call.made());
  return call.outcome();
}

TEST(CudaWorker, gives_the_same_bytes_however_a_stream_is_used) {
  CudaWorker worker("");
  DeviceCallOf copy(copy_in_stream);
  for (const StreamMode mode : kModes) {
    const Outcome outcome = run(worker, copy, mode);
    EXPECT_EQ(copy.reply.status, MXCHECK_OK);
    EXPECT_STREQ(copy.reply.conduct, "");
    EXPECT_STREQ(copy.reply.device_error, "");
    EXPECT_EQ(outcome.outputs[0], copy.expected()) << static_cast<int>(mode);
    EXPECT_FALSE(outcome.out_of_bounds) << *outcome.out_of_bounds;
  }
}

TEST(CudaWorker, work_beside_the_stream_sees_garbage_where_inputs_come_late) {
  static unsigned char seen;
  CudaWorker worker("");
  DeviceCallOf at_once([](const mxcheck_call* call) {
    seen = bytes_of(call->inputs[0])[3];
    std::memset(bytes_of(call->outputs[0]), seen, 16);
    return MXCHECK_OK;
  });
  EXPECT_NE(run(worker, at_once, StreamMode::behind).outputs[0], at_once.expected());
  EXPECT_EQ(seen, 0x5A);  // the input holds 4 there
}

TEST(CudaWorker, an_allocation_ends_a_capture) {
  CudaWorker worker("");
  DeviceCallOf allocates([](const mxcheck_call* call) {
    std::uint64_t memory = 0;
    return cuMemAlloc_v2(&memory, 16) == 0 ? copy_in_stream(call) : MXCHECK_FAILED;
  });
  (void)run(worker, allocates, StreamMode::captured);
  EXPECT_NE(std::string(allocates.reply.conduct).find("ends the capture"), std::string::npos);
  EXPECT_EQ(run(worker, allocates, StreamMode::own).outputs[0], allocates.expected());
  EXPECT_STREQ(allocates.reply.conduct, "");
}

TEST(CudaWorker, what_an_adapted_candidate_does_on_a_first_call_alone_is_not_looked_at) {
  static bool warm;
  CudaWorker worker("");
  DeviceCallOf compiles([](const mxcheck_call* call) {
    std::uint64_t memory = 0;
    if (!warm && cuMemAlloc_v2(&memory, 16) != 0) return MXCHECK_FAILED;
    warm = true;
    return copy_in_stream(call);
  });
  for (const StreamMode mode : {StreamMode::behind, StreamMode::captured, StreamMode::crowded}) {
    warm = false;
    compiles.call.stream = mode;
    worker.run_adapted(compiles.made(), true, false);
    EXPECT_EQ(compiles.reply.status, MXCHECK_OK);
    EXPECT_STREQ(compiles.reply.conduct, "") << static_cast<int>(mode);
    EXPECT_EQ(compiles.outcome().outputs[0], compiles.expected());
  }
}

TEST(CudaWorker, what_an_adapted_candidate_says_that_it_does_is_not_asked) {
  CudaWorker worker("");
  DeviceCallOf allocates([](const mxcheck_call* call) {
    std::uint64_t memory = 0;
    return cuMemAlloc_v2(&memory, 16) == 0 ? copy_in_stream(call) : MXCHECK_FAILED;
  });
  allocates.call.stream = StreamMode::captured;
  worker.run_adapted(allocates.made(), true, false);
  EXPECT_NE(std::string(allocates.reply.conduct).find("ends the capture"), std::string::npos);
  worker.run_adapted(allocates.made(), false, false);
  EXPECT_STREQ(allocates.reply.conduct, "");
  EXPECT_EQ(allocates.outcome().outputs[0], allocates.expected());
}

TEST(CudaWorker, calls_in_flight_that_share_memory_are_found) {
  CudaWorker worker("");
  DeviceCallOf shares([](const mxcheck_call* call) {
    static test::Copying arguments;  // of the last call, when the first one's kernel runs
    arguments = {bytes_of(call->outputs[0]), bytes_of(call->inputs[0])};
    return fake_launch(call->stream, test::copy_kernel, &arguments) == 0 ? MXCHECK_OK : MXCHECK_DEVICE_ERROR;
  });
  EXPECT_EQ(run(worker, shares, StreamMode::own).outputs[0], shares.expected());
  (void)run(worker, shares, StreamMode::crowded);
  EXPECT_STREQ(shares.reply.conduct, "calls in flight in several streams at once gave different bytes");
}

TEST(CudaWorker, a_refusal_is_the_same_in_every_mode) {
  CudaWorker worker("");
  DeviceCallOf refuses([](const mxcheck_call* call) {
    std::snprintf(call->message, call->message_bytes, "not this one");
    return MXCHECK_UNSUPPORTED;
  });
  for (const StreamMode mode : kModes) {
    const Outcome outcome = run(worker, refuses, mode);
    EXPECT_EQ(refuses.reply.status, MXCHECK_UNSUPPORTED);
    EXPECT_STREQ(refuses.reply.message, "not this one");
    EXPECT_STREQ(refuses.reply.conduct, "");
    EXPECT_TRUE(outcome.outputs_untouched) << static_cast<int>(mode);
  }
}

// In a process of its own: the device is lost to it.
TEST(CudaWorker, a_fault_is_the_drivers_words) {
  const auto fault = [] {
    CudaWorker worker("");
    DeviceCallOf faults([](const mxcheck_call*) { return fake_fault(), MXCHECK_OK; });
    (void)run(worker, faults, StreamMode::own);
    std::fputs(faults.reply.device_error, stderr);
    _exit(7);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(7), "CUDA error 700, an illegal memory access was encountered");
}

TEST(CudaWorker, without_a_model_a_comparison_says_why) {
  CudaWorker worker("/nowhere/libmxcheck_gpu_model.so");
  DeviceCallOf copy(copy_in_stream);
  const DeviceCall c = copy.made();
  copy.message.request = wire::Request::compare;
  worker.run(c);
  EXPECT_EQ(copy.reply.status, MXCHECK_OK);
  EXPECT_TRUE(std::string(copy.reply.comparison.problem).starts_with("the GPU model cannot be loaded: "))
      << copy.reply.comparison.problem;
  EXPECT_EQ(copy.outcome().outputs[0], copy.expected());
}

}  // namespace

// The driver's calls, on the driver of host memory of tests/libraries.

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

// A product of 70 x 60 over 256: tensors in the interface's order, each at an address that tells its number.
struct Product {
  mxcheck_matmul_policy policy{};
  wire::Message message;

  Product() {
    policy.policy.rows = 70, policy.policy.cols = 60, policy.depth = 256;
    policy.policy.block_cols = 128, policy.block_b_cols = 64, policy.block_b_rows = 32;
    policy.scale_type = MXCHECK_NO_SCALES, policy.grouping = MXCHECK_DENSE, policy.alpha = 2;
    message.model.a_format = MXCHECK_GPU_MODEL_E4M3, message.model.b_format = MXCHECK_GPU_MODEL_E5M2;
    message.model.promotion = 128;
    message.num_outputs = 1;
  }
  void input(std::int64_t rows, unsigned bits) {
    wire::Tensor& t = message.tensors[message.num_inputs++];
    t.shape[0] = rows, t.dtype_bits = static_cast<std::uint8_t>(bits);
  }
  MxcheckGpuModelCall call(unsigned output_bits = 32) {
    message.policy = pack(policy);
    message.tensors[message.num_inputs].dtype_bits = static_cast<std::uint8_t>(output_bits);
    return model_call(message, [](int i) { return static_cast<CudaPointer>(0x1000 * (i + 1)); });
  }
};

template <class T>
std::uint64_t number_of(const T* address) {
  return reinterpret_cast<std::uint64_t>(address) / 0x1000;  // from 1; 0: null
}

TEST(WorkerModel, a_plain_product_has_operands_and_an_output) {
  Product p;
  p.input(70, 8), p.input(60, 8);
  const MxcheckGpuModelCall call = p.call(16);
  EXPECT_EQ(call.a_format, MXCHECK_GPU_MODEL_E4M3);
  EXPECT_EQ(call.b_format, MXCHECK_GPU_MODEL_E5M2);
  EXPECT_EQ(call.m, 70);
  EXPECT_EQ(call.n, 60);
  EXPECT_EQ(call.k, 256);
  EXPECT_EQ(call.row_end, 70);
  EXPECT_EQ(call.alpha, 2);
  EXPECT_EQ(call.promotion, 128);
  EXPECT_EQ(number_of(call.a), 1U);
  EXPECT_EQ(number_of(call.b), 2U);
  EXPECT_EQ(number_of(call.d), 3U);
  EXPECT_EQ(call.output, MXCHECK_GPU_MODEL_OUT_BF16);
  EXPECT_EQ(call.experts, 1);
  EXPECT_EQ(number_of(call.scale_a) + number_of(call.scale_b) + number_of(call.c), 0U);
  EXPECT_EQ(number_of(call.offsets) + number_of(call.row_index), 0U);
}

TEST(WorkerModel, scales_a_sum_offsets_and_rows_have_their_places) {
  Product p;
  p.policy.scale_type = MXCHECK_FP32, p.policy.accumulate = 1, p.policy.grouping = MXCHECK_ROWS;
  p.input(300, 8), p.input(60, 8), p.input(300, 32), p.input(60, 32), p.input(70, 32);
  p.input(5, 64);   // offsets of four experts
  p.input(70, 32);  // row index
  const MxcheckGpuModelCall call = p.call();
  EXPECT_EQ(number_of(call.scale_a), 3U);
  EXPECT_EQ(number_of(call.scale_b), 4U);
  EXPECT_EQ(number_of(call.c), 5U);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(call.offsets), 0x6000U + 8U);  // ends alone
  EXPECT_EQ(number_of(call.row_index), 7U);
  EXPECT_EQ(number_of(call.d), 8U);
  EXPECT_EQ(call.experts, 4);
  EXPECT_EQ(call.a_rows, 300);
  EXPECT_EQ(call.groups, MXCHECK_GPU_MODEL_ALONG_M);
  EXPECT_EQ(call.scale_format, MXCHECK_GPU_MODEL_SCALE_FP32);
  EXPECT_EQ(call.scale_a_block, 128);
  EXPECT_EQ(call.scale_b_block, 64);
  EXPECT_EQ(call.scale_b_rows, 32);
  EXPECT_EQ(call.output, MXCHECK_GPU_MODEL_OUT_FP32);
}

TEST(WorkerModel, a_library_that_is_no_model_compares_nothing) {
  CudaDevice device;
  Product p;
  p.input(70, 8), p.input(60, 8);
  p.message.policy = pack(p.policy);
  const auto nowhere = [](int) { return CudaPointer{0}; };
  for (const auto& [library, words] :
       {std::pair<std::string, std::string>{"/nowhere/model.so", "the GPU model cannot be loaded: /nowhere/model.so"},
        {MXCHECK_NO_CANDIDATE, "lacks a function of gpu_model.h"}}) {
    GpuModel model(device, library);
    DeviceComparison comparison;
    model.compare(p.message, nowhere, nullptr, comparison);
    EXPECT_NE(std::string(comparison.problem).find(words), std::string::npos) << comparison.problem;
    EXPECT_EQ(comparison.compared, 0U);
  }
}

}  // namespace
}  // namespace mxcheck
