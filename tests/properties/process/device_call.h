#pragma once
// A call of an operation of the test's own, on the driver of host memory: copies its input to its output,
// as a kernel in the stream.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/policy.h"
#include "properties/process/shared_call.h"
#include "properties/process/worker_lane.h"
#include "tests/libraries/right/cuda/fake.h"

namespace mxcheck::test {

inline unsigned char* bytes_of(const DLTensor& t) { return static_cast<unsigned char*>(t.data) + t.byte_offset; }

struct Copying {
  unsigned char* to;
  const unsigned char* from;
};
inline void copy_kernel(void* argument) {
  const Copying& c = *static_cast<const Copying*>(argument);
  std::memcpy(c.to, c.from, 16);
}
// Kept for good: a graph runs its kernels again.
inline mxcheck_status copy_in_stream(const mxcheck_call* call) {
  auto* const arguments = new Copying{bytes_of(call->outputs[0]), bytes_of(call->inputs[0])};
  return fake_launch(call->stream, copy_kernel, arguments) == 0 ? MXCHECK_OK : MXCHECK_DEVICE_ERROR;
}

// 16 bytes in, 16 bytes out, and the memory that gate and child share.
class DeviceCallOf {
 public:
  explicit DeviceCallOf(mxcheck_status (*run)(const mxcheck_call*)) {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(i + 1);
    operation.run = run;
    CallTensor in;
    in.dtype = Format::e4m3, in.shape = {1, 16}, in.data = input.data(), in.bytes = 16;
    CallTensor out = in;
    out.data = nullptr;
    call.inputs = {in}, call.outputs = {out};
    call.policy = pack(mxcheck_policy{});
  }
  DeviceCallOf(const DeviceCallOf&) = delete;
  DeviceCallOf& operator=(const DeviceCallOf&) = delete;

  // After the call was changed: the message, and the shared memory as the gate writes it.
  DeviceCall made() {
    const SharedCall gate(call);
    message = gate.message();
    shared.resize(gate.bytes());
    gate.write(shared.data());
    reply = {};
    return {operation, policy, message, shared.data(), reply, text};
  }
  [[nodiscard]] Outcome outcome() const {
    Outcome outcome;
    SharedCall(call).read(shared.data(), outcome);
    return outcome;
  }
  [[nodiscard]] std::vector<std::byte> expected() const { return {input.begin(), input.end()}; }

  std::array<std::byte, 16> input{};
  mxcheck_operation operation{};
  mxcheck_policy policy{};
  Call call;
  wire::Message message;
  wire::Reply reply;
  MessageBuffer text;
  std::vector<std::byte> shared;
};

}  // namespace mxcheck::test
