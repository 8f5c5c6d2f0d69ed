// tcgen05.mma, tcgen05.cp, tcgen05.commit: what they may touch is checked at their issue; they happen when the schedule
// says, those of one thread in the order of their issue (PTX ISA 9.0, 9.7.16.6).
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "emulation/sm100/machine.h"
#include "emulation/sm100/tensor_core/instruction.h"
#include "emulation/sm100/tensor_core/shared_matrix.h"

namespace mxcheck::emulation::sm100 {
namespace {

// One CTA's part of an MMA.
struct Part {
  Cta* cta;
  int rows;   // of A, and lanes of D
  int first;  // row of the pair's A
};

struct Issue {
  Mma mma;
  Instruction instruction;
  SharedMatrix a, b;
  std::vector<Part> parts;
  int n_here;  // rows of B that each CTA holds
};

Event next_event(Thread& t) {
  if (t.pipe_component == 0) t.pipe_component = t.machine->component();
  return {t.pipe_component, ++t.pipe_issued};
}

std::vector<Cta*> ctas_of(int cta_group) {
  Thread& t = self();
  one_cta_group(cta_group);
  if (cta_group == 1) return {t.cta};
  if (t.machine->ctas.size() % 2 != 0) stop(Hazard::issue, "cta_group::2 without a pair", "a cluster of an even size");
  if (t.cta->rank % 2 != 0) {
    report(Hazard::issue, "issued by the CTA of odd rank " + std::to_string(t.cta->rank),
           "by a thread of the even-ranked CTA");
  }
  Cta* leader = t.machine->ctas[t.cta->rank & ~1U].get();
  Cta* peer = t.machine->ctas[t.cta->rank | 1U].get();
  for (const Cta* cta : {leader, peer}) {
    if (cta->running == 0)
      stop(Hazard::exit, "cta " + std::to_string(cta->block) + " of the pair has ended", "both run until it is over");
    require_met(*cta);
  }
  return {leader, peer};
}

// Two lanes of a warp at the same mma issue it twice: one thread issues them between two commits.
void one_issuer(Cta& cta) {
  Thread& t = self();
  for (const Thread* other : cta.threads) {
    if (other != &t && other->index / 32 == t.index / 32 && other->pipe_component != 0) {
      report(Hazard::issue,
             "lane " + std::to_string(other->index % 32) + " of the same warp has issued tcgen05 operations too",
             "one elected lane issues them");
    }
  }
}

std::string cell_text(const Cta& cta, unsigned lane, unsigned column) {
  return "column " + std::to_string(column) + ", lane " + std::to_string(lane) + " of cta " + std::to_string(cta.block);
}

void own_column(const Cta& cta, unsigned column, std::string_view what) {
  if (column >= 512 || !allocated(cta, column)) {
    stop(Hazard::allocation, std::string(what) + ": column " + std::to_string(column),
         "columns that the CTA has allocated");
  }
}

bool ordered(const Thread& t, Event e) {
  return t.tensor.knows(e) || (e.component == t.pipe_component && t.pipe_component != 0);
}

// A cell that an mma or cp of this thread writes: what was before must be over, or be in the pipeline before it.
void check_write(const Thread& t, const Cta& cta, TmemCell& cell, unsigned lane, unsigned column, std::uint64_t shape,
                 Event write) {
  for (const Event read : cell.reads) {
    if (!ordered(t, read)) {
      report(Hazard::overwritten,
             cell_text(cta, lane, column) +
                 ": a tcgen05.ld or another thread's mma that reads it "
                 "is not known to be over",
             "wait::ld or a commit, fence::before_thread_sync and an arrival of the reader; a wait and "
             "fence::after_thread_sync here");
    }
    if (read == write) {
      report(Hazard::overwritten, cell_text(cta, lane, column) + " is of D and of the scales of the same mma",
             "columns of their own for both");
    }
  }
  const bool piped = cell.by_tensor_core && cell.write.component == t.pipe_component;
  if (!piped && !t.tensor.knows(cell.write)) {
    report(Hazard::overwritten, cell_text(cta, lane, column) + ": its last writer is not known to be over",
           "an order between the two: a commit or the fences, and a barrier");
  }
  if (piped && shape == 0 && cell.mma_shape != 0 && !t.memory.knows(cell.write)) {
    report(Hazard::overwritten, cell_text(cta, lane, column) + ": an mma that writes it is not known to be complete",
           "a commit and its wait between: mma then cp is not on the list of what stays in order");
  }
  if (piped && shape != 0 && cell.mma_shape != 0 && cell.mma_shape != shape && !t.memory.knows(cell.write)) {
    report(Hazard::not_ordered, cell_text(cta, lane, column) + ": an mma of another shape or kind wrote it",
           "a commit and its wait between: only an mma of the same shape and kind is in order behind it");
  }
  cell = {.valid = true, .by_tensor_core = true, .write = write, .mma_shape = shape};
}

void check_operands(const Issue& issue, Event read) {
  const Instruction& in = issue.instruction;
  for (const Part& part : issue.parts) {
    const std::array<std::pair<const SharedMatrix*, OperandLayout>, 2> operands{
        {{&issue.a, operand_layout(in.kind, in.a_mn_major, part.rows)},
         {&issue.b, operand_layout(in.kind, in.b_mn_major, issue.n_here)}}};
    for (const auto& [matrix, layout] : operands) {
      const char* name = matrix == &issue.a ? "A" : "B";
      for (const std::string& problem :
           operand_problems(*matrix, layout, static_cast<std::uint32_t>(part.cta->shared.size()))) {
        stop(Hazard::descriptor, std::string(name) + ": " + problem, "a matrix in shared memory");
      }
      if (!self().machine->options.checks) continue;
      for (const std::uint32_t unit : operand_units(*matrix, layout)) {
        check_shared_read_async(*part.cta, unit, 16, read, matrix->swizzle, name);
      }
    }
  }
}

// Row r of a matrix of scales: lane r % 32 of each partition, column r / 32 (PTX ISA 9.0, 9.7.16.10.7), for any number
// of scales of a row, which share the cell. The M = 128 of a pair has B's scales split between partitions; see mma().
void check_scales(const Issue& issue, std::uint32_t address, int rows, Event read, const char* name) {
  const Thread& t = self();
  if (address >> 16 != 0) {
    stop(Hazard::unknown,
         std::string(name) + " at lane " + std::to_string(address >> 16 & 0x3FFFU) +
             ", bits 31:30 = " + std::to_string(address >> 30),
         "lane 0 and no sub-column: the byte is chosen by the ids in the instruction descriptor");
  }
  const unsigned column0 = address & 0xFFFFU;
  for (const Part& part : issue.parts) {
    for (unsigned c = column0; c < column0 + static_cast<unsigned>((rows + 31) / 32); ++c) {
      own_column(*part.cta, c, name);
      if (!t.machine->options.checks) continue;
      for (unsigned slab = 0; slab < 8; ++slab) {
        TmemCell& cell = tmem_cell(*part.cta, slab * 16, c);
        if (!cell.valid) {
          report(Hazard::uninitialized,
                 std::string(name) + ": " + cell_text(*part.cta, slab * 16, c) + " has not been written",
                 "tcgen05.cp.32x128b.warpx4 of the scales before, into all four partitions");
        } else if (!ordered(t, cell.write)) {
          report(Hazard::not_ordered,
                 std::string(name) + ": " + cell_text(*part.cta, slab * 16, c) + " was written by another thread",
                 "fence::before_thread_sync there, a barrier, and fence::after_thread_sync here");
        }
        remember(cell.reads, read);
      }
    }
  }
}

std::uint32_t scales_word(const Cta& cta, std::uint32_t address, int row, int partition) {
  const unsigned column = (address & 0xFFFFU) + static_cast<unsigned>(row / 32);
  return cta.tmem[static_cast<std::size_t>(partition * 32 + row % 32) * 512 + column];
}

// `count` scales of each row: the bytes of its word from `id` on.
std::vector<std::uint8_t> scales_of(const Cta& cta, std::uint32_t address, int rows, int id, int count,
                                    const char* name) {
  std::vector<std::uint8_t> scales;
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << (8 * count)) - 1);
  for (int row = 0; row < rows; ++row) {
    const std::uint32_t word = scales_word(cta, address, row, 0) >> (8 * id);
    for (int i = 0; i < count; ++i) scales.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
    for (int partition = 1; partition < 4; ++partition) {
      if (((scales_word(cta, address, row, partition) >> (8 * id) ^ word) & mask) != 0) {
        report(Hazard::scale_copies,
               std::string(name) + " of row " + std::to_string(row) + ": partitions 0 and " +
                   std::to_string(partition) + " of cta " + std::to_string(cta.block) + " differ",
               "the same scales in all four partitions (cp.32x128b.warpx4)");
      }
    }
  }
  return scales;
}

