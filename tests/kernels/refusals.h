#pragma once
// Good calls, each made wrong in one way, that a library must refuse with one line of text and not a byte written.
//
//   struct Valid : ValidCall { explicit Valid(const std::string& operation) { ...; bind(policy); } };
//   expect_refusals<Valid>(library(), "quantize", {{"no policy", "policy is null", [](Valid& v) { ... }}});

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/candidate_call.h"

namespace mxcheck {

// A call and all that it points to; what derives from it fills in and out.
struct ValidCall {
  std::vector<TestTensor*> in;
  std::vector<TestTensor*> out;
  std::vector<DLTensor> inputs, outputs;
  std::array<std::int64_t, 2> strides{};
  mxcheck_call call{};
  std::array<char, 256> message{};
  CandidateCall memory{{}};

  ValidCall() = default;
  ValidCall(const ValidCall&) = delete;
  ValidCall& operator=(const ValidCall&) = delete;

  void bind(const mxcheck_policy& policy) {
    for (const TestTensor* t : in) inputs.push_back(t->dl);
    for (const TestTensor* t : out) outputs.push_back(t->dl);
    call = call_of(policy, inputs, outputs, message);
  }
  void set_strides(DLTensor& tensor, std::int64_t row, std::int64_t col) {
    strides = {row, col};
    tensor.strides = strides.data();
  }
  template <class T>
  void set(std::size_t input, std::size_t at, T value) {
    std::memcpy(in[input]->memory.data() + at * sizeof value, &value, sizeof value);
  }
  [[nodiscard]] bool outputs_untouched() const {
    return std::all_of(out.begin(), out.end(), [](const TestTensor* t) { return t->memory.intact(); });
  }
};

template <class Valid>
struct InvalidCall {
  const char* why;
  std::string says;  // a part of the message
  std::function<void(Valid&)> make_invalid;
  mxcheck_status status = MXCHECK_INVALID;
  bool has_message = true;  // false: the call has no place for one
};

// Refusals that every operation of every library has.
template <class Valid>
std::vector<InvalidCall<Valid>> common_refusals() {
  return {{"no policy", "policy is null", [](Valid& v) { v.call.policy = nullptr; }},
          {"no inputs", "inputs is null", [](Valid& v) { v.call.inputs = nullptr; }},
          {"no outputs", "outputs is null", [](Valid& v) { v.call.outputs = nullptr; }},
          {"too few inputs", "0 inputs", [](Valid& v) { v.call.num_inputs = 0; }},
          {"no data", "data is null", [](Valid& v) { v.inputs[0].data = nullptr; }},
          {"no output data", "data is null", [](Valid& v) { v.outputs[0].data = nullptr; }},
          {"no shape", "shape is null", [](Valid& v) { v.inputs[0].shape = nullptr; }},
          {"no output shape", "shape is null", [](Valid& v) { v.outputs[0].shape = nullptr; }},
          {"a device", "device 2", [](Valid& v) { v.inputs[0].device.device_type = kDLCUDA; }},
          {"a device for an output", "device 2", [](Valid& v) { v.outputs[0].device.device_type = kDLCUDA; }},
          {"wrong rank", "3 dimensions", [](Valid& v) { v.inputs[0].ndim = 3; }},
          {"wrong rank of an output", "0 dimensions", [](Valid& v) { v.outputs[0].ndim = 0; }},
          {"output on input", "overlaps input 0", [](Valid& v) { v.outputs[0].data = v.in[0]->memory.data(); }}};
}

template <class Valid>
void expect_refusals(const mxcheck_candidate_table& library, const std::string& name,
                     const std::vector<InvalidCall<Valid>>& refusals) {
  {
    Valid valid(name);
    ASSERT_EQ(operation(library, name).run(&valid.call), MXCHECK_OK) << name << ": " << valid.message.data();
    EXPECT_FALSE(valid.outputs_untouched());
  }
  for (const InvalidCall<Valid>& r : refusals) {
    SCOPED_TRACE(name + ": " + r.why);
    Valid v(name);
    r.make_invalid(v);
    EXPECT_EQ(operation(library, name).run(&v.call), r.status) << v.message.data();
    const std::string message(v.message.data());
    EXPECT_NE(message.find(r.says), std::string::npos) << message;
    EXPECT_EQ(message.empty(), !r.has_message);
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(v.outputs_untouched());
    EXPECT_TRUE(v.memory.kept_inside());
  }
}

}  // namespace mxcheck
