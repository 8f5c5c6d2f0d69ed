// Tensor memory: 128 lanes of 512 columns of 32 bits, and who owns its columns (PTX ISA 9.0, 9.7.16.7).
#include <algorithm>
#include <bit>
#include <string>

#include "emulation/sm100/machine.h"

namespace mxcheck::emulation::sm100 {
namespace {

std::string columns_text(unsigned column, unsigned columns) {
  return "columns " + std::to_string(column) + " to " + std::to_string(column + columns);
}

bool is_free(const Cta& cta, unsigned column, unsigned columns) {
  return std::ranges::none_of(cta.allocations, [&](const TmemAllocation& a) {
    return column < a.column + a.columns && a.column < column + columns;
  });
}

std::optional<unsigned> first_fit(const Cta& cta, unsigned columns) {
  for (unsigned column = 0; column + columns <= 512; column += 32) {
    if (is_free(cta, column, columns)) return column;
  }
  return std::nullopt;
}

void check_count(unsigned columns) {
  if (columns < 32 || columns > 512 || !std::has_single_bit(columns)) {
    stop(Hazard::allocation, std::to_string(columns) + " columns", "a power of two from 32 to 512");
  }
}

// With cta_group::2 a warp of each CTA calls, and both go on together (9.7.16.7.1).
void meet_peer(int cta_group, std::uint64_t what, unsigned columns) {
  Thread& t = self();
  if (cta_group == 1) return;
  if (t.machine->ctas.size() % 2 != 0) stop(Hazard::issue, "cta_group::2 without a pair", "a cluster of an even size");
  if (t.index % 32 != 0) return;
  require_met(*t.machine->ctas[t.cta->rank ^ 1U]);
  Rendezvous& r = t.machine->pair_calls[(what << 8) | (t.cta->rank / 2)];
  if (r.arrived == 1 && (r.values.at(0) != columns || r.values.at(1) == t.cta->rank)) {
    stop(Hazard::collective,
         "cta " + std::to_string(t.cta->block) + " calls for " + std::to_string(columns) + " columns while rank " +
             std::to_string(r.values.at(1)) + " waits with " + std::to_string(r.values.at(0)),
         "one warp of each CTA of the pair, with the same number of columns");
  }
  r.values = {columns, t.cta->rank};
  if (++r.arrived == 2) {
    r.arrived = 0;
    ++r.round;
    return;
  }
  wait_until("the other CTA of the pair at " + t.instruction, [&r, round = r.round] { return r.round != round; });
}

// The cells of columns that are freed: everything that touches them must be over.
void check_over(Cta& cta, unsigned column, unsigned columns) {
  const Thread& t = self();
  for (unsigned slab = 0; slab < 8; ++slab) {
    for (unsigned c = column; c < column + columns; ++c) {
      TmemCell& cell = tmem_cell(cta, slab * 16, c);
      const bool over = t.tensor.knows(cell.write) && (!cell.by_tensor_core || t.memory.knows(cell.write)) &&
                        std::ranges::all_of(cell.reads, [&](Event e) { return t.tensor.knows(e); });
      if (!over) {
        report(
            Hazard::overwritten,
            "column " + std::to_string(c) + ", lanes " + std::to_string(slab * 16) + " to " +
                std::to_string(slab * 16 + 16) + ": tcgen05 operations on it are not known to be over",
            "wait::ld, fence::before_thread_sync and a barrier of those that read, a commit of those that write, then "
            "fence::after_thread_sync");
        return;
      }
    }
  }
}

}  // namespace

std::uint32_t& tmem_word(Cta& cta, unsigned lane, unsigned column) {
  return cta.tmem[std::size_t{lane} * 512 + column];
}

TmemCell& tmem_cell(Cta& cta, unsigned lane, unsigned column) {
  return cta.tmem_cells[std::size_t{lane / 16} * 512 + column];
}

bool allocated(const Cta& cta, unsigned column) {
  return std::ranges::any_of(
      cta.allocations, [&](const TmemAllocation& a) { return column >= a.column && column < a.column + a.columns; });
}

void one_cta_group(int cta_group) {
  Machine& machine = *self().machine;
  if (machine.cta_group == 0) machine.cta_group = cta_group;
  if (machine.cta_group != cta_group) {
    report(Hazard::issue,
           "cta_group::" + std::to_string(cta_group) + " after cta_group::" + std::to_string(machine.cta_group),
           "one cta_group for all tcgen05 instructions of a kernel");
  }
}

void tmem_alloc(int cta_group, std::uint32_t slot, unsigned columns) {
  begin("tcgen05.alloc.cta_group::" + std::to_string(cta_group));
  Thread& t = self();
  one_cta_group(cta_group);
  check_count(columns);
  const SharedPlace place = place_of(slot, 4);
  if (place.cta != t.cta || place.offset % 4 != 0) {
    stop(Hazard::address,
         "the slot is byte " + std::to_string(place.offset) + " of cta " + std::to_string(place.cta->block),
         "a multiple of 4 in its own CTA");
  }
  converge("tcgen05.alloc", (std::uint64_t{slot} << 16) | columns);
  Cta& cta = *t.cta;
  if (t.index % 32 == 0) {
    if (cta.relinquished) {
      stop(Hazard::allocation, "after tcgen05.relinquish_alloc_permit",
           "no alloc by a CTA that has given up its permit");
    }
    if (cta.last_columns != 0 && columns > cta.last_columns) {
      report(Hazard::allocation, std::to_string(columns) + " columns after " + std::to_string(cta.last_columns),
             "no more columns than in the allocation before");
    }
    cta.last_columns = columns;
    wait_until("tensor memory: " + std::to_string(columns) + " columns",
               [&cta, columns] { return first_fit(cta, columns).has_value(); });
    // Another CTA of the SM may have the first columns: an address is what the slot says.
    unsigned column = *first_fit(cta, columns);
    if (t.machine->options.schedule == Schedule::random && cta_group == 1) {
      std::vector<unsigned> fits;
      for (unsigned c = 0; c + columns <= 512; c += 32) {
        if (is_free(cta, c, columns)) fits.push_back(c);
      }
      column = fits[t.machine->random() % fits.size()];
    }
    cta.allocations.push_back({column, columns, cta_group});
    for (unsigned slab = 0; slab < 8; ++slab) {
      for (unsigned c = column; c < column + columns; ++c) tmem_cell(cta, slab * 16, c) = {};
    }
    meet_peer(cta_group, 1, columns);
    const std::uint32_t address = column;
    store_generic(place, &address, 4);
  }
  converge("tcgen05.alloc", 0);
}

void tmem_dealloc(int cta_group, std::uint32_t address, unsigned columns) {
  begin("tcgen05.dealloc.cta_group::" + std::to_string(cta_group));
  Thread& t = self();
  one_cta_group(cta_group);
  check_count(columns);
  converge("tcgen05.dealloc", (std::uint64_t{address} << 16) | columns);
  Cta& cta = *t.cta;
  if (t.index % 32 == 0) {
    const auto found =
        std::ranges::find_if(cta.allocations, [&](const TmemAllocation& a) { return a.column == address; });
    if (found == cta.allocations.end() || found->columns != columns) {
      stop(Hazard::allocation, columns_text(address, columns) + " are no allocation",
           "the address and width of an alloc");
    }
    if (t.machine->options.checks) check_over(cta, found->column, found->columns);
    cta.allocations.erase(found);
    // It may wait for the peer (9.7.16.7.1), and a kernel may not rely on that.
    const LaunchOptions& options = t.machine->options;
    if (options.schedule == Schedule::eager || (options.schedule == Schedule::random && options.seed % 2 == 0)) {
      meet_peer(cta_group, 2, columns);
    }
  }
  converge("tcgen05.dealloc", 0);
}

void tmem_relinquish(int cta_group) {
  begin("tcgen05.relinquish_alloc_permit");
  one_cta_group(cta_group);
  converge("tcgen05.relinquish_alloc_permit", 0);
  self().cta->relinquished = true;
}

}  // namespace mxcheck::emulation::sm100