void check_d(const Issue& issue, Event write) {
  const Instruction& in = issue.instruction;
  const Thread& t = self();
  const std::uint64_t shape = 1 + static_cast<std::uint64_t>(in.kind) + 8 * static_cast<std::uint64_t>(in.m) +
                              4096 * static_cast<std::uint64_t>(in.n) + (in.d_fp16 ? std::uint64_t{1} << 32 : 0);
  const unsigned column0 = issue.mma.d & 0xFFFFU;
  if (issue.mma.d >> 16 != 0) {
    stop(Hazard::unknown, "D begins at lane " + std::to_string(issue.mma.d >> 16),
         "lane 0: other placements are not modelled");
  }
  const unsigned columns = static_cast<unsigned>(in.cta_group == 2 && in.m == 128 ? in.n / 2 : in.n);
  const bool half = in.cta_group == 1 && in.m == 64;
  for (const Part& part : issue.parts) {
    for (unsigned c = column0; c < column0 + columns; ++c) {
      own_column(*part.cta, c, "D");
      if (!t.machine->options.checks) continue;
      for (unsigned slab = 0; slab < 8; slab += half ? 2 : 1) {
        TmemCell& cell = tmem_cell(*part.cta, slab * 16, c);
        if (issue.mma.accumulate && !cell.valid) {
          report(Hazard::uninitialized,
                 "D: " + cell_text(*part.cta, slab * 16, c) + " has not been written and is added to",
                 "enable-input-d is false for the first k of a tile");
        }
        check_write(t, *part.cta, cell, slab * 16, c, shape, write);
      }
    }
  }
}

