#include "emulation/sm100/launch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "emulation/sm100/machine.h"
#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::size_t kSharedLimit = 232'448;  // opt-in, of one CTA

void check(const LaunchShape& s) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorKind::usage, text); };
  if (s.threads == 0 || s.threads > 1024 || s.threads % 32 != 0) {
    refuse(std::to_string(s.threads) + " threads a CTA: a multiple of 32 up to 1024 is needed");
  }
  if (s.blocks == 0 || s.cluster == 0 || s.cluster > 16 || s.blocks % s.cluster != 0) {
    refuse(std::to_string(s.blocks) + " CTAs in clusters of " + std::to_string(s.cluster) +
           ": clusters of 1 to 16 that divide them are needed");
  }
  if (s.shared_bytes > kSharedLimit) {
    refuse(std::to_string(s.shared_bytes) + " bytes of shared memory: " + std::to_string(kSharedLimit) +
           " is the limit");
  }
}

// Memory that nobody has written must not look like data: NaN as FP32, E4M3 and E8M0, the padding of a format's bytes.
std::unique_ptr<Cta> make_cta(Machine& machine, unsigned rank) {
  auto cta = std::make_unique<Cta>();
  cta->machine = &machine;
  cta->rank = rank;
  cta->block = machine.first_block + rank;
  cta->shared.assign(kSystemBytes + (machine.shape.shared_bytes + 15) / 16 * 16, std::byte{0xFF});
  if (machine.options.checks) cta->shared_cells.resize(cta->shared.size() / 4);
  cta->tmem.assign(std::size_t{128} * 512, 0x7FC0DEAD);
  cta->tmem_cells.resize(std::size_t{8} * 512);
  cta->running = machine.shape.threads;
  return cta;
}

// At the end of a CTA's last thread. What others did to its memory must be known to be over: with another timing it
// would come later.
void check_exit(Cta& cta) {
  if (!cta.known.covers(cta.reached)) {
    report(Hazard::exit,
           "arrivals, loads or tensor-core operations of another CTA of the cluster are not known to be over",
           "a barrier of the cluster before any of its CTAs ends");
  }
  const Machine& machine = *cta.machine;
  for (const TmemAllocation& a : cta.allocations) {
    report(
        Hazard::exit,
        "columns " + std::to_string(a.column) + " to " + std::to_string(a.column + a.columns) + " are still allocated",
        "tcgen05.dealloc of every allocation before the CTA ends");
  }
  if (cta.last_columns != 0 && !cta.relinquished) {
    report(Hazard::exit, "the permit to allocate was not given up",
           "tcgen05.relinquish_alloc_permit after the last alloc");
  }
  for (const Thread* t : cta.threads) {
    if (!t->pipe.empty()) {
      report(Hazard::exit, t->pipe.front().text + " of " + name_of(*t) + " is not complete",
             "a wait for the last commit");
    }
    if (t->open_group != nullptr || std::ranges::any_of(t->groups, [](const auto& g) { return g->open != 0; })) {
      report(Hazard::exit, "a bulk store of " + name_of(*t) + " still reads shared memory",
             "cp.async.bulk.wait_group.read before the CTA ends");
    }
  }
  for (const auto& [offset, barrier] : cta.barriers) {
    if (barrier.bytes != 0) {
      report(Hazard::transaction,
             std::to_string(barrier.bytes) + " bytes are outstanding on the barrier at byte " + std::to_string(offset),
             "as many bytes arrive as expect_tx says");
    }
  }
  // setmaxnreg is of whole warpgroups (PTX ISA, "setmaxnreg").
  for (const Thread* t : cta.threads) {
    if (t->index % 32 != 0 || t->index % 128 == 0) continue;
    if (machine.warps[t->id / 32].register_counts != machine.warps[(t->id - t->index % 128) / 32].register_counts) {
      report(Hazard::collective, name_of(*t) + " has not executed the setmaxnreg of the first warp of its warpgroup",
             "the same setmaxnreg by all four warps");
    }
  }
}

// An exception of a kernel or of a part of the emulation ends the run: nothing is said about the rest.
void refuse(Thread& t, const std::exception& error) {
  t.machine->findings->add(
      {Hazard::unknown, name_of(t), t.instruction, error.what(), "what is modelled; this run says nothing more"},
      t.role);
  t.machine->stopping = true;
}

void body(Thread& t, const std::function<void()>& kernel) {
  try {
    kernel();
    t.instruction = "the end";
    leave_cluster_barrier(t);
    t.cta->known.join(t.memory);
    t.cta->known.learn({t.id, t.now});
    --t.cta->running;
    if (t.cta->running == 0 && t.machine->options.checks) check_exit(*t.cta);
    complete_cluster_barrier(*t.machine);
  } catch (const Stop&) {
  } catch (const std::exception& error) {
    refuse(t, error);
  }
  t.ended = true;
}

