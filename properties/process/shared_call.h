#pragma once
// A call's tensors in the memory that the gate shares with its child process: where they lie, what is written there
// before the call, and what is read after it.
//
// A red zone is before and after every tensor. Outputs that stay on the device have no place here.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/process/candidate_process.h"
#include "properties/process/wire.h"

namespace mxcheck {

// The least multiple of `to` that is not below n.
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

class SharedCall {
 public:
  explicit SharedCall(const Call& call);  // which outlives this

  // The request, operation, shared_bytes are the caller's.
  [[nodiscard]] const wire::Message& message() const { return message_; }
  [[nodiscard]] std::uint64_t bytes() const { return message_.used_bytes; }
  [[nodiscard]] std::uint64_t bytes_on_device() const { return on_device_; }  // beside those

  void write(std::byte* base) const;
  // Behind the call's own bytes: the call and the question that come between its workspace and its run.
  [[nodiscard]] std::uint64_t bytes_with_between() const;
  void write_between(std::byte* base, wire::Message& message) const;
  // Outputs, what was written outside of them, whether they were written at all. Of a call that brings other outputs
  // only: whether they are its answer, and a copy where they are not. The process may still write there: what is judged
  // is either that one look or the copy, never the memory twice.
  void read(const std::byte* base, Outcome& outcome) const;
  // True if the outputs are these, and nothing else was written: read() would say no more.
  [[nodiscard]] bool holds(const std::byte* base, const std::vector<std::span<const std::byte>>& outputs) const;

 private:
  // True if output `output` is so: bytes that may hold anything are not looked at.
  [[nodiscard]] bool output_is(const std::byte* base, std::size_t output, std::span<const std::byte> expected) const;
  [[nodiscard]] bool outputs_are_the_answer(const std::byte* base) const;
  [[nodiscard]] bool is_updated(std::size_t input) const;
  // Where bytes were written that belong to no output.
  [[nodiscard]] std::optional<std::string> trespass(const std::byte* base) const;

  const Call& call_;
  std::vector<const CallTensor*> tensors_;
  wire::Message message_;
  std::uint64_t on_device_ = 0;
  std::unique_ptr<SharedCall> between_;  // of call_.between
};

void set_dtype(const CallTensor& from, wire::Tensor& to);
wire::Question on_the_wire(const Question& question);

}  // namespace mxcheck