// An instruction that executes after a CTA of the pair has ended reads what is no longer there.
void still_running(const Cta& cta) {
  if (cta.running == 0) {
    report(Hazard::exit, "it executes after cta " + std::to_string(cta.block) + " has ended",
           "every CTA of the pair stays until the commit that covers it has arrived");
  }
}

using Bytes = std::vector<std::uint8_t>;

// Layouts D and A have row m in lane m: the sums are made where they are. Others go through a copy.
void multiply_into(const Issue& issue, const Part& part, const Bytes& a, const Bytes& b, const Bytes& scales_a,
                   const Bytes& scales_b) {
  const Instruction& in = issue.instruction;
  const unsigned column0 = issue.mma.d & 0xFFFFU;
  const auto run = [&](std::uint32_t* d, std::size_t stride) {
    multiply(in, a.data(), b.data(), scales_a.data(), scales_b.data(), d, stride, part.rows, issue.mma.accumulate);
  };
  if (in.m == 128 * in.cta_group) return run(&tmem_word(*part.cta, 0, column0), 512);
  const auto n_all = static_cast<std::size_t>(in.n);
  std::vector<std::uint32_t> d(static_cast<std::size_t>(part.rows) * n_all);
  const auto each = [&](const auto& visit) {
    for (int m = 0; m < part.rows; ++m) {
      for (int n = 0; n < in.n; ++n) {
        const TmemPlace p = d_place(in, m, n);
        visit(tmem_word(*part.cta, p.lane, column0 + p.column),
              d[static_cast<std::size_t>(m) * n_all + static_cast<std::size_t>(n)]);
      }
    }
  };
  if (issue.mma.accumulate) each([](std::uint32_t& cell, std::uint32_t& word) { word = cell; });
  run(d.data(), n_all);
  each([](std::uint32_t& cell, std::uint32_t& word) { cell = word; });
}

