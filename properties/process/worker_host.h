#pragma once
// Calls of a host library, in the child process, on tensors in the gate's shared memory.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/candidate.h"
#include "properties/process/wire.h"
#include "properties/process/worker_call.h"

namespace mxcheck {

// The shared memory as this process sees it; the parent may have made it larger since.
class SharedMemory {
 public:
  explicit SharedMemory(int fd) : fd_(fd) {}
  bool resize(std::uint64_t bytes);
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }

 private:
  int fd_;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// A workspace between two zones. It stays from call to call, so that a call can find what the last one left.
class Workspace {
 public:
  // False: there is no memory for it.
  bool prepare(std::uint64_t bytes, WorkspaceFill fill);
  [[nodiscard]] void* data() const { return bytes_ != 0 ? memory_.get() + kZone : nullptr; }
  [[nodiscard]] bool broken() const;
  void end_call();  // a large one is given back

 private:
  static constexpr std::uint64_t kZone = 4096;
  static constexpr unsigned char kZonePoison = 0xC7;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // more is refused like memory that is not there
  static constexpr std::uint64_t kMostKept = std::uint64_t{1} << 26;
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<unsigned char[], Free> memory_;
  std::uint64_t capacity_ = 0;
  std::uint64_t bytes_ = 0;
};

// The caller's memory for kept weights, from call to call. There are zones around that of a call that writes it.
class KeptMemory {
 public:
  // Fresh: of the poison; else as earlier calls left it. False: there is no memory for it.
  bool prepare(std::uint64_t bytes, bool fresh, std::uint8_t poison, bool has_zones);
  [[nodiscard]] void* data() const { return memory_ == nullptr ? nullptr : memory_.get() + kZone; }
  [[nodiscard]] bool broken() const;

 private:
  static constexpr std::uint64_t kZone = 4096;
  static constexpr unsigned char kZonePoison = 0xC7;
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<unsigned char[], Free> memory_;
  std::uint64_t capacity_ = 0;
  std::uint64_t bytes_ = 0;
  bool has_zones_ = false;
};

struct HostCall {
  const mxcheck_operation& operation;
  const mxcheck_policy& policy;
  const wire::Message& message;
  const SharedMemory& memory;
  wire::Reply& reply;
};

class HostWorker {
 public:
  void run(const HostCall& c);

 private:
  void run_one(const HostCall& c, std::uint64_t displaced);  // its tensors, from where the message says
  // Memory for kept weights, and the policy with its address; false: the reply says why not.
  bool prepare_memory(const HostCall& c, CandidateCall& built, PolicyWithMemory& policy);
  void repeat(const HostCall& c, mxcheck_call& call);
  void interrupt(const HostCall& c);
  std::unique_ptr<HostWorker> other_;  // of calls that come between another one's workspace and run
  MessageBuffer message_;
  Workspace workspace_;
  KeptMemory memory_;
};

}  // namespace mxcheck
