#include "emulation/sm100/machine.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace mxcheck::emulation::sm100 {
namespace {

thread_local Thread* the_thread = nullptr;

}  // namespace

Thread& self() { return *the_thread; }
void set_self(Thread* thread) { the_thread = thread; }

std::string name_of(const Thread& t) {
  std::string name = "cta " + std::to_string(t.cta->block) + " warp " + std::to_string(t.index / 32) + " lane " +
                     std::to_string(t.index % 32);
  if (t.role[0] != '\0') name += std::string(" (") + t.role + ")";
  return name;
}

void begin(std::string instruction) {
  Thread& t = self();
  t.instruction = std::move(instruction);
  Machine& machine = *t.machine;
  if (machine.stopping) throw Stop{};
  if (++machine.steps > machine.options.max_steps) {
    stop(Hazard::deadlock, std::to_string(machine.steps) + " instructions in one cluster and no end",
         "a loop that ends; LaunchOptions::max_steps is the limit");
  }
  // A switch at one instruction in four: runs of a warp's instructions stay possible, so that one warp can get far
  // ahead.
  if (machine.options.schedule == Schedule::random && machine.random() % 4 == 0) {
    ++machine.result->switches;
    t.fiber->leave();
    if (machine.stopping) throw Stop{};
  }
}

void report(Hazard hazard, std::string what, std::string right) {
  Thread& t = self();
  if (!t.machine->options.checks && hazard != Hazard::deadlock) return;
  t.machine->findings->add({hazard, name_of(t), t.instruction, std::move(what), std::move(right)}, t.role);
}

void stop(Hazard hazard, std::string what, std::string right) {
  Thread& t = self();
  t.machine->findings->add({hazard, name_of(t), t.instruction, std::move(what), std::move(right)}, t.role);
  t.machine->stopping = true;
  throw Stop{};
}

void wait_until(std::string waits_for, std::function<bool()> ready) {
  if (ready()) return;
  Thread& t = self();
  t.waits_for = std::move(waits_for);
  t.ready = std::move(ready);
  ++t.machine->result->switches;
  t.fiber->leave();
  if (t.machine->stopping) throw Stop{};
  t.ready = {};
  t.waits_for.clear();
}

SharedPlace place_of(std::uint32_t address, std::size_t bytes) {
  Thread& t = self();
  const unsigned space = address >> 24;
  const std::uint32_t offset = address & 0xFFFFFFU;
  if (space > t.machine->ctas.size()) {
    stop(Hazard::address,
         "address " + std::to_string(address) + " is of rank " + std::to_string(space - 1) + " in a cluster of " +
             std::to_string(t.machine->ctas.size()),
         "a rank of the cluster");
  }
  Cta* cta = space == 0 ? t.cta : t.machine->ctas[space - 1].get();
  if (offset < kSystemBytes || offset + bytes > cta->shared.size()) {
    stop(Hazard::address,
         "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) + " of shared memory",
         "from " + std::to_string(kSystemBytes) + ", which is shared_base(), to " + std::to_string(cta->shared.size()));
  }
  if (cta->running == 0 && cta != t.cta) {
    stop(Hazard::exit, "shared memory of cta " + std::to_string(cta->block) + ", which has ended",
         "a barrier of the cluster before any of its CTAs ends");
  }
  require_met(*cta);
  return {cta, offset};
}

// A CTA of the cluster may not have begun: what reaches into it must come after something that one of its threads did
// (PTX ISA 9.0, 9.7.9.22 mapa: the other CTA's shared memory must exist).
void require_met(const Cta& cta) {
  const Thread& t = self();
  if (&cta == t.cta || !t.machine->options.checks) return;
  const bool met = std::ranges::any_of(cta.threads, [&](const Thread* other) {
    return t.memory.knows({other->id, 1});
  });
  if (!met) {
    report(Hazard::collective, "nothing says that cta " + std::to_string(cta.block) + " has begun",
           "a barrier of the cluster before the first use of another CTA");
  }
}

void converge(std::string_view kind, std::uint64_t detail, const std::function<void()>& last) {
  Thread& t = self();
  Rendezvous& r = t.machine->warps[t.id / 32].meeting;
  if (r.arrived > 0 && (r.kind != kind || r.detail != detail)) {
    stop(Hazard::collective,
         r.kind == kind ? "lanes of the warp pass different operands to it"
                        : "other lanes of the warp are at " + std::string(r.kind),
         "an aligned instruction is executed by all 32 lanes together, with the same operands");
  }
  r.kind = kind;
  r.detail = detail;
  if (++r.arrived == 32) {
    if (last) last();
    r.arrived = 0;
    ++r.round;
    return;
  }
  wait_until("the other lanes at " + std::string(kind), [&r, round = r.round] { return r.round != round; });
}

void hand_over(BarrierClocks& to, Thread& from) {
  from.memory.learn({from.id, from.now});
  ++from.now;
  to.memory.join(from.memory);
  to.async.join(from.async);
  to.tensor.join(from.published);
  to.tensor.join(from.acquired);
}

void take_over(Thread& to, const BarrierClocks& from) {
  to.memory.join(from.memory);
  to.async.join(from.async);
  to.acquired.join(from.tensor);
}

void publish(Thread& t) {
  t.published = t.tensor;
  if (t.pipe_component != 0) t.published.learn({t.pipe_component, t.pipe_issued});
}

