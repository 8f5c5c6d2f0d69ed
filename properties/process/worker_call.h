#pragma once
// A message of the gate as the C call that a candidate sees; on the host or on a device.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "kernels/candidate.h"
#include "kernels/candidate_kept_weights.h"
#include "properties/process/call_watch.h"
#include "properties/process/wire.h"

namespace mxcheck {

// The buffer in which a library says why it refused, between two zones: whether the text ends within it, and whether
// anything was written around it.

class MessageBuffer {
 public:
  static constexpr std::size_t kBytes = sizeof(wire::Reply::message);

  // Before a call: an empty text, with no zero after it that would end one that the library did not end itself.
  void clear() {
    std::memset(bytes_, kFill, sizeof(bytes_));
    bytes_[kZone] = '\0';
  }
  [[nodiscard]] char* text() { return bytes_ + kZone; }
  // After it: what is wrong, or null; the text goes to the reply, ended in any case.
  const char* take(wire::Reply& reply) const {
    std::memcpy(reply.message, bytes_ + kZone, kBytes);
    const bool ends = std::memchr(reply.message, '\0', kBytes) != nullptr;
    reply.message[kBytes - 1] = '\0';
    for (std::size_t i = 0; i < kZone; ++i) {
      if (bytes_[i] != kFill) return "wrote before the buffer of its message";
      if (bytes_[kZone + kBytes + i] != kFill) return "wrote past message_bytes, the end of its message's buffer";
    }
    return ends ? nullptr : "left a message that no NUL ends within message_bytes";
  }

 private:
  static constexpr std::size_t kZone = 1024;  // a text of twice the buffer's size ends here too
  static constexpr char kFill = 0x7E;
  char bytes_[kZone + kBytes + kZone] = {};
};

// No case has weights that need more memory: W1 and W2 have 3 * 2^30 elements at most, of 2 bytes and a share of their
// scales. A call with sizes that are wrong may need more: it gets none, and is refused for that if for nothing else.
inline constexpr std::uint64_t kMostKeptBytes = std::uint64_t{1} << 33;

// The policy of a call that has memory for kept weights: a copy with the pointer to it. Of other calls the policy.
class PolicyWithMemory {
 public:
  PolicyWithMemory(const wire::Message& message, const mxcheck_policy& policy)
      : offset_(message.memory.policy_offset), policy_(&policy) {
    if (offset_ == 0) return;
    std::memcpy(bytes_, &policy, message.policy.num_bytes);
    policy_ = static_cast<const mxcheck_policy*>(static_cast<const void*>(bytes_));
  }
  PolicyWithMemory(const PolicyWithMemory&) = delete;
  PolicyWithMemory& operator=(const PolicyWithMemory&) = delete;

  [[nodiscard]] const mxcheck_policy& get() const { return *policy_; }
  // True if the call is one that writes the memory.
  [[nodiscard]] bool keeps() const { return offset_ != 0 && read().mode == MXCHECK_WEIGHTS_KEEP; }
  // The question how large the memory must be, until restore().
  [[nodiscard]] mxcheck_kept_weights kept() const { return read(); }
  void ask() { write({MXCHECK_WEIGHTS_BYTES, 0, nullptr, 0}); }
  void restore(const mxcheck_kept_weights& kept) { write(kept); }
  // The room for memory of so many bytes: none for none.
  static std::uint64_t room(const CallMemory& memory, std::uint64_t bytes) {
    return bytes == 0 || bytes > kMostKeptBytes ? 0 : bytes + memory.past;
  }
  // at: of such a room, at a multiple of 256 bytes. False where the defect is one of the memory and the library needs
  // none.
  bool set(const CallMemory& memory, void* at, std::uint64_t room) {
    if (offset_ == 0) return true;
    if (room == 0 && (memory.is_null || memory.is_small || memory.past != 0)) return false;
    mxcheck_kept_weights kept = read();
    kept.memory = memory.is_null ? nullptr : static_cast<unsigned char*>(at) + (room == 0 ? 0 : memory.past);
    kept.bytes = room - (room == 0 ? 0 : memory.past) - (memory.is_small ? 1 : 0);
    write(kept);
    return true;
  }

 private:
  [[nodiscard]] mxcheck_kept_weights read() const {
    mxcheck_kept_weights kept;
    std::memcpy(&kept, bytes_ + offset_, sizeof(kept));
    return kept;
  }
  void write(const mxcheck_kept_weights& kept) { std::memcpy(bytes_ + offset_, &kept, sizeof(kept)); }