void perform(const Operation& operation) {
  Thread& t = *operation.by;
  const std::string instruction = std::exchange(t.instruction, operation.text);
  set_self(&t);
  try {
    operation.happen();
  } catch (const Stop&) {
  } catch (const std::exception& error) {
    refuse(t, error);
  }
  t.instruction = instruction;
  t.pipe_done = std::max(t.pipe_done, operation.number);
}

bool is_due(const Operation& operation) {
  return std::ranges::all_of(operation.after, [](const auto& e) { return e.first->pipe_done >= e.second; });
}

// Performs one of the operations that are due. False: there is none.
bool perform_one(Machine& machine) {
  std::vector<Thread*> pipes;
  for (const auto& t : machine.threads) {
    if (!t->pipe.empty() && is_due(t->pipe.front())) pipes.push_back(t.get());
  }
  const std::size_t count = machine.loads.size() + pipes.size();
  if (count == 0) return false;
  const std::size_t at = machine.random() % count;
  if (at < machine.loads.size()) {
    Operation operation = std::move(machine.loads[at]);
    machine.loads.erase(machine.loads.begin() + static_cast<std::ptrdiff_t>(at));
    perform(operation);
  } else {
    Thread& t = *pipes[at - machine.loads.size()];
    Operation operation = std::move(t.pipe.front());
    t.pipe.pop_front();
    perform(operation);
  }
  return true;
}

bool can_run(const Thread& t) { return !t.ended && (!t.ready || t.ready()); }

void enter(Thread& t) {
  set_self(&t);
  t.fiber->enter();
}

std::string dump_of(const Machine& machine) {
  std::string text;
  std::string last;
  for (const auto& t : machine.threads) {
    if (t->ended) continue;
    const std::string state =
        std::string(t->role) + " at " + t->instruction + (t->waits_for.empty() ? "" : ", waits for " + t->waits_for);
    if (state == last && t->index % 32 != 0) continue;  // lanes that are where the lane before is
    last = state;
    text += "  " + name_of(*t) + " at " + t->instruction;
    if (!t->waits_for.empty()) text += ", waits for " + t->waits_for;
    text += '\n';
  }
  for (const auto& cta : machine.ctas) {
    for (const auto& [offset, b] : cta->barriers) {
      text += "  cta " + std::to_string(cta->block) + " barrier at byte " + std::to_string(offset) + ": " +
              std::to_string(b.phase) + " phases complete, " + std::to_string(b.pending) + " of " +
              std::to_string(b.count) + " arrivals and " + std::to_string(b.bytes) + " bytes pending\n";
    }
  }
  return text;
}

void deadlock(Machine& machine) {
  const auto stuck = std::ranges::find_if(machine.threads, [](const auto& t) { return !t->ended; });
  const Thread& t = **stuck;
  machine.result->dump = dump_of(machine);
  machine.findings->add({Hazard::deadlock, name_of(t), t.instruction,
                         "no thread can go on and no operation is under way; this one waits for " + t.waits_for,
                         "LaunchResult::dump has every thread and barrier"},
                        t.role);
  machine.stopping = true;
}

// Warps in turn, each lane as far as it can go; asynchronous operations at once (they are performed at issue) or, of
// the lazy schedule, one at a time when nobody can go on without.
void run_in_turn(Machine& machine) {
  while (!machine.stopping) {
    bool moved = false;
    bool left = false;
    for (const auto& t : machine.threads) {
      if (!can_run(*t)) {
        left = left || !t->ended;
        continue;
      }
      enter(*t);
      if (machine.stopping) return;
      moved = true;
      left = left || !t->ended;
    }
    if (!left) break;
    if (moved || perform_one(machine)) continue;
    deadlock(machine);
  }
  while (!machine.stopping && perform_one(machine)) {
  }
}