// --- threads together
//
// Who calls, and what the threads of a warp, a CTA and a cluster do together.

unsigned thread_index() { return self().index; }
unsigned block_threads() { return self().machine->shape.threads; }
unsigned block_index() { return self().cta->block; }
unsigned grid_blocks() { return self().machine->shape.blocks; }
unsigned cluster_rank() { return self().cta->rank; }
unsigned cluster_blocks() { return self().machine->shape.cluster; }
void role(const char* name) { self().role = name; }

bool elect() {
  begin("elect.sync");
  converge("elect.sync", 0);
  return self().index % 32 == 0;
}

void sync_warp() {
  begin("bar.warp.sync");
  Thread& t = self();
  Warp& warp = t.machine->warps[t.id / 32];
  hand_over(warp.meeting.clocks, t);
  converge("bar.warp.sync", 0, [&warp] {
    warp.meeting.completed = std::move(warp.meeting.clocks);
    warp.meeting.clocks = {};
  });
  take_over(t, warp.meeting.completed);
}

std::uint32_t shuffle(std::uint32_t value, unsigned lane) {
  begin("shfl.sync.idx");
  Thread& t = self();
  Rendezvous& r = t.machine->warps[t.id / 32].meeting;
  // Two buffers in turn: a lane may be at the next shuffle before the last has read this one's.
  r.values.resize(64);
  const unsigned half = static_cast<unsigned>(r.round & 1U) * 32;
  r.values[half + t.index % 32] = value;
  converge("shfl.sync.idx", 0);
  return r.values[half + lane % 32];
}

void sync_named(unsigned barrier, unsigned threads) {
  begin("bar.sync " + std::to_string(barrier) + ", " + std::to_string(threads));
  Thread& t = self();
  if (barrier > 15 || threads == 0 || threads % 32 != 0 || threads > t.machine->shape.threads) {
    stop(Hazard::collective, "barrier " + std::to_string(barrier) + " of " + std::to_string(threads) + " threads",
         "barriers 0 to 15, of whole warps of the CTA");
  }
  converge("bar.sync", (std::uint64_t{barrier} << 32) | threads);
  Rendezvous& r = t.machine->named[{t.cta->rank, barrier}];
  if (r.arrived > 0 && r.detail != threads) {
    stop(Hazard::collective,
         "other warps are at barrier " + std::to_string(barrier) + " with " + std::to_string(r.detail) + " threads",
         "the same number of threads in each");
  }
  r.detail = threads;
  if (r.of_round == nullptr) r.of_round = std::make_shared<BarrierClocks>();
  const std::shared_ptr<BarrierClocks> clocks = r.of_round;
  hand_over(*clocks, t);
  const std::uint64_t round = r.round;
  if (++r.arrived == threads) {
    r.arrived = 0;
    ++r.round;
    r.of_round = nullptr;
  } else {
    wait_until("bar.sync " + std::to_string(barrier) + ": " + std::to_string(threads) + " threads",
               [&r, round] { return r.round != round; });
  }
  take_over(t, *clocks);
}

void sync_block() { sync_named(0, self().machine->shape.threads); }

void set_registers(unsigned count, bool increases) {
  begin((increases ? "setmaxnreg.inc " : "setmaxnreg.dec ") + std::to_string(count));
  if (count < 24 || count > 256 || count % 8 != 0) {
    stop(Hazard::collective, std::to_string(count) + " registers", "24 to 256, a multiple of 8");
  }
  converge("setmaxnreg", count, [] {
    const Thread& t = self();
    t.machine->warps[t.id / 32].register_counts.push_back(t.instruction);
  });
}

void cluster_arrive() {
  begin("barrier.cluster.arrive.release");
  Thread& t = self();
  Machine& machine = *t.machine;
  Rendezvous& r = machine.cluster;
  if (t.cluster_arrived) {
    stop(Hazard::collective, "a second arrival before barrier.cluster.wait", "one wait after each arrival");
  }
  hand_over(r.clocks, t);
  t.cluster_round = r.round + 1;
  t.cluster_arrived = true;
  ++r.arrived;
  complete_cluster_barrier(machine);
}

// Threads that have ended are not waited for (9.7.13.4).
void complete_cluster_barrier(Machine& machine) {
  Rendezvous& r = machine.cluster;
  if (r.arrived == 0 || r.arrived < machine.running()) return;
  r.arrived = 0;
  ++r.round;
  r.completed.join(r.clocks);
}

// Its arrival no longer counts: the others still have to come.
void leave_cluster_barrier(Thread& t) {
  Rendezvous& r = t.machine->cluster;
  if (t.cluster_arrived && t.cluster_round > r.round) --r.arrived;
}

void cluster_wait() {
  begin("barrier.cluster.wait.acquire");
  Thread& t = self();
  Rendezvous& r = t.machine->cluster;
  if (!t.cluster_arrived) stop(Hazard::collective, "a wait without an arrival", "barrier.cluster.arrive before it");
  wait_until("the threads of the cluster", [&r, &t] { return r.round >= t.cluster_round; });
  t.cluster_arrived = false;
  take_over(t, r.completed);
}

void grid_dependency_wait() { begin("griddepcontrol.wait"); }
void grid_dependency_launch() { begin("griddepcontrol.launch_dependents"); }

}  // namespace mxcheck::emulation::sm100
