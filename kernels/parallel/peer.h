#pragma once
// Rows between ranks of one host by memory that they show one another: a rank writes its rows to where they go, without
// a third place between. On GPUs copy engines write over NVLink (tools/parallel/gpu_peer.h), on the host the processor
// writes to shared memory (SharedHostMemory): the protocol is the same, and the host's tests are of it.
//
// Protocol. Each rank has two words for every other one, which count steps: all ranks run the same steps in the same
// order. In a step a rank
//
//   1  writes to the `ready` word at every rank that sends it something: its memory may be written to now
//   2  waits for its own `ready` word of every rank to which it sends, writes the rows there, and then that rank's
//      `arrived` word
//   3  waits for its own `arrived` word of every rank that sends it something
//
// Every wait is for what another rank does earlier in the same order, so ranks that all go on never wait for each other
// in a circle. What a rank that has ended leaves undone is never waited for without end: on the host the wait looks
// after the peers, and on a GPU who waits for the GPU does (Device::synchronize), and lets the waits go by give_up().
//
// Errors: ParallelError{disagreement} for ranks with other steps or sizes, {environment} for memory that cannot be
// shown.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/parallel/device.h"
#include "kernels/parallel/mesh.h"

namespace mxcheck_kernels::parallel {

struct PeerCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};
// The bytes that go to one rank in a step.
struct PeerPush {
  int peer = 0;
  const std::uint32_t* ready = nullptr;  // here
  std::uint32_t* arrived = nullptr;      // there
  std::vector<PeerCopy> copies;
};

// The operations that the protocol needs of a device. The four last work in the transfer lane: a GPU enqueues them.
class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  virtual ~PeerMemory() = default;

  // A text that the ranks have alike that can show memory to one another, if others can do so at all.
  [[nodiscard]] virtual std::string host() const = 0;
  // The allocation with this address: a key by which other processes open it, and where it begins.
  struct Shown {
    std::string key;
    std::byte* begin = nullptr;
  };
  virtual Shown show(const void* inside) = 0;
  virtual std::byte* open(const std::string& key) = 0;
  virtual void close(std::byte* opened) noexcept = 0;
  // No rank has memory open any more that was shown before.
  virtual void all_closed() = 0;

  virtual void copy(const PeerCopy& here) = 0;
  virtual void write(std::uint32_t* word, std::uint32_t value) = 0;
  virtual void wait(int peer, const std::uint32_t* word, std::uint32_t value, std::string_view step) = 0;
  virtual void push(std::span<const PeerPush> pushes, std::uint32_t value, std::string_view step) = 0;
};

class PeerExchange {
 public:
  static std::uint64_t words_of(int ranks) { return 2 * static_cast<std::uint64_t>(ranks); }

  // All ranks together. words: words_of() zeros of memory that can be shown.
  PeerExchange(Mesh& mesh, PeerMemory& memory, std::uint32_t* words);
  ~PeerExchange();
  PeerExchange(const PeerExchange&) = delete;
  PeerExchange& operator=(const PeerExchange&) = delete;

  // Why some ranks cannot reach memory of others, the same on all; then nothing else may be called.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  // The same as Device::connect and Device::transfer.
  void connect(std::span<const Exchange> all);
  void transfer(std::string_view step);

  // Ranks that this one waits for, from its words as they are.
  [[nodiscard]] std::vector<int> awaited(std::span<const std::uint32_t> words) const;
  // After the last transfer, by all ranks together.
  void disconnect();

 private:
  struct Step {
    std::vector<PeerCopy> here;
    std::vector<PeerPush> pushes;
    std::vector<int> sources;
  };
  std::byte* opened(int peer, const std::string& key);
  void close_rows();
  void find_peers();
  [[nodiscard]] std::string text_of(std::span<const Exchange> all);
  void plan(std::span<const Exchange> all, const std::vector<std::string>& texts);
  [[nodiscard]] std::uint32_t* ready_here(int peer) const { return words_ + peer; }
  [[nodiscard]] std::uint32_t* arrived_here(int peer) const { return words_ + mesh_.ranks() + peer; }

  Mesh& mesh_;
  PeerMemory& memory_;
  std::uint32_t* words_;
  std::vector<std::byte*> word_memory_;      // of other ranks, as opened
  std::vector<std::uint32_t*> words_there_;  // of each rank
  std::map<std::pair<int, std::string>, std::byte*> rows_there_;
  std::map<std::string, Step, std::less<>> steps_;
  std::uint32_t step_ = 0;
  std::vector<std::uint32_t> waited_;  // as words_: the last value that was waited for
  std::string problem_;
};

// Memory of the host that other processes of this user can open.
class SharedHostMemory final : public PeerMemory {
 public:
  SharedHostMemory(Mesh& mesh, std::chrono::milliseconds timeout) : mesh_(mesh), timeout_(timeout) {}
  ~SharedHostMemory() override;
  void* allocate(std::uint64_t bytes);
  void release(void* memory) noexcept;

  [[nodiscard]] std::string host() const override;
  Shown show(const void* inside) override;
  std::byte* open(const std::string& key) override;
  void close(std::byte* opened) noexcept override;
  void all_closed() override {}
  void copy(const PeerCopy& here) override;
  void write(std::uint32_t* word, std::uint32_t value) override;
  void wait(int peer, const std::uint32_t* word, std::uint32_t value, std::string_view step) override;
  void push(std::span<const PeerPush> pushes, std::uint32_t value, std::string_view step) override;

 private:
  struct Allocation {
    int file = -1;
    std::uint64_t bytes = 0;
  };
  Mesh& mesh_;
  std::chrono::milliseconds timeout_;
  std::map<std::byte*, Allocation> own_;
  std::map<std::byte*, std::uint64_t> opened_;
};

}  // namespace mxcheck_kernels::parallel
