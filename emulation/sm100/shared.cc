// Shared memory: its bytes through the generic proxy, and the shadow of both proxies' accesses.
#include <algorithm>
#include <cstring>
#include <string>

#include "emulation/sm100/machine.h"

namespace mxcheck::emulation::sm100 {
namespace {

using Writer = SharedCell::Writer;

std::string bytes_text(std::uint32_t offset, std::uint32_t bytes) {
  return "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) + " of shared memory";
}

bool knows_all(const Clock& clock, const std::vector<Event>& events) {
  return std::ranges::all_of(events, [&](Event e) { return clock.knows(e); });
}

// ld.shared and st.shared without ::cluster, which is what the thin layer has.
SharedPlace own_place(std::uint32_t address, std::size_t bytes) {
  const SharedPlace place = place_of(address, bytes);
  if (place.cta != self().cta) {
    stop(Hazard::address,
         bytes_text(place.offset, static_cast<std::uint32_t>(bytes)) + " of cta " + std::to_string(place.cta->block),
         "an address of its own CTA");
  }
  if (place.offset % bytes != 0) {
    stop(Hazard::address, bytes_text(place.offset, static_cast<std::uint32_t>(bytes)), "aligned");
  }
  return place;
}

void check_not_barrier(const Cta& cta, std::uint32_t offset, std::uint32_t bytes) {
  const auto next = cta.barriers.lower_bound(offset >= 7 ? offset - 7 : 0);
  if (next != cta.barriers.end() && next->first < offset + bytes) {
    report(Hazard::barrier, bytes_text(offset, bytes) + " hold the mbarrier at byte " + std::to_string(next->first),
           "a live mbarrier's bytes are touched by mbarrier instructions alone");
  }
}

}  // namespace

// Like the device, where the first 1024 bytes of a CTA's window are the system's: a kernel that takes 0 for the base
// is wrong.
std::uint32_t shared_base() { return kSystemBytes; }

std::uint32_t map_shared_rank(std::uint32_t address, unsigned rank) {
  begin("mapa.shared::cluster");
  return mapped(address, rank);
}

std::uint32_t mapped(std::uint32_t address, unsigned rank) {
  if (rank >= self().machine->ctas.size()) {
    stop(Hazard::address, "rank " + std::to_string(rank), "below " + std::to_string(self().machine->ctas.size()));
  }
  return (address & 0xFFFFFFU) | ((rank + 1) << 24);
}

void load_shared(std::uint32_t address, void* to, std::size_t bytes) {
  begin("ld.shared");
  Thread& t = self();
  const SharedPlace place = own_place(address, bytes);
  if (t.machine->options.checks) {
    check_not_barrier(*place.cta, place.offset, static_cast<std::uint32_t>(bytes));
    for (std::size_t i = 0; i < bytes / 4; ++i) {
      SharedCell& cell = place.cta->shared_cells[place.offset / 4 + i];
      const std::string where = "byte " + std::to_string(place.offset + 4 * i) + " of shared memory";
      if (cell.writer == Writer::none) report(Hazard::uninitialized, where + " has not been written", "a store before");
      if (cell.writer == Writer::tma_in_flight || (cell.writer == Writer::tma && !t.memory.knows(cell.write))) {
        report(Hazard::not_complete, where + " is written by a TMA load that is not known to be complete",
               "a wait for its barrier");
      } else if (!t.memory.knows(cell.write)) {
        report(Hazard::not_ordered, where + " is written by another thread, and nothing orders that before",
               "a barrier between them");
      }
      remember(cell.reads, {t.id, t.now});
    }
    t.memory.learn({t.id, t.now});  // its own: it may write there next
  }
  std::memcpy(to, place.cta->shared.data() + place.offset, bytes);
}

void store_shared(std::uint32_t address, const void* from, std::size_t bytes) {
  begin("st.shared");
  store_generic(own_place(address, bytes), from, bytes);
}

void store_generic(SharedPlace place, const void* from, std::size_t bytes) {
  Thread& t = self();
  if (t.machine->options.checks) {
    check_not_barrier(*place.cta, place.offset, static_cast<std::uint32_t>(bytes));
    for (std::size_t i = 0; i < bytes / 4; ++i) {
      SharedCell& cell = place.cta->shared_cells[place.offset / 4 + i];
      const bool known =
          cell.writer != Writer::tma_in_flight && t.memory.knows(cell.write) && knows_all(t.memory, cell.reads);
      if (!known) {
        report(Hazard::overwritten,
               "byte " + std::to_string(place.offset + 4 * i) +
                   " of shared memory is still read or written by what came before",
               "an mbarrier or bar.sync after it (of an mma or cp: a commit's; of a TMA store: bulk wait_group.read, "
               "then a "
               "barrier)");
      }
      cell = {.writer = Writer::generic, .write = {t.id, t.now}};
    }
    t.memory.learn({t.id, t.now});
  }
  std::memcpy(place.cta->shared.data() + place.offset, from, bytes);
}

void fence_proxy_async() {
  begin("fence.proxy.async");
  Thread& t = self();
  t.memory.learn({t.id, t.now});
  ++t.now;
  t.async.join(t.memory);
}

void check_shared_read_async(Cta& cta, std::uint32_t offset, std::uint32_t bytes, Event read,
                             std::optional<Swizzle> swizzle, std::string_view what) {
  const Thread& t = self();
  if (!t.machine->options.checks) return;
  check_not_barrier(cta, offset, bytes);
  for (std::uint32_t i = offset / 4; i < (offset + bytes + 3) / 4; ++i) {
    SharedCell& cell = cta.shared_cells[i];
    const auto where = [&] {
      return std::string(what) + " reads byte " + std::to_string(4 * i) + " of shared memory of cta " +
             std::to_string(cta.block);
    };
    if (cell.writer == Writer::none)
      report(Hazard::uninitialized, where() + ", which nothing has written", "a load before");
    if (cell.writer == Writer::tma_in_flight || (cell.writer == Writer::tma && !t.memory.knows(cell.write))) {
      report(Hazard::not_complete, where() + ": the TMA load that writes it is not known to be complete",
             "a wait for the barrier of that load");
    }
    if (cell.writer == Writer::generic && !t.async.knows(cell.write)) {
      const bool ordered = t.memory.knows(cell.write);
      report(ordered ? Hazard::proxy : Hazard::not_ordered,
             where() + (ordered ? ": written through the generic proxy" : ": nothing orders the store before"),
             "fence.proxy.async by the writing thread, then a barrier");
    }
    if (swizzle && cell.writer == Writer::tma && cell.by_tensor_map && cell.swizzle != *swizzle) {
      report(Hazard::swizzle,
             where() + ": the load's swizzle is " + std::to_string(static_cast<int>(cell.swizzle)) +
                 " and the descriptor's " + std::to_string(static_cast<int>(*swizzle)),
             "the same swizzle in both");
    }
    remember(cell.reads, read);
  }
}

void check_shared_write_async(Cta& cta, std::uint32_t offset, std::uint32_t bytes, std::uint64_t load, Swizzle swizzle,
                              bool by_tensor_map) {
  const Thread& t = self();
  if (!t.machine->options.checks) return;
  check_not_barrier(cta, offset, bytes);
  for (std::uint32_t i = offset / 4; i < (offset + bytes + 3) / 4; ++i) {
    SharedCell& cell = cta.shared_cells[i];
    const auto where = [&] {
      return "byte " + std::to_string(4 * i) + " of shared memory of cta " + std::to_string(cta.block);
    };
    if (cell.writer == Writer::tma_in_flight) {
      report(Hazard::overwritten, where() + " is written by a TMA load that is still in flight",
             "a wait for its barrier");
    } else if (!t.memory.knows(cell.write) || !knows_all(t.memory, cell.reads)) {
      report(Hazard::overwritten, where() + " is still read or written by what came before",
             "an mbarrier after it (of an mma or cp: a commit's), waited for before the load is issued");
    } else if ((cell.writer == Writer::generic && !t.async.knows(cell.write)) ||
               std::ranges::any_of(
                   cell.reads, [&](Event e) { return e.component < t.machine->threads.size() && !t.async.knows(e); })) {
      report(Hazard::proxy, where() + " was written or read through the generic proxy before",
             "fence.proxy.async after those accesses, before the barrier that orders them");
    }
    cell = {
        .writer = Writer::tma_in_flight, .swizzle = swizzle, .by_tensor_map = by_tensor_map, .write = {}, .load = load};
  }
}

}  // namespace mxcheck::emulation::sm100
