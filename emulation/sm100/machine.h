#pragma once
// The state of a cluster that is being emulated. Internal: kernels see instructions.h, callers launch.h.
//
// The order of events (sections of the PTX ISA 9.0): every thread has four clocks.
//   memory    events that lie before, for the generic proxy; of operations of the tensor core those known to be
//   complete async     those that lie before for the async proxy too: writes of shared memory come here by
//   fence.proxy.async (8.x) tensor    those that lie before for tcgen05 instructions of this thread (9.7.16.6) acquired
//   what waits have brought and no tcgen05.fence::after_thread_sync has made `tensor` yet
// and `published`: what of `tensor` a tcgen05.fence::before_thread_sync has offered to the next arrival. An arrival
// hands over memory, async, published and acquired; a wait takes memory and async, and the other two as acquired. A
// thread between two others, with no tcgen05 instruction of its own, so needs no fence.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/sm100/fiber.h"
#include "emulation/sm100/instructions.h"
#include "emulation/sm100/launch.h"

namespace mxcheck::emulation::sm100 {

// --- clocks
//
// Vector clocks: which events a thread, a barrier or a memory cell knows to lie before it. An event is a component (a
// thread, the tensor-core operations of a thread, a barrier's transactions) and its number there, from 1 on.

struct Event {
  std::uint32_t component = 0;
  std::uint32_t number = 0;  // 0: no event
  bool operator==(const Event&) const = default;
};

class Clock {
 public:
  [[nodiscard]] bool knows(Event e) const {
    return e.number == 0 || (e.component < known_.size() && known_[e.component] >= e.number);
  }

  [[nodiscard]] std::uint32_t upto(std::uint32_t component) const {
    return component < known_.size() ? known_[component] : 0;
  }

  void learn(Event e) {
    if (e.number == 0) return;
    if (e.component >= known_.size()) known_.resize(e.component + std::size_t{1});
    known_[e.component] = std::max(known_[e.component], e.number);
  }

  [[nodiscard]] bool covers(const Clock& other) const {
    for (std::size_t i = 0; i < other.known_.size(); ++i) {
      if (other.known_[i] > (i < known_.size() ? known_[i] : 0)) return false;
    }
    return true;
  }

  void join(const Clock& other) {
    if (other.known_.size() > known_.size()) known_.resize(other.known_.size());
    for (std::size_t i = 0; i < other.known_.size(); ++i) known_[i] = std::max(known_[i], other.known_[i]);
  }

