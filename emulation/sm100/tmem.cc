// Tensor memory: 128 lanes of 512 columns of 32 bits, and who owns its columns (PTX ISA 9.0, 9.7.16.7).

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "emulation/sm100/descriptor.h"
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

// --- loads and stores
//
// tcgen05.ld and tcgen05.st (PTX ISA 9.0, 9.7.16.8): which register is which cell, and when it is there.

namespace {

constexpr std::uint32_t kPoison = 0x7FC0DEAD;  // a NaN: of registers before wait::ld, of cells that nothing has written

struct ShapeFacts {
  const char* name;
  unsigned registers;  // of .x1
  unsigned max_num;
  unsigned lanes;    // of one access
  unsigned columns;  // of .x1; .16x32bx2 has two halves
};

constexpr std::array<ShapeFacts, 5> kShapes{{{"32x32b", 1, 128, 32, 1},
                                             {"16x64b", 1, 128, 16, 2},
                                             {"16x128b", 2, 64, 16, 4},
                                             {"16x256b", 4, 32, 16, 8},
                                             {"16x32bx2", 1, 128, 16, 1}}};

struct Access {
  TmemShape shape;
  unsigned num;
  bool halves;  // pack::16b, unpack::16b: a register is two neighbouring columns
  std::uint32_t address;
  unsigned registers;
  unsigned half_split;
};

// Ends the run for what is no access; the lanes and columns are this warp's.
void tmem_access_check(const Access& a) {
  const Thread& t = self();
  const ShapeFacts& s = kShapes[static_cast<std::size_t>(a.shape)];
  if (a.num == 0 || (a.num & (a.num - 1)) != 0 || a.num > s.max_num || a.registers != a.num * s.registers) {
    stop(Hazard::unknown,
         std::string(s.name) + ".x" + std::to_string(a.num) + " of " + std::to_string(a.registers) + " registers",
         "a power of two up to .x" + std::to_string(s.max_num));
  }
  if (a.halves && a.shape == TmemShape::lanes16x32bx2) {
    stop(Hazard::unknown, "16x32bx2 with 16-bit packing",
         "one of the two: what the half split counts then is not modelled");
  }
  const unsigned lane = a.address >> 16;
  const unsigned slab = t.index / 32 % 4 * 32;
  if (lane < slab || lane + s.lanes > slab + 32 || lane % 16 != 0) {
    stop(Hazard::address, "lanes " + std::to_string(lane) + " to " + std::to_string(lane + s.lanes),
         "warp " + std::to_string(t.index / 32) + " has lanes " + std::to_string(slab) + " to " +
             std::to_string(slab + 32) + ", and 16-lane shapes begin at a multiple of 16");
  }
}

std::uint64_t detail_of(const Access& a) {
  return (std::uint64_t{a.address} << 24) ^ (std::uint64_t{a.num} << 8) ^ static_cast<std::uint64_t>(a.shape) ^
         (std::uint64_t{a.half_split} << 16) ^ (a.halves ? 0x80U : 0U);
}

Event tmem_access_next_event(Thread& t, WarpEvents& events) {
  if (events.component == 0) events.component = t.machine->component();
  return {events.component, ++events.issued};
}

// The cells of the whole warp, once: half-slabs of 16 lanes by columns.
template <class Visit>
void each_cell(const Access& a, const Visit& visit) {
  std::array<std::array<bool, 512>, 2> met{};
  Cta& cta = *self().cta;
  const unsigned lane0 = a.address >> 16;
  const unsigned column0 = a.address & 0xFFFFU;
  for (unsigned thread = 0; thread < 32; ++thread) {
    for (unsigned r = 0; r < a.registers; ++r) {
      const TmemPlace p = register_place(a.shape, thread, r, a.half_split);
      for (unsigned h = 0; h < (a.halves ? 2U : 1U); ++h) {
        const unsigned column = column0 + (a.halves ? 2 * p.column + h : p.column);
        if (column >= 512 || !allocated(cta, column)) {
          stop(Hazard::allocation, "column " + std::to_string(column), "columns that the CTA has allocated");
        }
        const unsigned half = (lane0 + p.lane) / 16 % 2;
        if (met[half][column]) continue;
        met[half][column] = true;
        visit(tmem_cell(cta, lane0 + p.lane, column), lane0 + p.lane, column);
      }
    }
  }
}

std::string tmem_access_cell_text(unsigned lane, unsigned column) {
  return "column " + std::to_string(column) + ", lane " + std::to_string(lane);
}

void check_load(TmemCell& cell, unsigned lane, unsigned column, Event read) {
  const Thread& t = self();
  if (!cell.valid)
    report(Hazard::uninitialized, tmem_access_cell_text(lane, column) + " has not been written",
           "an mma, cp or st before");
  if (cell.by_tensor_core && !t.memory.knows(cell.write)) {
    report(Hazard::not_complete,
           tmem_access_cell_text(lane, column) + ": the mma or cp that writes it is not known to be complete",
           "a commit after it, and a wait for the commit's barrier, .acquire.cluster where another CTA commits");
  } else if (!t.tensor.knows(cell.write)) {
    report(Hazard::not_ordered, tmem_access_cell_text(lane, column) + ": its writer is not ordered before this load",
           cell.by_tensor_core
               ? "fence::after_thread_sync after the wait"
               : "wait::st and fence::before_thread_sync of the writer, a barrier, fence::after_thread_sync");
  }
  remember(cell.reads, read);
}

void check_store(TmemCell& cell, unsigned lane, unsigned column, Event write) {
  const Thread& t = self();
  const bool over = t.tensor.knows(cell.write) && (!cell.by_tensor_core || t.memory.knows(cell.write)) &&
                    std::ranges::all_of(cell.reads, [&](Event e) { return t.tensor.knows(e); });
  if (!over) {
    report(Hazard::overwritten, tmem_access_cell_text(lane, column) + " is still read or written by what came before",
           "of an mma: a commit and its wait; of a ld: wait::ld; between threads the fences and a barrier too");
  }
  cell = {.valid = true, .write = write};
}

std::uint32_t value_at(Cta& cta, unsigned lane, unsigned column, bool halves) {
  if (!halves) return tmem_word(cta, lane, column);
  return (tmem_word(cta, lane, column) & 0xFFFFU) | (tmem_word(cta, lane, column + 1) << 16);
}

std::string name_of_access(const char* op, TmemShape shape, unsigned num) {
  return std::string("tcgen05.") + op + "." + kShapes[static_cast<std::size_t>(shape)].name + ".x" +
         std::to_string(num);
}

}  // namespace