// Any warp that can go on, or any operation. A warp is run for a while, so that it can get far ahead of the others.
void run_at_random(Machine& machine) {
  const std::size_t warps = machine.threads.size() / 32;
  // Weights of warps and of operations change now and then: in some stretches loads are late, in others one role is.
  std::vector<unsigned> weight(warps + 1, 1);
  std::uint64_t until = 0;
  for (std::uint64_t step = 0; !machine.stopping; ++step) {
    if (step >= until) {
      for (unsigned& w : weight) w = machine.random() % 3 == 0 ? 8 : 1;
      if (machine.random() % 4 == 0) weight[warps] = 0;
      until = step + 50 + machine.random() % 400;
    }
    std::vector<std::size_t> candidates;
    for (std::size_t w = 0; w < warps; ++w) {
      bool able = false;
      for (std::size_t lane = 0; lane < 32 && !able; ++lane) able = can_run(*machine.threads[w * 32 + lane]);
      for (unsigned i = 0; able && i < weight[w]; ++i) candidates.push_back(w);
    }
    const bool operations =
        !machine.loads.empty() || std::ranges::any_of(machine.threads, [](const auto& t) { return !t->pipe.empty(); });
    if (operations) {
      for (unsigned i = 0; i < std::max(weight[warps], candidates.empty() ? 1U : 0U); ++i) candidates.push_back(warps);
    }
    if (candidates.empty()) {
      if (std::ranges::all_of(machine.threads, [](const auto& t) { return t->ended; })) return;
      return deadlock(machine);
    }
    const std::size_t chosen = candidates[machine.random() % candidates.size()];
    if (chosen == warps) {
      perform_one(machine);
      continue;
    }
    const std::size_t first = machine.random() % 32;
    for (std::size_t i = 0; i < 32 && !machine.stopping; ++i) {
      Thread& t = *machine.threads[chosen * 32 + (first + i) % 32];
      if (can_run(t)) enter(t);
    }
  }
}

void run_cluster(Machine& machine, const std::function<void()>& kernel) {
  for (unsigned rank = 0; rank < machine.shape.cluster; ++rank) machine.ctas.push_back(make_cta(machine, rank));
  machine.warps.resize(std::size_t{machine.shape.cluster} * machine.shape.threads / 32);
  for (unsigned id = 0; id < machine.shape.cluster * machine.shape.threads; ++id) {
    auto t = std::make_unique<Thread>();
    t->machine = &machine;
    t->cta = machine.ctas[id / machine.shape.threads].get();
    t->id = machine.component();
    t->index = id % machine.shape.threads;
    t->fiber = std::make_unique<Fiber>([thread = t.get(), &kernel] { body(*thread, kernel); });
    t->cta->threads.push_back(t.get());
    machine.threads.push_back(std::move(t));
  }
  if (machine.options.schedule == Schedule::random) {
    run_at_random(machine);
  } else {
    run_in_turn(machine);
  }
  if (machine.stopping && machine.result->dump.empty()) machine.result->dump = dump_of(machine);
  // A run that has ended early: what is left on the stacks of its fibres is destroyed.
  for (const auto& t : machine.threads) {
    if (!t->ended) enter(*t);
  }
}

}  // namespace

std::string_view name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::eager: return "eager";
    case Schedule::lazy: return "lazy";
    case Schedule::random: return "random";
  }
  return "";
}

void issue_load(std::string text, std::function<void()> happen) {
  Thread& t = self();
  Operation operation{std::move(text), std::move(happen), &t};
  if (t.machine->options.schedule == Schedule::eager) {
    perform(operation);
    if (t.machine->stopping) throw Stop{};
    return;
  }
  t.machine->loads.push_back(std::move(operation));
}

void issue_pipe(std::string text, std::function<void()> happen) {
  Thread& t = self();
  Operation operation{std::move(text), std::move(happen), &t, t.pipe_issued};
  for (const auto& other : t.machine->threads) {
    if (other.get() == &t || other->pipe_component == 0) continue;
    const std::uint32_t known = t.tensor.upto(other->pipe_component);
    if (known > other->pipe_done) operation.after.emplace_back(other.get(), known);
  }
  if (t.machine->options.schedule == Schedule::eager) {
    perform(operation);
    if (t.machine->stopping) throw Stop{};
    return;
  }
  t.pipe.push_back(std::move(operation));
}

LaunchResult launch(const LaunchShape& shape, const LaunchOptions& options, const std::function<void()>& kernel) {
  check(shape);
  LaunchResult result;
  Findings findings;
  const unsigned clusters = shape.blocks / shape.cluster;
  std::vector<bool> started(clusters);
  std::mt19937_64 random(options.seed);
  bool stopped = false;
  for (unsigned c = 0; c < clusters && !stopped; ++c) {
    if (started[c]) continue;
    started[c] = true;
    Machine machine;
    machine.shape = shape;
    machine.options = options;
    machine.findings = &findings;
    machine.result = &result;
    machine.random.seed(random());
    machine.first_block = c * shape.cluster;
    // Real clusters run beside one another: one that asks does not get all that is left. The random schedule leaves
    // some.
    machine.claim = [&]() -> std::optional<unsigned> {
      if (options.schedule == Schedule::random && machine.random() % 4 == 0) return std::nullopt;
      const auto next = std::ranges::find(started, false);
      if (next == started.end()) return std::nullopt;
      *next = true;
      return static_cast<unsigned>(next - started.begin()) * shape.cluster;
    };
    run_cluster(machine, kernel);
    stopped = machine.stopping;
  }
  set_self(nullptr);
  result.findings = findings.all();
  result.completed = !stopped;
  return result;
}

