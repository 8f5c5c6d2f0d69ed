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

// The conduct that the reply has after a library's run() did this with its call.
std::string told_of(mxcheck_status (*run)(const mxcheck_call*), std::uint32_t policy_offset = 0) {
  wire::Message message;
  message.num_inputs = 1, message.num_outputs = 1;
  message.tensors[0].ndim = message.tensors[1].ndim = 2, message.tensors[1].has_strides = 1;
  message.policy = pack(mxcheck_policy{});
  message.memory.policy_offset = policy_offset;
  PolicyInPlace policy(message.policy);
  MessageBuffer text;
  std::array<std::byte, 4096> memory{};
  CandidateCall built(message, *policy.get(), text, kDLCPU, [&](int) { return memory.data(); });
  mxcheck_operation operation{};
  operation.run = run;
  wire::Reply reply;
  EXPECT_EQ(built.run(operation, reply), MXCHECK_OK);
  if (policy_offset == 0 && !policy.is_as_given()) add_conduct(reply, "policy");
  return reply.conduct;
}

template <class T>
T& writable(const T& given) {
  return const_cast<T&>(given);
}

TEST(CandidateCall, a_write_into_a_struct_is_told_by_its_name) {
  EXPECT_EQ(told_of([](const mxcheck_call*) { return MXCHECK_OK; }), "");
  const auto the_call = [](const mxcheck_call* c) { return writable(*c).num_inputs = 0, MXCHECK_OK; };
  EXPECT_EQ(told_of(the_call), "the library wrote into the struct of the call");
  const auto a_tensor = [](const mxcheck_call* c) { return writable(c->outputs[0]).ndim = 1, MXCHECK_OK; };
  EXPECT_EQ(told_of(a_tensor), "the library wrote into the DLTensor of output 0");
  const auto a_shape = [](const mxcheck_call* c) { return c->inputs[0].shape[1] += 1, MXCHECK_OK; };
  EXPECT_EQ(told_of(a_shape), "the library wrote into the shape of input 0");
  const auto a_stride = [](const mxcheck_call* c) { return c->outputs[0].strides[0] += 1, MXCHECK_OK; };
  EXPECT_EQ(told_of(a_stride), "the library wrote into the strides of output 0");
  const auto the_policy = [](const mxcheck_call* c) { return writable(*c->policy).cols += 1, MXCHECK_OK; };
  EXPECT_EQ(told_of(the_policy), "policy");
  EXPECT_EQ(told_of(the_policy, 8), "the library wrote into the policy");
  const auto a_text = [](const mxcheck_call* c) { return *const_cast<char*>(c->policy->recipe) = 'a', MXCHECK_OK; };
  EXPECT_EQ(told_of(a_text), "policy");
}

}  // namespace
}  // namespace mxcheck
