#pragma once
// The data that threads of a launch on Hopper share: the report, findings that the device writes into memory of the
// host, and a CTA's control block. Plain types: the host knows their sizes.
//
// The checks are those that cost nothing beside the sums: descriptors, forms, allocation, lanes, copies of scales, who
// issues, and a watchdog. Those that need a shadow of every cell and byte are the CPU's (emulation/sm100).

#include <cstddef>
#include <cstdint>

#include "emulation/sm100/operations.h"

namespace mxcheck::emulation::on_sm90 {

enum class Code : std::uint32_t {
  none,
  instruction_descriptor,  // value: the descriptor
  matrix_descriptor,       // value: start, LBO and SBO are out of range or a form that is not modelled
  d_address,               // value: the address
  scale_address,           // value: the address
  copy_address,            // value: the address
  column,                  // value: a column that is not allocated
  lanes,                   // value: the address; another warp's lanes
  allocation,              // value: columns; no power of two from 32 to 512, no room or no such allocation
  allocation_grows,        // value: columns
  allocation_after_relinquish,
  cta_group,         // value: the second of two
  pair,              // cta_group::2 outside of a pair, or by its odd CTA
  issuer,            // value: a second thread that issues mma, cp or commit
  scale_copies,      // value: the address of the scales; other: the row
  not_freed,         // value: a column that is allocated at the end
  form,              // value: unused; a form that is not modelled on Hopper
  barrier_wait,      // value: an mbarrier's address; its phase did not end
  tensor_core_idle,  // no instruction came and no end: threads wait for each other elsewhere
};

struct DeviceFinding {
  Code code;
  std::uint32_t block;
  std::uint32_t warp;
  std::uint32_t lane;
  std::uint64_t value;
  std::uint64_t other;  // barrier_wait: the parity
};

inline constexpr std::uint32_t kMostFindings = 32;

// In mapped memory of the host: readable after a launch that has trapped.
struct Report {
  std::uint32_t count;  // may be above kMostFindings: those are lost
  DeviceFinding findings[kMostFindings];
};

// --- the control block
//
// The block that the threads of a CTA share: the kernel's own, which issue, and those that stand for the tensor core,
// which execute (engine.cuh). It lies behind the kernel's dynamic shared memory.

inline constexpr unsigned kEngineThreads = 256;
inline constexpr unsigned kMostKernelThreads = 256;
inline constexpr unsigned kRing = 32;   // commands between issue and execution
inline constexpr unsigned kChunk = 32;  // columns of D whose B is decoded at a time
inline constexpr unsigned kMaxK = 32;   // elements of an instruction, but of the FP4 kinds
inline constexpr unsigned kTmemColumns = 512;
inline constexpr unsigned kTmemLanes = 128;
inline constexpr unsigned kTmemWords = kTmemColumns * kTmemLanes;
inline constexpr std::uint32_t kPoison = 0x7FC0DEAD;  // a NaN: what was in tensor memory before

enum class Timing : std::uint32_t { eager, lazy, random };

// A launch's, the same for all CTAs.
struct Launch {
  std::uint32_t* tmem;    // kTmemWords for each CTA, [column][lane]
  std::uint32_t* claims;  // in device memory, by cluster: who has its work (device.cuh)
  Report* report;         // in mapped memory of the host
  std::uint32_t* counts;  // in device memory: findings; mma that were executed, of a pair one
  std::uint64_t seed;
  std::uint64_t limit_ns;  // how long a thread waits before it is a deadlock
  Timing timing;
};

struct Command {
  enum class Op : std::uint32_t { mma, cp, commit };
  Op op;
  sm100::MmaKind kind;
  sm100::CpShape shape;
  std::uint16_t mask;  // of commit: 0 is the named barrier
  std::uint32_t cta_group;
  std::uint32_t to;  // D, the copy's destination, the barrier
  std::uint32_t instruction;
  std::uint64_t a;  // descriptors; the copy's source
  std::uint64_t b;
  std::uint32_t scales_a;
  std::uint32_t scales_b;
  std::uint32_t accumulate;
  std::uint32_t reserved;
};
static_assert(sizeof(Command) == 56);

// A column of B, decoded: kMaxK elements as significands and, two to a word, exponents.
struct Columns {
  float significands[kChunk][kMaxK];
  std::uint32_t exponents[kChunk][kMaxK / 2];
  std::uint16_t codes[kChunk][kMaxK];
  std::uint32_t special[kChunk];  // an infinity, a NaN or a NaN scale is among them
  std::uint32_t nan_scale[kChunk];
};

// A column of B of the FP4 kinds, 64 elements: twice their values, four to a word; a bit for each that is not zero; and
// the column's scales, as its words in tensor memory have them from the id on.
struct Fp4Columns {
  std::uint32_t twice[kChunk][16];
  std::uint32_t some[kChunk][2];
  std::uint32_t scales[kChunk];
};

struct Allocation {
  std::uint32_t column;
  std::uint32_t columns;  // 0: free
};

struct Control {
  union {  // of the instruction that is executed
    Columns columns;
    Fp4Columns fp4;
  };
  Command ring[kRing];
  Command mail;  // a pair's command, from the leader
  std::uint64_t cluster_barrier;
  std::uint64_t shadow[kMostKernelThreads / 32];  // mbarriers of a pair's loads, one a warp
  Launch launch;
  std::uint32_t* tmem;  // this CTA's
  Allocation allocations[16];
  std::uint32_t ready[kRing];  // the command's number + 1
  std::uint32_t issued;        // commands that have a place in the ring
  std::uint32_t executed;
  std::uint32_t finished;  // threads of the kernel that came to its end
  std::uint32_t mailed;    // number of the command in `mail`
  std::uint32_t answered;  // the peer has executed so many
  std::uint32_t next;      // what the engine does now: engine.cuh
  std::uint32_t kernel_threads;
  std::uint32_t cta_group;  // of the first instruction
  std::uint32_t issuer;     // its thread + 1
  std::uint32_t relinquished;
  std::uint32_t last_columns;
  std::uint32_t canceled;                          // this cluster's work is another's
  std::uint32_t waiting[kMostKernelThreads / 32];  // by warp: the mbarrier that it waits for
  std::uint8_t cluster_parity[kMostKernelThreads];
  std::uint8_t shadow_parity[kMostKernelThreads / 32];
};

inline constexpr std::size_t kControlBytes = (sizeof(Control) + 15) / 16 * 16;

}  // namespace mxcheck::emulation::on_sm90
