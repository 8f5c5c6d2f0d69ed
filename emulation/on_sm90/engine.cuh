#pragma once
// The threads that stand for the tensor core. They take a CTA's commands in the order of their issue, one at a time,
// and execute each with all of them: mma and cp onto tensor memory, which is global memory here, and commits, which
// arrive at the kernel's own mbarriers. Of a pair, the leader sends the command to its peer, and both execute their
// half.
//
// When: eager, as soon as they can; random, after a delay; lazy, only when a thread waits at an mbarrier to which a
// commit behind the command arrives, or nothing else can go on (the ring is full, the kernel at its end).

#include "emulation/on_sm90/multiply.cuh"

namespace mxcheck::emulation::on_sm90 {

enum class Next : std::uint32_t { local, mail, quit };

// --- cp, commit
// --------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void copy(Control& c, const Command& command) {
  const sm100::ReadMatrix from = sm100::read_matrix(command.a);
  const sm100::CpSource shape = sm100::cp_source(command.shape);
  const unsigned t = threadIdx.x - c.kernel_threads;
  const bool fits = from.broken.none() && sm100::broken_rules(from, command.shape).none() &&
                    (t >= static_cast<unsigned>(shape.rows) ||
                     sm100::first_outside(from, false, static_cast<int>(t), shape.units, shared_end(c)) == shape.units);
  if (!fits) stop(Code::matrix_descriptor, command.a);
  if (t == 0) {
    if (command.to >> 16 != 0) stop(Code::copy_address, command.to);
    own_columns(c, command.to, static_cast<std::uint32_t>(4 * shape.units));
  }
  sync_engine();  // nothing is read that does not fit
  for (int i = static_cast<int>(t); i < shape.rows * shape.units * 4; i += static_cast<int>(kEngineThreads)) {
    const int row = i / 4 / shape.units;
    const int unit = i / 4 % shape.units;
    const std::uint32_t address =
        own_window(c) + sm100::cp_address(from, row, unit) + static_cast<std::uint32_t>(i % 4 * 4);
    std::uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    for (int l = 0; l < shape.lanes; ++l) {
      const auto column = command.to + static_cast<std::uint32_t>(4 * unit + i % 4);
      c.tmem[column * kTmemLanes + static_cast<unsigned>(sm100::cp_lane(command.shape, row, l))] = word;
    }
  }
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void commit(const Command& command) {
  // Operands were read through the generic proxy, and TMA may write over them once this has arrived.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (command.mask == 0) return arrive(command.to);
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    if ((command.mask >> r & 1) != 0) arrive(mapped(command.to, r));
  }
}

// --- the loop
// --------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ bool is_waited_for(const Control& c, const Command& command) {
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const bool own = r == rank();
    if (command.mask == 0 ? !own : (command.mask >> r & 1) == 0) continue;
    for (const std::uint32_t& waiting : c.waiting) {
      const std::uint32_t address = shared_address(&waiting);
      const std::uint32_t barrier = observe_at(own ? address : mapped(address, r));
      if (barrier != 0 && ((barrier ^ command.to) & kDescriptorMask) == 0) return true;
    }
  }
  return false;
}

// True if under the lazy schedule the next command may no longer be put off.
__device__ __forceinline__ bool is_due(Control& c, std::uint32_t done) {
  const std::uint32_t issued = observe(c.issued);
  if (issued - done >= kRing || observe(c.finished) == c.kernel_threads) return true;
  for (std::uint32_t i = done; i != issued; ++i) {
    const Command& command = c.ring[i % kRing];
    if (observe(c.ready[i % kRing]) != i + 1) break;
    if (command.op == Command::Op::commit && is_waited_for(c, command)) return true;
  }
  return false;
}

// By one thread: waits for what comes next.
__device__ __forceinline__ Next wait_for_next(Control& c, std::uint32_t done, std::uint32_t mails) {
  Watchdog watchdog;
  for (;;) {
    if (observe(c.mailed) == mails + 1) return Next::mail;
    const bool finished = observe(c.finished) == c.kernel_threads;
    const bool there = observe(c.ready[done % kRing]) == done + 1;
    if (there && (c.launch.timing != Timing::lazy || is_due(c, done))) return Next::local;
    if (finished && !there) return Next::quit;
    if (watchdog.expired(2 * c.launch.limit_ns)) stop(Code::tensor_core_idle, done);
    __nanosleep(40);
  }
}

__device__ __forceinline__ void send(Control& c, const Command& command, std::uint32_t number) {
  const std::uint32_t peer = rank() ^ 1;
  const auto* words = reinterpret_cast<const std::uint32_t*>(&command);
  const std::uint32_t to = mapped(shared_address(&c.mail), peer);
  for (std::uint32_t i = 0; i < sizeof(Command) / 4; ++i) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to + 4 * i), "r"(words[i]) : "memory");
  }
  publish_at(mapped(shared_address(&c.mailed), peer), number);
}

// The loop of the engine's threads, until every thread of the kernel is at its end and nothing is left to do. A pair's
// odd CTA has its commands from the leader, and ends when that has.
__device__ __noinline__ inline void engine(Control& c) {
  const bool first = threadIdx.x == c.kernel_threads;
  std::uint32_t done = 0;   // commands of the own ring
  std::uint32_t mails = 0;  // taken from the leader
  std::uint32_t sent = 0;
  for (;;) {
    if (first) {
      c.next = static_cast<std::uint32_t>(wait_for_next(c, done, mails));
      random_delay(c.launch, 1, done + mails);
    }
    sync_engine();
    const Next next = static_cast<Next>(c.next);
    if (next == Next::quit) return;
    const Command& command = next == Next::mail ? c.mail : c.ring[done % kRing];
    const bool sends = next == Next::local && command.cta_group == 2 && command.op != Command::Op::commit;
    if (sends) {
      ++sent;
      if (first) send(c, command, sent);
    }
    switch (command.op) {
      case Command::Op::mma: Multiplication(c, command).run(); break;
      case Command::Op::cp: copy(c, command); break;
      case Command::Op::commit:
        if (first) commit(command);
        break;
    }
    sync_engine();
    if (next == Next::mail) {
      ++mails;
      if (first) publish_at(mapped(shared_address(&c.answered), rank() ^ 1), mails);
      continue;
    }
    ++done;
    if (!first) continue;
    Watchdog watchdog;
    while (sends && observe(c.answered) != sent) {
      if (watchdog.expired(c.launch.limit_ns)) stop(Code::tensor_core_idle, done);
    }
    if (command.op == Command::Op::mma) atomicAdd(&c.launch.counts[1], 1);
    publish(c.executed, done);
  }
}

}  // namespace mxcheck::emulation::on_sm90