  std::uint32_t offset_;
  const mxcheck_policy* policy_;
  alignas(16) unsigned char bytes_[Policy::kMostBytes] = {};
};

// Puts the answer into the question. False: the library wrote into the policy.
inline bool ask_supports(const mxcheck_operation& operation, wire::Question& question) {
  const PolicyInPlace policy(question.policy);
  question.status = operation.supports(policy.get(), DLDataType{question.dtype_code, question.dtype_bits, 1});
  return policy.is_as_given();
}

// Pointers into this: it outlives the call, and neither moves.
struct CandidateCall {
  // address_of(i): where tensor i of the message (inputs, then outputs) is.
  template <class AddressOf>
  CandidateCall(const wire::Message& message, const mxcheck_policy& policy, MessageBuffer& text, DLDeviceType device,
                const AddressOf& address_of)
      : copied_policy_bytes_(message.memory.policy_offset == 0 ? 0 : message.policy.num_bytes) {
    for (int i = 0; i < message.num_inputs + message.num_outputs; ++i) {
      const wire::Tensor& t = message.tensors[i];
      const bool null = t.null_data != 0;
      for (int n = 0; n < wire::kMaxDimensions; ++n) shapes[i][n] = t.shape[n], strides[i][n] = t.strides[n];
      tensors[i] = DLTensor{};
      tensors[i].data = null ? nullptr : reinterpret_cast<void*>(address_of(i) - message.byte_offset);
      tensors[i].byte_offset = null ? 0 : message.byte_offset;
      tensors[i].device = {t.elsewhere == 0 ? device : device == kDLCPU ? kDLCUDA : kDLCPU, t.device_id};
      tensors[i].ndim = t.ndim;
      tensors[i].dtype = {t.dtype_code, t.dtype_bits, t.lanes};
      tensors[i].shape = t.null_shape == 0 ? shapes[i] : nullptr;
      tensors[i].strides = t.has_strides != 0 ? strides[i] : nullptr;
    }
    call.size = message.defect == CallDefect::small_size ? sizeof(call.size) : sizeof(call);
    call.num_inputs = message.num_inputs, call.num_outputs = message.num_outputs;
    call.policy = message.defect == CallDefect::null_policy ? nullptr : &policy;
    call.inputs = message.defect == CallDefect::null_inputs ? nullptr : tensors;
    call.outputs = message.defect == CallDefect::null_outputs ? nullptr : tensors + message.num_inputs;
    call.message = text.text(), call.message_bytes = MessageBuffer::kBytes;
  }
  // Memory of so many bytes, as the library requested: none, or what the message's defect leaves of it. False where
  // the defect is one of a workspace and the library requests none: there is nothing that it could refuse.
  bool set_workspace(const wire::Message& message, void* memory, std::uint64_t bytes) {
    const bool is_null = message.defect == CallDefect::null_workspace;
    const bool is_small = message.defect == CallDefect::small_workspace;
    if (bytes == 0) return !is_null && !is_small;
    call.workspace = is_null ? nullptr : memory;
    call.workspace_bytes = is_small ? bytes - 1 : bytes;
    return true;
  }
  // The reply in place of the library's where it requests no workspace: a refusal, so that a record of it replays.
  static void refuse_for_want_of_a_workspace(wire::Reply& reply, const char* what = "workspace") {
    reply.status = MXCHECK_INVALID;
    std::snprintf(reply.message, sizeof(reply.message), "not called: it requests no %s", what);
  }
  // So is a request that the gate cannot fulfil.
  static void refuse_for_want_of_memory(wire::Reply& reply, const char* what) {
    reply.status = MXCHECK_NO_MEMORY;
    std::snprintf(reply.message, sizeof(reply.message), "the gate could not allocate the %s", what);
  }

  CandidateCall(const CandidateCall&) = delete;
  CandidateCall& operator=(const CandidateCall&) = delete;

  // The library's answers. A struct of the call that it wrote into is told in the reply: all of them are const.
  mxcheck_status ask_workspace(const mxcheck_operation& operation, std::uint64_t& bytes, wire::Reply& reply) {
    const Given given(*this);
    const mxcheck_status status = operation.workspace(&call, &bytes);
    given.tell_changes(*this, reply);
    return status;
  }
  mxcheck_status run(const mxcheck_operation& operation, wire::Reply& reply) {
    const Given given(*this);
    const mxcheck_status status = operation.run(&call);
    given.tell_changes(*this, reply);
    return status;
  }

  DLTensor tensors[wire::kMaxTensors]{};
  std::int64_t shapes[wire::kMaxTensors][wire::kMaxDimensions]{};
  std::int64_t strides[wire::kMaxTensors][wire::kMaxDimensions]{};
  mxcheck_call call{};

 private:
  // The structs as they are handed over. Bytes are copied, not values: padding is compared too.
  class Given {
   public:
    explicit Given(const CandidateCall& from) {
      std::memcpy(&call_, &from.call, sizeof(call_));
      std::memcpy(tensors_, from.tensors, sizeof(tensors_));
      std::memcpy(shapes_, from.shapes, sizeof(shapes_));
      std::memcpy(strides_, from.strides, sizeof(strides_));
      if (call_.policy != nullptr) std::memcpy(policy_, call_.policy, from.copied_policy_bytes_);
    }
    void tell_changes(const CandidateCall& is, wire::Reply& reply) const {
      const auto tell = [&](const std::string& what) { add_conduct(reply, "the library wrote into the " + what); };
      // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): padding too was copied as bytes.
      if (std::memcmp(&is.call, &call_, sizeof(call_)) != 0) tell("struct of the call");
      if (call_.policy != nullptr && std::memcmp(call_.policy, policy_, is.copied_policy_bytes_) != 0) tell("policy");
      for (int i = 0; i < call_.num_inputs + call_.num_outputs; ++i) {
        const auto tell_of = [&](const char* what) {
          const bool input = i < call_.num_inputs;
          tell(what + std::string(input ? " of input " : " of output ") +
               std::to_string(input ? i : i - call_.num_inputs));
        };
        if (std::memcmp(&is.tensors[i], &tensors_[i], sizeof(DLTensor)) != 0) tell_of("DLTensor");
        if (std::memcmp(is.shapes[i], shapes_[i], sizeof(shapes_[i])) != 0) tell_of("shape");
        if (std::memcmp(is.strides[i], strides_[i], sizeof(strides_[i])) != 0) tell_of("strides");
      }
    }

   private:
    mxcheck_call call_;
    DLTensor tensors_[wire::kMaxTensors];
    std::int64_t shapes_[wire::kMaxTensors][wire::kMaxDimensions];
    std::int64_t strides_[wire::kMaxTensors][wire::kMaxDimensions];
    unsigned char policy_[Policy::kMostBytes]{};
  };

  // The size of a policy that is a copy with the address of memory (PolicyWithMemory); PolicyInPlace has the others.
  std::size_t copied_policy_bytes_;
};

}  // namespace mxcheck