void execute(const Issue& issue) {
  for (const Part& part : issue.parts) still_running(*part.cta);
  const Instruction& in = issue.instruction;
  constexpr auto kBytes = static_cast<std::size_t>(kStepBytes);
  std::vector<std::uint8_t> b(static_cast<std::size_t>(in.n) * kBytes);
  int row = 0;
  for (const Part& part : issue.parts) {  // of a pair, each CTA holds half of B's rows
    gather(issue.b, operand_layout(in.kind, in.b_mn_major, issue.n_here), part.cta->shared,
           b.data() + static_cast<std::size_t>(row) * kBytes);
    row += issue.n_here;
  }
  std::vector<std::uint8_t> scales_b;
  const int scales = scales_of_row(in.kind);
  for (const Part& part : issue.parts) {
    std::vector<std::uint8_t> a(static_cast<std::size_t>(part.rows) * kBytes);
    gather(issue.a, operand_layout(in.kind, in.a_mn_major, part.rows), part.cta->shared, a.data());
    std::vector<std::uint8_t> scales_a;
    if (is_scaled(in.kind)) {
      scales_a = scales_of(*part.cta, issue.mma.scales_a, part.rows, in.scale_a_id, scales, "scales of A");
      auto here = scales_of(*part.cta, issue.mma.scales_b, in.n, in.scale_b_id, scales, "scales of B");
      if (!scales_b.empty() && here != scales_b) {
        report(Hazard::scale_copies, "scales of B differ between the CTAs of the pair", "all n rows' scales in both");
      }
      scales_b = std::move(here);
    }
    multiply_into(issue, part, a, b, scales_a, scales_b);
  }
}

SharedMatrix matrix_of(std::uint64_t bits, const char* name) {
  DecodedMatrix decoded = decode_shared_matrix(bits);
  if (!decoded.problems.empty())
    stop(Hazard::descriptor, std::string(name) + ": " + decoded.problems.front(),
         "one that the PTX ISA has, and the emulation (tensor_core/shared_matrix.h)");
  return decoded.matrix;
}

std::string group_text(int cta_group) { return ".cta_group::" + std::to_string(cta_group); }

}  // namespace

void mma(const Mma& mma) {
  begin("tcgen05.mma" + group_text(mma.cta_group) + "." + to_text(mma.kind));
  Thread& t = self();
  Issue issue{.mma = mma, .instruction = {}, .a = {}, .b = {}, .parts = {}, .n_here = 0};
  const std::vector<Cta*> ctas = ctas_of(mma.cta_group);
  Decoded decoded = decode_instruction(mma.kind, mma.cta_group, mma.instruction);
  if (!decoded.problems.empty())
    stop(Hazard::descriptor, decoded.problems.front(),
         "one that the PTX ISA has, and the emulation (tensor_core/instruction.h)");
  issue.instruction = decoded.instruction;
  const Instruction& in = issue.instruction;
  issue.a = matrix_of(mma.a, "A");
  issue.b = matrix_of(mma.b, "B");
  const int groups = static_cast<int>(ctas.size());
  if (in.cta_group == 2 && in.m == 128 && is_scaled(in.kind)) {
    stop(Hazard::unknown, "a pair's M of 128 with scales",
         "M = 256: the split of B's scales there rests on one source");
  }
  issue.n_here = in.n / groups;
  for (int i = 0; i < groups; ++i)
    issue.parts.push_back({ctas[static_cast<std::size_t>(i)], in.m / groups, i * in.m / groups});
  if (t.machine->options.checks) one_issuer(*t.cta);
  const Event event = next_event(t);
  for (Cta* cta : ctas) {
    if (cta != t.cta) cta->reached.learn(event);
  }
  check_operands(issue, event);
  if (is_scaled(in.kind)) {
    check_scales(issue, mma.scales_a, in.m / groups, event, "scales of A");
    check_scales(issue, mma.scales_b, in.n, event, "scales of B");
  }
  check_d(issue, event);
  ++t.machine->result->mmas;
  issue_pipe(t.instruction, [issue] { execute(issue); });
}