 private:
  std::vector<std::uint32_t> known_;
};

// --- the cluster

inline constexpr std::uint32_t kSystemBytes = 1024;  // of shared memory, before a CTA's own

struct Cta;
struct Thread;
struct Machine;

// Four bytes of shared memory.
struct SharedCell {
  enum class Writer : std::uint8_t { none, generic, tma, tma_in_flight };
  Writer writer = Writer::none;
  Swizzle swizzle = Swizzle::none;  // of the TMA load that wrote it
  bool by_tensor_map = false;
  Event write;
  std::uint64_t load = 0;      // of a TMA load in flight: its number
  std::vector<Event> reads{};  // since the write, the last of each component
};

// 16 lanes of one column: the smallest part of tensor memory that an instruction's lanes cover.
struct TmemCell {
  bool valid = false;
  bool by_tensor_core = false;  // the writer
  Event write;
  std::uint64_t mma_shape = 0;  // of the mma that wrote it: kind, M and N, 0 for others
  std::vector<Event> reads{};
};

struct BarrierClocks {
  Clock memory, async, tensor;
  void join(const BarrierClocks& other) {
    memory.join(other.memory);
    async.join(other.async);
    tensor.join(other.tensor);
  }
};

struct Barrier {
  unsigned count = 0;
  unsigned pending = 0;
  std::int64_t bytes = 0;                 // tx-count
  std::uint64_t phase = 0;                // completed phases
  bool waited = true;                     // somebody saw the last completed phase
  unsigned waiting = 0;                   // threads
  std::array<unsigned, 2> waiting_for{};  // of them, by parity
  std::uint32_t component = 0;
  std::uint32_t remote_component = 0;  // of bytes that land in other CTAs
  std::string place;                   // for findings
  Event init;
  BarrierClocks arriving, completed;
  BarrierClocks arriving_remote, completed_remote;  // by threads of other CTAs, commits too: .acquire.cluster alone
};

struct PendingLoad {
  std::uint32_t* to;
  unsigned lane, column;
  bool pack16;
};

struct TmemAllocation {
  unsigned column, columns;
  int cta_group;
};

struct Cta {
  Machine* machine = nullptr;
  unsigned rank = 0, block = 0;
  std::vector<std::byte> shared;
  std::vector<SharedCell> shared_cells;
  std::vector<std::uint32_t> tmem;   // [lane][512]
  std::vector<TmemCell> tmem_cells;  // [8][512]
  std::vector<TmemAllocation> allocations;
  unsigned last_columns = 0;  // of the last allocation: they must not grow
  bool relinquished = false;
  std::map<std::uint32_t, Barrier> barriers;
  unsigned running = 0;  // threads that have not ended
  Clock reached;         // what other CTAs' threads and tensor-core operations have done to this one
  Clock known;           // of its threads that have ended
  std::vector<Thread*> threads;
};

// An asynchronous operation that has been issued.
struct Operation {
  std::string text;
  std::function<void()> happen;
  Thread* by = nullptr;
  // The number of a tcgen05 operation's event, and the events of other threads that fences order before it.
  std::uint32_t number = 0;
  std::vector<std::pair<const Thread*, std::uint32_t>> after{};
};

// A rendezvous: of a warp, of a named barrier, of a cluster.
struct Rendezvous {
  unsigned arrived = 0;
  std::uint64_t round = 0;
  std::string_view kind;
  std::uint64_t detail = 0;
  BarrierClocks clocks, completed;
  std::shared_ptr<BarrierClocks> of_round;  // of a named barrier, whose rounds other warps may have
  std::vector<std::uint32_t> values;        // of a shuffle
};

// tcgen05.ld and .st are instructions of whole warps, so that their events are too.
struct WarpEvents {
  std::uint32_t component = 0, issued = 0;
};
struct Warp {
  Rendezvous meeting;
  WarpEvents loads, stores;                           // tcgen05.ld, tcgen05.st
  std::vector<std::function<void()>> pending_stores;  // those that have not happened yet
  std::vector<std::string> register_counts;           // its setmaxnreg
};

struct BulkGroup {
  unsigned open = 0;  // stores that still read shared memory
  Event event;
};

struct Thread {
  Machine* machine = nullptr;
  Cta* cta = nullptr;
  unsigned id = 0;     // in the cluster; also its component
  unsigned index = 0;  // in the CTA
  const char* role = "";
  std::string instruction;
  std::unique_ptr<Fiber> fiber;
  std::function<bool()> ready;  // empty: it can go on
  std::string waits_for;
  bool ended = false;