// --- findings

std::string_view name_of(Hazard hazard) {
  static constexpr std::array<std::string_view, 20> kNames{
      "allocation", "address",     "uninitialized", "not_complete", "not_ordered", "overwritten", "proxy",
      "descriptor", "swizzle",     "scale_copies",  "live_scales",  "issue",       "collective",  "barrier",
      "phase",      "transaction", "launch",        "exit",         "deadlock",    "unknown"};
  return kNames.at(static_cast<std::size_t>(hazard));
}

std::string text_of(const Finding& finding) {
  std::string text(name_of(finding.hazard));
  text += ": " + finding.who;
  if (!finding.instruction.empty()) text += ", " + finding.instruction;
  text += ": " + finding.what;
  if (!finding.right.empty()) text += "; right: " + finding.right;
  if (finding.times > 1) text += " (" + std::to_string(finding.times) + " times)";
  return text;
}

void Findings::add(Finding finding, std::string_view role) {
  std::string key =
      std::string(name_of(finding.hazard)) + '|' + std::string(role) + '|' + finding.instruction + '|' + finding.right;
  const auto at = std::ranges::find(keys_, key);
  if (at != keys_.end()) {
    ++all_[static_cast<std::size_t>(at - keys_.begin())].times;
    return;
  }
  keys_.push_back(std::move(key));
  all_.push_back(std::move(finding));
}

// --- cluster launch control
//
// Cluster launch control (PTX ISA 9.0, 9.7.13.17): a cluster asks for the work of one that has not started.

namespace {

constexpr std::uint64_t kCanceled = 1;  // bit 0 of the low word; the first CTA in the high one

}  // namespace

void try_cancel(std::uint32_t response, std::uint32_t barrier, bool multicast) {
  begin("clusterlaunchcontrol.try_cancel");
  Thread& t = self();
  Machine& machine = *t.machine;
  if (machine.claims_failed) {
    report(Hazard::launch, "another request after one that failed", "no request once is_canceled has been false");
  }
  if (response % 16 != 0) {
    stop(Hazard::address, "the response at byte " + std::to_string(response & 0xFFFFFFU), "a multiple of 16");
  }
  std::vector<SharedPlace> places;
  for (unsigned rank = 0; rank < machine.ctas.size(); ++rank) {
    if (multicast || rank == t.cta->rank) places.push_back(place_of(mapped(response & 0xFFFFFFU, rank), 16));
  }
  ClcResponse answer{0, 0};
  if (const std::optional<unsigned> block = machine.claim()) answer = {kCanceled, *block};
  for (const SharedPlace place : places) {
    const std::uint64_t number = ++machine.load_number;
    if (!t.async.knows(barrier_at({place.cta, barrier & 0xFFFFFFU}, t.instruction)->init)) {
      report(Hazard::barrier, "the mbarrier's initialization is not visible to the async proxy",
             "fence.mbarrier_init, then a barrier");
    }
    check_shared_write_async(*place.cta, place.offset, 16, number, Swizzle::none, false);
    issue_load(t.instruction, [place, answer, number, offset = barrier & 0xFFFFFFU] {
      if (place.cta->running == 0) {
        report(Hazard::exit, "the answer arrives in cta " + std::to_string(place.cta->block) + ", which has ended",
               "a wait for every answer");
        return;
      }
      std::memcpy(place.cta->shared.data() + place.offset, &answer, 16);
      Barrier* b = barrier_at({place.cta, offset}, "complete_tx");
      for (std::uint32_t i = place.offset / 4; i < place.offset / 4 + 4 && !place.cta->shared_cells.empty(); ++i) {
        SharedCell& cell = place.cta->shared_cells[i];
        if (cell.load != number) continue;
        cell.writer = SharedCell::Writer::tma;
        cell.write = {b->component, static_cast<std::uint32_t>(b->phase) + 1};
      }
      arrive_on(*b, 0, -16, {}, false);
    });
  }
}

bool is_canceled(const ClcResponse& response) {
  begin("clusterlaunchcontrol.query_cancel.is_canceled");
  const bool canceled = (response.low & kCanceled) != 0;
  if (!canceled) self().machine->claims_failed = true;
  return canceled;
}

std::uint32_t first_block(const ClcResponse& response) {
  begin("clusterlaunchcontrol.query_cancel.get_first_ctaid");
  if ((response.low & kCanceled) == 0) {
    report(Hazard::launch, "the first CTA of a request that failed", "is_canceled is asked first");
  }
  return static_cast<std::uint32_t>(response.high);
}

}  // namespace mxcheck::emulation::sm100
