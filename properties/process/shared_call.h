#pragma once
// A call's tensors in the memory that the gate shares with its child process: where they lie, what is written there
// before the call, and what is read after it.
//
// A red zone is before and after every tensor. Outputs that stay on the device have no place here.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "properties/process/candidate_process.h"
#include "properties/process/wire.h"

namespace mxcheck {

class SharedCall {
 public:
  explicit SharedCall(const Call& call);  // which outlives this

  // The request, operation, shared_bytes are the caller's.
  [[nodiscard]] const wire::Message& message() const { return message_; }
  [[nodiscard]] std::uint64_t bytes() const { return message_.used_bytes; }
  [[nodiscard]] std::uint64_t bytes_on_device() const { return on_device_; }  // beside those

  void write(std::byte* base) const;
  // Outputs, what was written outside of them, whether they were written at all.
  void read(const std::byte* base, Outcome& outcome) const;

 private:
  const Call& call_;
  std::vector<const CallTensor*> tensors_;
  wire::Message message_;
  std::uint64_t on_device_ = 0;
};

void set_dtype(const CallTensor& from, wire::Tensor& to);

}  // namespace mxcheck
