#include "properties/process/worker_host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "properties/process/call_watch.h"
#include "properties/process/process_state.h"
#include "properties/process/worker_call.h"

namespace mxcheck {
namespace {

// Inaccessible pages around the guarded tensors for the length of one call.
class Guards {
 public:
  Guards(const SharedMemory& memory, const wire::Message& message) : memory_(memory), message_(message) {
    protect(PROT_NONE);
  }
  ~Guards() { protect(PROT_READ | PROT_WRITE); }
  Guards(const Guards&) = delete;
  Guards& operator=(const Guards&) = delete;

 private:
  void protect(int protection) const {
    for (int i = 0; i < message_.num_inputs + message_.num_outputs; ++i) {
      const wire::Tensor& t = message_.tensors[i];
      if (t.guarded == 0) continue;
      const std::uint64_t first = t.offset / wire::kPage * wire::kPage;
      const std::uint64_t end = (t.offset + t.bytes + wire::kPage - 1) / wire::kPage * wire::kPage;
      mprotect(memory_.at(first - wire::kPage), wire::kPage, protection);
      mprotect(memory_.at(end), wire::kPage, protection);
    }
  }
  const SharedMemory& memory_;
  const wire::Message& message_;
};

}  // namespace

bool SharedMemory::resize(std::uint64_t bytes) {
  if (bytes == bytes_) return true;
  if (base_ != nullptr) munmap(base_, bytes_);
  base_ = nullptr, bytes_ = 0;
  if (bytes == 0) return true;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (base == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(base), bytes_ = bytes;
  return true;
}

void Workspace::Free::operator()(void* p) const { std::free(p); }

bool Workspace::prepare(std::uint64_t bytes, WorkspaceFill fill) {
  bytes_ = 0;
  if (bytes > kMost) return false;
  if (bytes == 0) return true;
  const std::uint64_t wanted = (bytes + 2 * kZone + 4095) / 4096 * 4096;
  if (wanted > capacity_) {
    memory_.reset(static_cast<unsigned char*>(std::aligned_alloc(4096, wanted)));
    capacity_ = memory_ ? wanted : 0;
    if (!memory_) return false;
    if (fill.keep != 0) std::memset(memory_.get(), kZonePoison, capacity_);  // of a first call nothing is left
  }
  bytes_ = bytes;
  std::memset(memory_.get(), kZonePoison, kZone);
  if (fill.keep == 0) std::memset(memory_.get() + kZone, fill.poison, bytes);
  std::memset(memory_.get() + kZone + bytes, kZonePoison, kZone);
  return true;
}

bool Workspace::broken() const {
  if (bytes_ == 0) return false;
  for (std::uint64_t i = 0; i < kZone; ++i) {
    if (memory_[i] != kZonePoison || memory_[kZone + bytes_ + i] != kZonePoison) return true;
  }
  return false;
}

void Workspace::end_call() {
  if (capacity_ > kMostKept) memory_.reset(), capacity_ = 0;
  bytes_ = 0;
}

void KeptMemory::Free::operator()(void* p) const { std::free(p); }

bool KeptMemory::prepare(std::uint64_t bytes, bool fresh, std::uint8_t poison, bool has_zones) {
  const std::uint64_t wanted = (bytes + 2 * kZone + 4095) / 4096 * 4096;
  if (wanted > capacity_) {
    std::unique_ptr<unsigned char[], Free> larger(static_cast<unsigned char*>(std::aligned_alloc(4096, wanted)));
    if (!larger) return false;
    std::memset(larger.get(), kZonePoison, wanted);
    if (memory_ != nullptr) std::memcpy(larger.get(), memory_.get(), capacity_);
    memory_ = std::move(larger), capacity_ = wanted;
  }
  bytes_ = bytes, has_zones_ = has_zones;
  if (fresh) std::memset(memory_.get() + kZone, poison, bytes);
  if (!has_zones) return true;
  std::memset(memory_.get(), kZonePoison, kZone);
  std::memset(memory_.get() + kZone + bytes, kZonePoison, kZone);
  return true;
}

bool KeptMemory::broken() const {
  if (!has_zones_) return false;
  for (std::uint64_t i = 0; i < kZone; ++i) {
    if (memory_[i] != kZonePoison || memory_[kZone + bytes_ + i] != kZonePoison) return true;
  }
  return false;
}

void HostWorker::run(const HostCall& c) {
  if (c.message.burst == 0) return run_one(c, 0);
  const std::uint64_t results = c.message.burst * c.message.burst_step;
  for (std::uint32_t i = 0; i < c.message.burst; ++i) {
    c.reply.status = MXCHECK_OK, c.reply.message[0] = '\0';
    run_one(c, i * c.message.burst_step);
    wire::CallResult result;
    result.status = c.reply.status, result.workspace_broken = c.reply.workspace_broken;
    std::memcpy(result.message, c.reply.message, sizeof(result.message));
    std::memcpy(c.memory.at(results + i * sizeof(result)), &result, sizeof(result));
  }
}

void HostWorker::run_one(const HostCall& c, std::uint64_t displaced) {
  PolicyWithMemory policy(c.message, c.policy);
  CandidateCall built(c.message, policy.get(), message_, kDLCPU,
                      [&](int i) { return c.memory.at(c.message.tensors[i].offset + displaced); });
  std::uint64_t bytes = 0;
  message_.clear();
  if (c.message.memory.policy_offset != 0 && !prepare_memory(c, built, policy)) return;
  if (c.operation.workspace != nullptr) c.reply.status = built.ask_workspace(c.operation, bytes, c.reply);
  if (c.reply.status == MXCHECK_OK) {
    if (!workspace_.prepare(bytes, c.message.workspace)) {
      return CandidateCall::refuse_for_want_of_memory(c.reply, "workspace");
    }
    if (!built.set_workspace(c.message, workspace_.data(), bytes)) {
      return CandidateCall::refuse_for_want_of_a_workspace(c.reply);
    }
    if (c.message.between != 0) interrupt(c);
    const Guards guards(c.memory, c.message);
    c.reply.status = built.run(c.operation, c.reply);
    if (c.message.repeat != 0) repeat(c, built.call);
  }
  if (const char* problem = message_.take(c.reply); problem != nullptr) add_conduct(c.reply, problem);
  c.reply.workspace_broken = workspace_.broken() ? 1 : 0;
  if (c.message.memory.policy_offset != 0 && memory_.broken())
    add_conduct(c.reply, "wrote beside the memory for kept weights");
  workspace_.end_call();
}

void HostWorker::interrupt(const HostCall& c) {
  wire::Between between;
  std::memcpy(&between, c.memory.at(c.message.between), sizeof(between));
  if (between.has_call != 0) {
    if (other_ == nullptr) other_ = std::make_unique<HostWorker>();
    const PolicyInPlace policy(between.call.policy);
    wire::Reply reply;
    other_->run_one({c.operation, *policy.get(), between.call, c.memory, reply}, between.displaced);
  }
  if (between.has_question != 0 && !ask_supports(c.operation, between.question))
    add_conduct(c.reply, "the library wrote into the policy, or beside it, in supports()");
}

bool HostWorker::prepare_memory(const HostCall& c, CandidateCall& built, PolicyWithMemory& policy) {
  const CallMemory& memory = c.message.memory;
  const mxcheck_kept_weights asked = policy.kept();
  std::uint64_t bytes = 0;
  policy.ask();
  if (c.operation.workspace != nullptr && built.call.policy != nullptr)
    c.reply.status = built.ask_workspace(c.operation, bytes, c.reply);
  policy.restore(asked);
  if (const char* problem = message_.take(c.reply); problem != nullptr) add_conduct(c.reply, problem);
  if (c.reply.status != MXCHECK_OK) return false;
  message_.clear();
  bytes = PolicyWithMemory::room(memory, bytes);
  if (!memory_.prepare(bytes, memory.is_fresh, c.message.poison, policy.keeps())) {
    CandidateCall::refuse_for_want_of_memory(c.reply, "memory for kept weights");
    return false;
  }
  if (policy.set(memory, memory_.data(), bytes)) return true;
  CandidateCall::refuse_for_want_of_a_workspace(c.reply, "memory for kept weights");
  return false;
}

// A tenth of the calls until the library has what it keeps for good, then two stretches of equal length, for which the
// use of resources is told: what grows in both grows with the calls. Slow calls are fewer: a stretch has 2 s.
void HostWorker::repeat(const HostCall& c, mxcheck_call& call) {
  using Clock = std::chrono::steady_clock;
  const auto calls = [&](std::uint32_t most, std::chrono::seconds limit) {
    const auto end = Clock::now() + limit;
    std::uint32_t done = 0;
    while (done < most && c.reply.status == MXCHECK_OK && (done % 16 != 0 || Clock::now() < end)) {
      std::uint64_t bytes = 0;
      if (c.operation.workspace != nullptr) c.reply.status = c.operation.workspace(&call, &bytes);
      if (c.reply.status == MXCHECK_OK) c.reply.status = c.operation.run(&call);
      ++done;
    }
    return done;
  };
  const ResourceWatch watch;
  (void)watch.now();  // the first look takes memory itself
  c.reply.memory.most_files = most_open_files();
  (void)calls(c.message.repeat / 10, std::chrono::seconds(2));
  c.reply.memory.begin = watch.now();
  c.reply.memory.calls = calls((c.message.repeat - c.message.repeat / 10) / 2, std::chrono::seconds(2));
  c.reply.memory.middle = watch.now();
  (void)calls(static_cast<std::uint32_t>(c.reply.memory.calls), std::chrono::seconds(6));
  c.reply.memory.end = watch.now();
}

}  // namespace mxcheck
