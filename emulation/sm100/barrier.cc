// mbarriers (PTX ISA 9.0, 9.7.13.15). A phase ends when no arrival and no byte is pending.
#include <string>
#include <utility>

#include "emulation/sm100/machine.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::int64_t kByteLimit = 1 << 20;  // of the tx-count, and of one expect_tx

std::string text(SharedPlace place) {
  return "the barrier at byte " + std::to_string(place.offset) + " of cta " + std::to_string(place.cta->block);
}

void end_phase_if_complete(Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  // A parity wait tells the current phase from the one before, and no more: a phase that ends unseen makes the next
  // wait alias.
  if (!barrier.waited) {
    report(Hazard::phase,
           "phase " + std::to_string(barrier.phase) + " of " + barrier.place +
               " ends and nobody has waited for phase " + std::to_string(barrier.phase - 1),
           "a wait for each phase before the next one can end");
  }
  // A phase may not end before all who wait for the one before have seen its end: they would go on waiting.
  const unsigned late = barrier.waiting_for.at((barrier.phase & 1U) ^ 1U);
  if (late != 0 && barrier.phase != 0) {
    report(Hazard::phase,
           "phase " + std::to_string(barrier.phase) + " of " + barrier.place + " ends while " + std::to_string(late) +
               " threads have not seen the end of phase " + std::to_string(barrier.phase - 1),
           "an arrival of theirs in between, which this phase waits for");
  }
  ++barrier.phase;
  barrier.waited = false;
  barrier.pending = barrier.count;
  const Event ended{barrier.component, static_cast<std::uint32_t>(barrier.phase)};
  barrier.arriving.memory.learn(ended);
  barrier.arriving.async.learn(ended);
  barrier.completed.join(barrier.arriving);
  barrier.arriving = {};
  const Event remote{barrier.remote_component, static_cast<std::uint32_t>(barrier.phase)};
  barrier.arriving_remote.memory.learn(remote);
  barrier.arriving_remote.async.learn(remote);
  barrier.completed_remote.join(barrier.arriving_remote);
  barrier.arriving_remote = {};
}

// Arrivals by threads know of the initialization through their own order.
Barrier& initialized(SharedPlace place) {
  Barrier* barrier = barrier_at(place, self().instruction);
  if (!self().memory.knows(barrier->init)) {
    report(Hazard::barrier, text(place) + " is initialized by another thread, and nothing orders that before",
           "fence.mbarrier_init by that thread, then a barrier of the CTA or cluster");
  }
  return *barrier;
}

// mbarrier.init and mbarrier.inval have no form for another CTA's.
void own(SharedPlace place) {
  if (place.cta != self().cta) stop(Hazard::barrier, text(place) + " is another CTA's", "a barrier of its own CTA");
}

void check_scope(SharedPlace place, Scope scope) {
  if (place.cta != self().cta && scope != Scope::cluster) {
    report(Hazard::barrier, text(place) + " is another CTA's, and the scope is .cta",
           ".release.cluster, and .acquire.cluster where it is waited for: .cta orders nothing between two CTAs");
  }
}

}  // namespace

Barrier* barrier_at(SharedPlace place, std::string_view what) {
  const auto found = place.cta->barriers.find(place.offset);
  if (found == place.cta->barriers.end()) {
    stop(Hazard::barrier, std::string(what) + " on " + text(place) + ", which is not initialized",
         "mbarrier.init before");
  }
  return &found->second;
}

void arrive_on(Barrier& barrier, unsigned arrivals, std::int64_t bytes, const BarrierClocks& clocks, bool remote) {
  barrier.bytes += bytes;
  if (barrier.bytes >= kByteLimit || barrier.bytes <= -kByteLimit) {
    stop(Hazard::transaction, std::to_string(barrier.bytes) + " bytes in phase " + std::to_string(barrier.phase),
         "a tx-count between -(2^20 - 1) and 2^20 - 1");
  }
  if (arrivals > barrier.pending) {
    stop(Hazard::barrier,
         "an arrival more than the " + std::to_string(barrier.count) + " of phase " + std::to_string(barrier.phase),
         "as many arrivals as mbarrier.init has said");
  }
  barrier.pending -= arrivals;
  (remote ? barrier.arriving_remote : barrier.arriving).join(clocks);
  end_phase_if_complete(barrier);
}