  Clock memory, async, tensor, acquired, published;
  std::uint32_t now = 1;     // number of its next event
  std::vector<Event> inits;  // of mbarriers, not yet fenced
  std::uint32_t pipe_component = 0, pipe_issued = 0, pipe_done = 0;
  std::uint32_t bulk_component = 0, bulk_issued = 0;
  std::deque<Operation> pipe;
  std::vector<PendingLoad> loads;
  std::shared_ptr<BulkGroup> open_group;
  std::deque<std::shared_ptr<BulkGroup>> groups;
  std::map<std::uint32_t, std::uint64_t> seen;  // by a barrier's component: completed phases at its last wait
  std::uint64_t cluster_round = 0;
  bool cluster_arrived = false;  // and has not waited since
};

struct Stop {};  // thrown in a fibre: the run ends

struct Machine {
  LaunchShape shape;
  LaunchOptions options;
  Findings* findings = nullptr;
  LaunchResult* result = nullptr;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<Cta>> ctas;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;                                    // by thread / 32
  std::map<std::pair<unsigned, unsigned>, Rendezvous> named;  // by CTA and barrier
  Rendezvous cluster;
  std::map<std::uint64_t, Rendezvous> pair_calls;  // tcgen05.alloc and dealloc of a pair, by what is called
  std::vector<Operation> loads;                    // TMA, in no order
  std::uint32_t components = 0;
  std::uint64_t load_number = 0;
  int cta_group = 0;  // of the first tcgen05 instruction
  std::function<std::optional<unsigned>()>
      claim;                   // the first CTA of a cluster that has not started, for launch control
  bool claims_failed = false;  // and a query has seen it
  bool stopping = false;
  unsigned first_block = 0;
  std::uint64_t steps = 0;

  std::uint32_t component() { return components++; }
  [[nodiscard]] unsigned running() const {
    unsigned n = 0;
    for (const auto& cta : ctas) n += cta->running;
    return n;
  }
  bool flip() { return (random() & 1U) != 0; }
};

Thread& self();
void set_self(Thread* thread);

// Every instruction begins with it: a name for findings, and, of the random schedule, a switch to another thread.
void begin(std::string instruction);
void report(Hazard hazard, std::string what, std::string right);
[[noreturn]] void stop(Hazard hazard, std::string what, std::string right);
void wait_until(std::string waits_for, std::function<bool()> ready);
std::string name_of(const Thread& thread);

// The CTA and the offset that an address of shared memory means; ends the run where there is none, or the CTA has
// ended.
struct SharedPlace {
  Cta* cta;
  std::uint32_t offset;
};
SharedPlace place_of(std::uint32_t address, std::size_t bytes);
std::uint32_t mapped(std::uint32_t address, unsigned rank);  // mapa

// Ends the run unless all 32 lanes come with the same kind and detail. True in the lane that came last, before the
// others go on.
void converge(std::string_view kind, std::uint64_t detail, const std::function<void()>& last = {});

void require_met(const Cta& cta);
void complete_cluster_barrier(Machine& machine);
void leave_cluster_barrier(Thread& thread);  // by a thread that ends

// Clocks.
void hand_over(BarrierClocks& to, Thread& from);
void take_over(Thread& to, const BarrierClocks& from);
void publish(Thread& thread);  // what tcgen05.fence::before_thread_sync does

// mbarriers, from operations of any kind; `clocks` is what the arrival hands over.
Barrier* barrier_at(SharedPlace place, std::string_view what);
void arrive_on(Barrier& barrier, unsigned arrivals, std::int64_t bytes, const BarrierClocks& clocks, bool remote);

// Shared memory's shadow.
void store_generic(SharedPlace place, const void* from, std::size_t bytes);
void check_shared_read_async(Cta& cta, std::uint32_t offset, std::uint32_t bytes, Event read,
                             std::optional<Swizzle> swizzle, std::string_view what);
void check_shared_write_async(Cta& cta, std::uint32_t offset, std::uint32_t bytes, std::uint64_t load, Swizzle swizzle,
                              bool by_tensor_map);

// Operations.
void issue_load(std::string text, std::function<void()> happen);  // TMA: in no order
void issue_pipe(std::string text, std::function<void()> happen);  // tcgen05: in this thread's order

// Tensor memory.
std::uint32_t& tmem_word(Cta& cta, unsigned lane, unsigned column);
TmemCell& tmem_cell(Cta& cta, unsigned lane, unsigned column);
bool allocated(const Cta& cta, unsigned column);
void one_cta_group(int cta_group);
inline void remember(std::vector<Event>& reads, Event e) {
  for (Event& r : reads) {
    if (r.component == e.component) {
      r = e;
      return;
    }
  }
  reads.push_back(e);
}

}  // namespace mxcheck::emulation::sm100