void cp(CpShape shape, int cta_group, std::uint32_t to, std::uint64_t descriptor) {
  begin("tcgen05.cp" + group_text(cta_group));
  Thread& t = self();
  const std::vector<Cta*> ctas = ctas_of(cta_group);
  const SharedMatrix matrix = matrix_of(descriptor, "the source");
  const CpSource source = cp_source(shape);
  const unsigned column0 = to & 0xFFFFU;
  if (to >> 16 != 0) stop(Hazard::unknown, "a copy to lane " + std::to_string(to >> 16), "lane 0");
  const Event event = next_event(t);
  for (Cta* cta : ctas) {
    if (cta != t.cta) cta->reached.learn(event);
  }
  if (t.machine->options.checks) one_issuer(*t.cta);
  for (Cta* cta : ctas) {
    for (const std::string& problem : cp_problems(matrix, shape, static_cast<std::uint32_t>(cta->shared.size()))) {
      stop(Hazard::descriptor, problem, "a source in shared memory");
    }
    std::array<std::array<bool, 512>, 8> met{};
    for (int row = 0; row < source.rows; ++row) {
      for (int unit = 0; unit < source.units; ++unit) {
        check_shared_read_async(*cta, cp_address(matrix, row, unit), 16, event, matrix.swizzle, "the copy");
        for (int l = 0; l < source.lanes; ++l) {
          const auto lane = static_cast<unsigned>(cp_lane(shape, row, l));
          for (unsigned c = column0 + 4 * static_cast<unsigned>(unit);
               c < column0 + 4 * static_cast<unsigned>(unit) + 4; ++c) {
            own_column(*cta, c, "the copy");
            if (met[lane / 16][c] || !t.machine->options.checks) continue;
            met[lane / 16][c] = true;
            TmemCell& cell = tmem_cell(*cta, lane, c);
            for (const Event read : cell.reads) {
              if (t.machine->options.strict && read.component == t.pipe_component && !t.memory.knows(read)) {
                report(Hazard::live_scales, cell_text(*cta, lane, c) + ": an mma before may still read it",
                       "a commit after that mma and its wait: mma then cp is not on the list of what stays in order");
              }
            }
            check_write(t, *cta, cell, lane, c, 0, event);
          }
        }
      }
    }
  }
  issue_pipe(t.instruction, [=] {
    for (Cta* cta : ctas) {
      still_running(*cta);
      for (int row = 0; row < source.rows; ++row) {
        for (int unit = 0; unit < source.units; ++unit) {
          std::array<std::uint32_t, 4> words{};
          std::memcpy(words.data(), cta->shared.data() + cp_address(matrix, row, unit), 16);
          for (int l = 0; l < source.lanes; ++l) {
            for (unsigned c = 0; c < 4; ++c) {
              tmem_word(*cta, static_cast<unsigned>(cp_lane(shape, row, l)),
                        column0 + 4 * static_cast<unsigned>(unit) + c) = words[c];
            }
          }
        }
      }
    }
  });
}

void commit(int cta_group, std::uint32_t barrier, std::uint16_t multicast) {
  begin("tcgen05.commit" + group_text(cta_group));
  Thread& t = self();
  ctas_of(cta_group);
  if (t.pipe_component == 0) {
    report(Hazard::issue, "this thread has issued no tcgen05 operation",
           "the thread that issues them commits: it tracks its own alone");
  }
  std::vector<SharedPlace> places;
  const SharedPlace named = place_of(barrier, 8);
  if (multicast == 0) places.push_back(named);
  for (unsigned rank = 0; rank < 16; ++rank) {
    if ((multicast >> rank & 1U) == 0) continue;
    places.push_back(place_of(mapped(barrier & 0xFFFFFFU, rank), 8));
  }
  // The arrival hands over what is complete then, and an implicit fence::before_thread_sync (9.7.16.10.10).
  BarrierClocks clocks;
  publish(t);
  hand_over(clocks, t);
  const Event done{t.pipe_component, t.pipe_issued};
  clocks.memory.learn(done);
  clocks.tensor.learn(done);
  clocks.async.learn(done);
  for (const SharedPlace place : places) {
    const Barrier* b = barrier_at(place, t.instruction);
    if (!t.async.knows(b->init)) {
      report(Hazard::barrier, "the mbarrier's initialization is not visible to the async proxy",
             "fence.mbarrier_init, then a barrier");
    }
  }
  issue_pipe(t.instruction + " to byte " + std::to_string(named.offset), [places, clocks, own = t.cta] {
    for (const SharedPlace place : places) {
      if (place.cta->running == 0) {
        report(Hazard::exit, "a commit arrives at cta " + std::to_string(place.cta->block) + ", which has ended",
               "every CTA stays until the last arrival at its barriers");
        continue;
      }
      arrive_on(*barrier_at(place, "tcgen05.commit"), 1, 0, clocks, place.cta != own);
    }
  });
}

}  // namespace mxcheck::emulation::sm100