void barrier_init(std::uint32_t address, unsigned count) {
  begin("mbarrier.init");
  Thread& t = self();
  const SharedPlace place = place_of(address, 8);
  own(place);
  if (place.offset % 8 != 0) stop(Hazard::barrier, text(place), "a multiple of 8");
  if (count == 0 || count >= 1U << 20) stop(Hazard::barrier, "a count of " + std::to_string(count), "1 to 2^20 - 1");
  if (place.cta->barriers.contains(place.offset)) {
    report(Hazard::barrier, text(place) + " is initialized already", "mbarrier.inval before it is initialized again");
  }
  Barrier barrier;
  barrier.count = barrier.pending = count;
  barrier.component = t.machine->component();
  barrier.remote_component = t.machine->component();
  barrier.place = text(place);
  // A component of its own: what fence.mbarrier_init makes visible are initializations, not this thread's stores too.
  barrier.init = {t.machine->component(), 1};
  t.memory.learn(barrier.init);
  t.inits.push_back(barrier.init);
  place.cta->barriers[place.offset] = std::move(barrier);
}

void barrier_invalidate(std::uint32_t address) {
  begin("mbarrier.inval");
  const SharedPlace place = place_of(address, 8);
  own(place);
  const Barrier& barrier = initialized(place);
  if (barrier.waiting != 0) {
    stop(Hazard::barrier, std::to_string(barrier.waiting) + " threads wait at " + text(place), "no wait after it");
  }
  if (barrier.bytes != 0 || barrier.pending != barrier.count) {
    report(Hazard::barrier, text(place) + " has a phase under way", "its last phase is complete");
  }
  place.cta->barriers.erase(place.offset);
}

// Makes initializations visible to the async proxy, and to the cluster.
void fence_barrier_init() {
  begin("fence.mbarrier_init.release.cluster");
  Thread& t = self();
  for (const Event init : t.inits) t.async.learn(init);
  t.inits.clear();
}

void barrier_arrive(std::uint32_t address, Scope scope) {
  begin("mbarrier.arrive");
  const SharedPlace place = place_of(address, 8);
  Barrier& barrier = initialized(place);
  check_scope(place, scope);
  if (place.cta != self().cta) place.cta->reached.learn({self().id, self().now});
  BarrierClocks clocks;
  hand_over(clocks, self());
  arrive_on(barrier, 1, 0, clocks, place.cta != self().cta);
}

void barrier_arrive_expect(std::uint32_t address, unsigned bytes, Scope scope) {
  begin("mbarrier.arrive.expect_tx");
  const SharedPlace place = place_of(address, 8);
  Barrier& barrier = initialized(place);
  check_scope(place, scope);
  if (place.cta != self().cta) place.cta->reached.learn({self().id, self().now});
  if (bytes >= kByteLimit) stop(Hazard::transaction, std::to_string(bytes) + " bytes", "below 2^20");
  BarrierClocks clocks;
  hand_over(clocks, self());
  arrive_on(barrier, 1, bytes, clocks, place.cta != self().cta);
}

void barrier_wait(std::uint32_t address, unsigned parity, Scope scope) {
  begin("mbarrier.try_wait.parity");
  Thread& t = self();
  const SharedPlace place = place_of(address, 8);
  if (place.cta != t.cta)
    stop(Hazard::barrier, text(place) + " is another CTA's", "a wait on a barrier of its own CTA");
  if (parity > 1) stop(Hazard::barrier, "a parity of " + std::to_string(parity), "0 or 1");
  Barrier& barrier = initialized(place);
  ++barrier.waiting;
  ++barrier.waiting_for.at(parity);
  wait_until(text(place) + ", parity " + std::to_string(parity),
             [&barrier, parity] { return (barrier.phase & 1U) != parity; });
  --barrier.waiting;
  --barrier.waiting_for.at(parity);
  // Phases are counted from 1 here; before the first, parity 1 passes: a wait for "phase 0".
  const auto seen = t.seen.find(barrier.component);
  if (seen != t.seen.end() && barrier.phase > seen->second + 1) {
    report(Hazard::phase,
           "phase " + std::to_string(barrier.phase - 1) + " of " + text(place) +
               " passes, and this thread's last wait was for phase " + std::to_string(seen->second - 1),
           "each phase is waited for: with a parity alone, a later one looks like it");
  }
  t.seen[barrier.component] = barrier.phase;
  barrier.waited = true;
  take_over(t, barrier.completed);
  if (scope == Scope::cluster) take_over(t, barrier.completed_remote);  // what threads of other CTAs have released
}

}  // namespace mxcheck::emulation::sm100
