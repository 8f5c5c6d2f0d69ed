#include "properties/process/worker_lane.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/properties/process/device_call.h"

extern "C" int cuStreamSynchronize(void* stream);

namespace mxcheck {
namespace {

using test::bytes_of;
using test::copy_in_stream;
using test::DeviceCallOf;

class WorkerLane : public testing::Test {
 protected:
  // The whole way of a call.
  void run(const DeviceCall& c) {
    ASSERT_TRUE(lane_.prepare(c));
    lane_.load(c, stream_);
    lane_.run(c, stream_);
    lane_.collect(c, stream_, c.shared);
  }
  CudaDevice device_;
  CudaHandle stream_ = device_.create_stream();
  Lane lane_{device_};
};

mxcheck_status hundred(const mxcheck_call*, std::uint64_t* bytes) { return *bytes = 100, MXCHECK_OK; }
mxcheck_status too_much(const mxcheck_call*, std::uint64_t* bytes) { return *bytes = ~std::uint64_t{0}, MXCHECK_OK; }
mxcheck_status refused(const mxcheck_call*, std::uint64_t*) { return MXCHECK_UNSUPPORTED; }

TEST_F(WorkerLane, tensors_travel_there_and_back) {
  DeviceCallOf copy(copy_in_stream);
  for (const bool guarded : {false, true}) {
    copy.call.guard_pages = guarded;
    const DeviceCall c = copy.made();
    run(c);
    EXPECT_EQ(copy.reply.status, MXCHECK_OK);
    const Outcome outcome = copy.outcome();
    EXPECT_EQ(outcome.outputs[0], copy.expected());
    EXPECT_FALSE(outcome.out_of_bounds) << *outcome.out_of_bounds;
    if (guarded) {
      EXPECT_EQ((lane_.address_of(c, 0) + 16) % 4096, 0U);  // ends where nothing is
    }
  }
}

TEST_F(WorkerLane, what_is_written_beside_a_tensor_is_seen) {
  DeviceCallOf past([](const mxcheck_call* call) {
    cuStreamSynchronize(call->stream);
    bytes_of(call->outputs[0])[16] = 1;
    return MXCHECK_OK;
  });
  run(past.made());
  EXPECT_EQ(past.outcome().out_of_bounds, "past the last output");
}

TEST_F(WorkerLane, a_report_of_the_device_is_the_status_of_the_call) {
  DeviceCallOf reports([](const mxcheck_call* call) {
    cuStreamSynchronize(call->stream);
    call->report->status = MXCHECK_INVALID, call->report->index = 3, call->report->value = -4;
    std::snprintf(call->report->message, sizeof(call->report->message), "offsets must not descend");
    return MXCHECK_OK;
  });
  run(reports.made());
  EXPECT_EQ(reports.reply.status, MXCHECK_INVALID);
  EXPECT_STREQ(reports.reply.message, "offsets must not descend (index 3, value -4)");
  reports.operation.run = copy_in_stream;  // the report of the call before is gone
  run(reports.made());
  EXPECT_EQ(reports.reply.status, MXCHECK_OK);
}

TEST_F(WorkerLane, the_workspace_is_poisoned_and_lies_between_zones) {
  DeviceCallOf inside([](const mxcheck_call* call) {
    auto* const workspace = static_cast<unsigned char*>(call->workspace);
    const bool poisoned = call->workspace_bytes == 100 && workspace[0] == 0xC7 && workspace[99] == 0xC7;
    workspace[0] = workspace[99] = 0;
    return poisoned ? MXCHECK_OK : MXCHECK_FAILED;
  });
  inside.operation.workspace = hundred;
  run(inside.made());
  EXPECT_EQ(inside.reply.status, MXCHECK_OK);
  EXPECT_EQ(inside.reply.workspace_broken, 0);
  for (const int at : {-1, 100}) {
    DeviceCallOf outside(
        at < 0
            ? [](const mxcheck_call* call) { return static_cast<unsigned char*>(call->workspace)[-1] = 0, MXCHECK_OK; }
            : [](const mxcheck_call* call) {
                return static_cast<unsigned char*>(call->workspace)[100] = 0, MXCHECK_OK;
              });
    outside.operation.workspace = hundred;
    run(outside.made());
    EXPECT_EQ(outside.reply.workspace_broken, 1) << at;
  }
}

TEST_F(WorkerLane, no_call_is_made_without_its_workspace) {
  DeviceCallOf copy(copy_in_stream);
  copy.operation.workspace = refused;
  EXPECT_FALSE(lane_.prepare(copy.made()));
  EXPECT_EQ(copy.reply.status, MXCHECK_UNSUPPORTED);
  copy.operation.workspace = too_much;
  EXPECT_FALSE(lane_.prepare(copy.made()));
  EXPECT_EQ(copy.reply.status, MXCHECK_NO_MEMORY);
  EXPECT_STREQ(copy.reply.message, "the gate could not allocate the workspace");
}

TEST_F(WorkerLane, outputs_that_stay_on_the_device_lie_between_zones_too) {
  DeviceCallOf copy(copy_in_stream);
  copy.call.outputs[0].on_device = true;
  const DeviceCall c = copy.made();
  run(c);
  EXPECT_EQ(copy.reply.zones_broken, 0);
  EXPECT_TRUE(copy.outcome().outputs[0].empty());
  std::vector<std::byte> there(16);
  device_.to_host(there.data(), lane_.address_of(c, 1), there.size(), stream_);
  device_.synchronize(stream_);
  EXPECT_EQ(there, copy.expected());

  copy.operation.run = [](const mxcheck_call* call) {
    cuStreamSynchronize(call->stream);
    bytes_of(call->outputs[0])[16] = 1;
    return MXCHECK_OK;
  };
  run(copy.made());
  EXPECT_EQ(copy.reply.zones_broken, 1);
}

TEST_F(WorkerLane, moves_to_other_addresses) {
  DeviceCallOf copy(copy_in_stream);
  const DeviceCall c = copy.made();
  run(c);
  const CudaPointer before = lane_.address_of(c, 0);
  lane_.move();
  run(c);
  EXPECT_NE(lane_.address_of(c, 0), before);
  EXPECT_EQ(copy.outcome().outputs[0], copy.expected());
}

TEST_F(WorkerLane, tensors_can_come_from_another_lane) {
  DeviceCallOf copy(copy_in_stream);
  const DeviceCall c = copy.made();
  Lane staged(device_);
  ASSERT_TRUE(staged.prepare(c) && lane_.prepare(c));
  staged.load(c, stream_);
  lane_.fill(c, 0x5A, stream_);
  lane_.copy_from(c, staged, stream_);
  lane_.run(c, stream_);
  lane_.collect(c, stream_, c.shared);
  EXPECT_EQ(copy.outcome().outputs[0], copy.expected());
}

}  // namespace
}  // namespace mxcheck
