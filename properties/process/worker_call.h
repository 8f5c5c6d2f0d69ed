#pragma once
// A message of the gate as the C call that a candidate sees; on the host or on a device.

#include <cstddef>
#include <cstdint>

#include "kernels/candidate.h"
#include "properties/process/message_buffer.h"
#include "properties/process/wire.h"

namespace mxcheck {

// Pointers into this: it outlives the call, and neither moves.
struct CandidateCall {
  // address_of(i): where tensor i of the message (inputs, then outputs) is.
  template <class AddressOf>
  CandidateCall(const wire::Message& message, const mxcheck_policy& policy, MessageBuffer& text, DLDeviceType device,
                const AddressOf& address_of) {
    for (int i = 0; i < message.num_inputs + message.num_outputs; ++i) {
      const wire::Tensor& t = message.tensors[i];
      const bool null = t.null_data != 0;
      shapes[i][0] = t.shape[0], shapes[i][1] = t.shape[1];
      strides[i][0] = t.row_stride, strides[i][1] = 1;
      tensors[i] = DLTensor{};
      tensors[i].data = null ? nullptr : reinterpret_cast<void*>(address_of(i) - message.byte_offset);
      tensors[i].byte_offset = null ? 0 : message.byte_offset;
      tensors[i].device = {device, 0};
      tensors[i].ndim = t.ndim;
      tensors[i].dtype = {t.dtype_code, t.dtype_bits, 1};
      tensors[i].shape = shapes[i];
      tensors[i].strides = t.row_stride != 0 ? strides[i] : nullptr;
    }
    call.size = sizeof(call);
    call.num_inputs = message.num_inputs, call.num_outputs = message.num_outputs;
    call.policy = &policy;
    call.inputs = tensors, call.outputs = tensors + message.num_inputs;
    call.message = text.text(), call.message_bytes = MessageBuffer::kBytes;
  }
  CandidateCall(const CandidateCall&) = delete;
  CandidateCall& operator=(const CandidateCall&) = delete;

  DLTensor tensors[wire::kMaxTensors];
  std::int64_t shapes[wire::kMaxTensors][2];
  std::int64_t strides[wire::kMaxTensors][2];
  mxcheck_call call{};
};

}  // namespace mxcheck
