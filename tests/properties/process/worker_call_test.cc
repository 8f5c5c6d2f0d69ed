#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "properties/process/worker_call.h"

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

// The problem that take() reports after the library has written; "" for none.
template <class Write>
std::string problem_after(const Write& write, std::string* text = nullptr) {
  MessageBuffer buffer;
  buffer.clear();
  write(buffer.text());
  wire::Reply reply;
  const char* problem = buffer.take(reply);
  if (text != nullptr) *text = reply.message;
  return problem == nullptr ? "" : problem;
}

TEST(MessageBuffer, a_text_that_fits_is_handed_on) {
  std::string text;
  EXPECT_EQ(problem_after([](char*) {}, &text), "");
  EXPECT_EQ(text, "");
  EXPECT_EQ(problem_after([](char* to) { std::strcpy(to, "no"); }, &text), "");
  EXPECT_EQ(text, "no");
  EXPECT_EQ(problem_after([](char* to) { std::memset(to, 'a', 511), to[511] = '\0'; }, &text), "");
  EXPECT_EQ(text.size(), 511U);
}

TEST(MessageBuffer, one_byte_outside_or_a_missing_end_is_told) {
  EXPECT_EQ(problem_after([](char* to) { std::memset(to, 'a', 512), to[512] = '\0'; }),
            "wrote past message_bytes, the end of its message's buffer");
  EXPECT_EQ(problem_after([](char* to) { to[-1] = 'a'; }), "wrote before the buffer of its message");
  std::string text;
  EXPECT_EQ(problem_after([](char* to) { std::memcpy(to, "no", 2); }, &text),
            "left a message that no NUL ends within message_bytes");
  EXPECT_EQ(text.substr(0, 2), "no");
  EXPECT_EQ(text.size(), 511U);
}

}  // namespace
}  // namespace mxcheck