void tmem_ld(TmemShape shape, unsigned num, bool pack16, std::uint32_t address, std::span<std::uint32_t> registers,
             unsigned half_split) {
  begin(name_of_access("ld", shape, num));
  Thread& t = self();
  const Access a{shape, num, pack16, address, static_cast<unsigned>(registers.size()), half_split};
  tmem_access_check(a);
  converge("tcgen05.ld", detail_of(a), [&] {
    const Event read = tmem_access_next_event(t, t.machine->warps[t.id / 32].loads);
    each_cell(a, [&](TmemCell& cell, unsigned lane, unsigned column) {
      if (t.machine->options.checks) check_load(cell, lane, column, read);
    });
  });
  // Eager loads are there at once; others when the schedule says, at the latest at wait::ld.
  const bool now = t.machine->options.schedule == Schedule::eager ||
                   (t.machine->options.schedule == Schedule::random && t.machine->flip());
  for (unsigned r = 0; r < a.registers; ++r) {
    const TmemPlace p = register_place(shape, t.index % 32, r, half_split);
    const unsigned lane = (address >> 16) + p.lane;
    const unsigned column = (address & 0xFFFFU) + (pack16 ? 2 * p.column : p.column);
    if (now) {
      registers[r] = value_at(*t.cta, lane, column, pack16);
    } else {
      registers[r] = kPoison;
      t.loads.push_back({&registers[r], lane, column, pack16});
    }
  }
}

void tmem_wait_ld() {
  begin("tcgen05.wait::ld");
  Thread& t = self();
  converge("tcgen05.wait::ld", 0);
  for (const PendingLoad& load : t.loads) *load.to = value_at(*t.cta, load.lane, load.column, load.pack16);
  t.loads.clear();
  const Warp& warp = t.machine->warps[t.id / 32];
  t.tensor.learn({warp.loads.component, warp.loads.issued});
}

void tmem_st(TmemShape shape, unsigned num, bool unpack16, std::uint32_t address,
             std::span<const std::uint32_t> registers, unsigned half_split) {
  begin(name_of_access("st", shape, num));
  Thread& t = self();
  const Access a{shape, num, unpack16, address, static_cast<unsigned>(registers.size()), half_split};
  tmem_access_check(a);
  Warp& warp = t.machine->warps[t.id / 32];
  converge("tcgen05.st", detail_of(a), [&] {
    const Event write = tmem_access_next_event(t, warp.stores);
    each_cell(a, [&](TmemCell& cell, unsigned lane, unsigned column) {
      if (t.machine->options.checks) check_store(cell, lane, column, write);
    });
  });
  const bool now = t.machine->options.schedule == Schedule::eager ||
                   (t.machine->options.schedule == Schedule::random && t.machine->flip());
  for (unsigned r = 0; r < a.registers; ++r) {
    const TmemPlace p = register_place(shape, t.index % 32, r, half_split);
    const unsigned lane = (address >> 16) + p.lane;
    const unsigned column = (address & 0xFFFFU) + (unpack16 ? 2 * p.column : p.column);
    auto write = [&cta = *t.cta, lane, column, unpack16, value = registers[r]] {
      tmem_word(cta, lane, column) = unpack16 ? value & 0xFFFFU : value;
      if (unpack16) tmem_word(cta, lane, column + 1) = value >> 16;
    };
    if (now) write();
    if (!now) warp.pending_stores.emplace_back(write);
  }
}

void tmem_wait_st() {
  begin("tcgen05.wait::st");
  Thread& t = self();
  Warp& warp = t.machine->warps[t.id / 32];
  converge("tcgen05.wait::st", 0, [&] {
    for (const auto& store : warp.pending_stores) store();
    warp.pending_stores.clear();
  });
  t.tensor.learn({warp.stores.component, warp.stores.issued});
}

void fence_before_thread_sync() {
  begin("tcgen05.fence::before_thread_sync");
  publish(self());
}

void fence_after_thread_sync() {
  begin("tcgen05.fence::after_thread_sync");
  Thread& t = self();
  t.tensor.join(t.acquired);
}

}  // namespace mxcheck::emulation::sm100
