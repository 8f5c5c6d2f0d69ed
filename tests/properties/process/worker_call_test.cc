#include "properties/process/worker_call.h"

#include <gtest/gtest.h>

#include <array>

namespace mxcheck {
namespace {

TEST(WorkerCall, holds_the_messages_tensors_as_a_candidate_sees_them) {
  wire::Message message;
  message.num_inputs = 2, message.num_outputs = 1;
  message.byte_offset = 256;
  wire::Tensor& x = message.tensors[0];
  x.ndim = 2, x.shape[0] = 3, x.shape[1] = 5, x.has_strides = 1, x.strides[0] = 8, x.strides[1] = 1;
  x.dtype_code = kDLBfloat, x.dtype_bits = 16;
  wire::Tensor& offsets = message.tensors[1];
  offsets.ndim = 1, offsets.shape[0] = 4, offsets.dtype_code = kDLInt, offsets.dtype_bits = 64, offsets.null_data = 1;
  wire::Tensor& codes = message.tensors[2];
  codes.ndim = 2, codes.shape[0] = 3, codes.shape[1] = 5, codes.dtype_code = kDLUInt, codes.dtype_bits = 8;

  const mxcheck_policy policy{};
  MessageBuffer text;
  std::array<std::byte, 4096> memory{};
  const CandidateCall built(message, policy, text, kDLCPU, [&](int i) { return memory.data() + 1024 * (i + 1); });
  const mxcheck_call& call = built.call;
  EXPECT_EQ(call.size, sizeof(mxcheck_call));
  EXPECT_EQ(call.policy, &policy);
  EXPECT_EQ(call.num_inputs, 2);
  EXPECT_EQ(call.num_outputs, 1);
  EXPECT_EQ(call.message, text.text());
  EXPECT_EQ(call.message_bytes, MessageBuffer::kBytes);
  EXPECT_EQ(call.stream, nullptr);
  EXPECT_EQ(call.report, nullptr);

  // data and byte_offset together are where the tensor is.
  EXPECT_EQ(call.inputs[0].data, memory.data() + 1024 - 256);
  EXPECT_EQ(call.inputs[0].byte_offset, 256U);
  EXPECT_EQ(call.inputs[0].shape[1], 5);
  ASSERT_NE(call.inputs[0].strides, nullptr);
  EXPECT_EQ(call.inputs[0].strides[0], 8);
  EXPECT_EQ(call.inputs[0].strides[1], 1);
  EXPECT_EQ(call.inputs[0].dtype.code, kDLBfloat);
  EXPECT_EQ(call.inputs[0].dtype.lanes, 1);

  EXPECT_EQ(call.inputs[1].data, nullptr);
  EXPECT_EQ(call.inputs[1].byte_offset, 0U);
  EXPECT_EQ(call.inputs[1].ndim, 1);

  EXPECT_EQ(call.outputs[0].data, memory.data() + 3 * 1024 - 256);
  EXPECT_EQ(call.outputs[0].strides, nullptr);
  EXPECT_EQ(call.outputs[0].device.device_type, kDLCPU);
}

}  // namespace
}  // namespace mxcheck
