#include "properties/process/worker_cuda.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

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
}  // namespace mxcheck
