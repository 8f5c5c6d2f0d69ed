// Who calls, and what the threads of a warp, a CTA and a cluster do together.
#include <string>

#include "emulation/sm100/machine.h"

namespace mxcheck::emulation::sm100 {

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
