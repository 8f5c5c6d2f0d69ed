#pragma once
// The common parts of probes: operands whose sums are exact, the fixture of their kernels on the thin layer (tcgen05/),
// and one MMA with its words.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"
#include "tests/kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// --- operands
// Operands whose sums are exact in FP32, whatever the order of addition, so that an expected word needs no model of the
// tensor core: small integers, and powers of two as scales. And the image of shared memory that holds them, in the form
// that the GEMM kernels use: rows of 128 bytes along k, swizzled by 128 bytes; scales in chunks of 128 x 4.

// Places in the image. A has rows to spare: probe 6 begins up to seven rows further on.
inline constexpr unsigned kAAt = 0;
inline constexpr unsigned kBAt = kAAt + 136 * 128;
inline constexpr unsigned kScalesAAt = kBAt + 256 * 128;  // 128 rows
inline constexpr unsigned kScalesBAt = kScalesAAt + 512;  // 256 rows
inline constexpr unsigned kOperandBytes = kScalesBAt + 1024;
static_assert(kBAt % 1024 == 0 && kScalesAAt % 128 == 0);

// A hash, for operands that look like noise and are the same in every run.
inline std::uint32_t noise(std::uint32_t seed, std::uint32_t i) {
  std::uint32_t x = seed * 0x9E3779B9U + i * 0x85EBCA6BU + 0x7F4A7C15U;
  x = (x ^ (x >> 16)) * 0x21F0AAADU;
  x = (x ^ (x >> 15)) * 0x735A2D97U;
  return x ^ (x >> 15);
}

// E4M3 of an integer with at most four significant bits.
inline std::uint8_t e4m3(int value) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<unsigned>(std::abs(value));
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const unsigned fraction = (magnitude << 3 >> exponent) & 7U;
  return static_cast<std::uint8_t>((value < 0 ? 0x80U : 0U) | static_cast<unsigned>(exponent + 7) << 3 | fraction);
}
inline std::uint16_t bf16(int value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

// One step of k: 32 elements of 8 bits, or the first 16 of them as BF16.
struct Operands {
  int rows = 0, columns = 0;                      // of D
  std::vector<int> a, b;                          // [rows][32], [columns][32]
  std::vector<int> exponents_a{}, exponents_b{};  // of the scales: [rows], [columns]

  [[nodiscard]] float value(int m, int n, int depth = 32) const {
    int sum = 0;
    for (int k = 0; k < depth; ++k) {
      sum += a[static_cast<std::size_t>(m * 32 + k)] * b[static_cast<std::size_t>(n * 32 + k)];
    }
    return static_cast<float>(sum);
  }
  [[nodiscard]] float scaled(int m, int n) const {
    return std::ldexp(value(m, n), exponents_a[static_cast<std::size_t>(m)] + exponents_b[static_cast<std::size_t>(n)]);
  }
};

// Integers from `low` on, `count` of them, and exponents of 0 to 3.
inline Operands draw(int rows, int columns, int low, int count, std::uint32_t seed) {
  Operands o{.rows = rows, .columns = columns, .a = {}, .b = {}};
  std::uint32_t i = 0;
  const auto next = [&](int from, int of) {
    return from + static_cast<int>(noise(seed, i++) % static_cast<unsigned>(of));
  };
  for (int at = 0; at < rows * 32; ++at) o.a.push_back(next(low, count));
  for (int at = 0; at < columns * 32; ++at) o.b.push_back(next(low, count));
  for (int m = 0; m < rows; ++m) o.exponents_a.push_back(next(0, 4));
  for (int n = 0; n < columns; ++n) o.exponents_b.push_back(next(0, 4));
  return o;
}

class Image {
 public:
  explicit Image(std::size_t bytes) : bytes_(bytes) {}

  // Up to 32 bytes of a row, from `at` on.
  void put(unsigned tile, int row, std::span<const std::uint8_t> codes, unsigned at = 0) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::size_t linear = static_cast<std::size_t>(row) * 128 + at + i;
      bytes_.at(tile + (linear ^ ((linear >> 7 & 7) << 4))) = codes[i];
    }
  }
  // The same scale for all four steps of k.
  void put_scale(unsigned chunks, int row, std::uint8_t code) {
    const auto r = static_cast<std::size_t>(row % 128);
    const std::size_t word = chunks + static_cast<std::size_t>(row / 128) * 512 + r % 32 * 16 + r / 32 * 4;
    for (std::size_t j = 0; j < 4; ++j) bytes_.at(word + j) = code;
  }
  // Rows of a matrix of E4M3, or of BF16.
  void put_rows(unsigned tile, std::span<const int> values, unsigned at = 0, bool halves = false) {
    std::vector<std::uint8_t> codes(32);
    for (std::size_t row = 0; row < values.size() / 32; ++row) {
      for (std::size_t k = 0; k < 32; ++k) {
        const int v = values[row * 32 + (halves ? k / 2 : k)];
        codes[k] = halves ? static_cast<std::uint8_t>(bf16(v) >> (8 * (k % 2))) : e4m3(v);
      }
      put(tile, static_cast<int>(row), codes, at);
    }
  }
  void put_scales(unsigned chunks, std::span<const int> exponents) {
    for (std::size_t row = 0; row < exponents.size(); ++row) {
      put_scale(chunks, static_cast<int>(row), static_cast<std::uint8_t>(127 + exponents[row]));
    }
  }
  [[nodiscard]] std::vector<std::uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

inline Image image_of(const Operands& o, bool halves = false) {
  Image image(kOperandBytes);
  image.put_rows(kAAt, o.a, 0, halves);
  image.put_rows(kBAt, o.b, 0, halves);
  image.put_scales(kScalesAAt, o.exponents_a);
  image.put_scales(kScalesBAt, o.exponents_b);
  return image;
}

inline std::uint32_t word_of(float value) { return std::bit_cast<std::uint32_t>(value == 0 ? 0.0F : value); }

// Where kernels put the word of a column and lane, of the CTA `rank`.
inline std::size_t cell_at(int lane, int column, int columns, int rank = 0) {
  return (static_cast<std::size_t>(rank) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column)) * 128 +
         static_cast<std::size_t>(lane);
}

}  // namespace mxcheck::sm100::probe

// --- kernels
// The fixture of all probes' kernels, on the thin layer (tcgen05/): an image of shared memory written through the
// generic proxy, 512 columns of tensor memory, one mbarrier for commits. A CTA is kThreads threads.

// Kernels and probes are compiled twice, into one program: with the emulation's bodies and for a card. Each has names
// of its own, so that the linker does not take one for the other.
#if MXCHECK_SM100_EMULATED
  #define MXCHECK_SM100_PROBE_BODY on_the_emulation
#elif MXCHECK_SM100_ON_SM90
  #include "emulation/on_sm90/run.cuh"
  #define MXCHECK_SM100_PROBE_BODY on_sm90
#else
  #define MXCHECK_SM100_PROBE_BODY on_the_device
#endif

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

struct Words4 {
  std::uint32_t w[4];
};

// Places in shared memory, from shared_base() on.
inline constexpr unsigned kSlot = 0;
inline constexpr unsigned kDone = 64;  // a commit's barrier
inline constexpr unsigned kImageAt = 1024;
inline constexpr unsigned kColumns = 512;

// The first and the last of every kernel: where software stands for the tensor core, its threads are behind begin()
// until all that they do is over. Elsewhere nothing.
MXCHECK_SM100_DEVICE void begin([[maybe_unused]] const Arguments& a) {
#if MXCHECK_SM100_ON_SM90
  emulation::on_sm90::enter(*static_cast<const emulation::on_sm90::Launch*>(a.engine), kThreads);
#endif
}
MXCHECK_SM100_DEVICE void end() {
#if MXCHECK_SM100_ON_SM90
  emulation::on_sm90::leave();
#endif
}

template <int kGroup>
MXCHECK_SM100_DEVICE void sync_all() {
  if constexpr (kGroup == 2) {
    cluster_sync();
  } else {
    sync_block();
  }
}

template <int kGroup>
MXCHECK_SM100_DEVICE unsigned rank_in_pair() {
  if constexpr (kGroup == 2) return cluster_rank();
  return 0;
}

template <int kGroup>
inline constexpr Scope kScope = kGroup == 2 ? Scope::cluster : Scope::cta;

// tcgen05.fence on both sides of a barrier of all threads.
template <int kGroup>
MXCHECK_SM100_DEVICE void sync_tensor() {
  fence_before_thread_sync();
  sync_all<kGroup>();
  fence_after_thread_sync();
}

// By all threads. Returns where tensor memory begins.
template <int kGroup>
MXCHECK_SM100_DEVICE TmemAddress open(const Arguments& a) {
  begin(a);
  const SharedAddress base = shared_base();
  const std::uint32_t* image = a.image + static_cast<std::size_t>(rank_in_pair<kGroup>()) * (a.image_bytes / 4);
  for (unsigned i = 16 * thread_index(); i < a.image_bytes; i += 16 * kThreads) {
    const std::uint32_t* from = image + i / 4;
    store_shared(base + kImageAt + i, Words4{{from[0], from[1], from[2], from[3]}});
  }
  fence_proxy_async();
  if (warp_index() == 0) {
    if (elect()) {
      barrier_init(base + kDone, 1);
      fence_barrier_init();
    }
    sync_warp();
  }
  sync_all<kGroup>();
  if (warp_index() == 0) {
    tmem_alloc<kGroup, kColumns>(base + kSlot);
    tmem_relinquish<kGroup>();
  }
  sync_tensor<kGroup>();
  return load_shared<std::uint32_t>(base + kSlot);
}

template <int kGroup>
MXCHECK_SM100_DEVICE void close(TmemAddress tmem) {
  sync_tensor<kGroup>();
  if (warp_index() == 0) tmem_dealloc<kGroup, kColumns>(tmem);
  end();
}

// `issue` by one thread, of the leader where there is a pair; then a commit that all threads wait for, the commit
// number `i` of the kernel. Before the next, a barrier of all threads: a wait knows a phase by its parity.
template <int kGroup, class Issue>
MXCHECK_SM100_DEVICE void issue_and_wait(unsigned i, const Issue& issue) {
  const SharedAddress done = shared_base() + kDone;
  if (warp_index() == 0 && rank_in_pair<kGroup>() == 0) {
    if (elect()) {
      issue();
      if constexpr (kGroup == 2) {
        commit_multicast<2>(done, pair_mask(0));
      } else {
        commit<1>(done);
      }
    }
    sync_warp();
  }
  barrier_wait<kScope<kGroup>>(done, i & 1U);
  sync_warp();  // its threads may leave the wait one by one; what follows is of whole warps
  fence_after_thread_sync();
}

// This warp's lanes.
MXCHECK_SM100_DEVICE TmemAddress slab(TmemAddress at) { return tmem_at(at, warp_index() % 4 * 32, 0); }

// `columns`, a multiple of 4, from `at` on, into out[column][128 lanes].
MXCHECK_SM100_DEVICE void read_cells(TmemAddress at, unsigned columns, std::uint32_t* out) {
  for (unsigned c = 0; c < columns; c += 4) {
    Fragment<4> cells;
    tmem_ld<TmemShape::lanes32x32b, 4>(cells, slab(at) + c);
    tmem_wait_ld(cells);
    MXCHECK_SM100_UNROLL
    for (unsigned i = 0; i < 4; ++i) out[(c + i) * 128 + thread_index()] = cells.r[i];
  }
}
MXCHECK_SM100_DEVICE void write_cells(TmemAddress at, unsigned columns, const std::uint32_t* from) {
  for (unsigned c = 0; c < columns; c += 4) {
    Fragment<4> cells;
    MXCHECK_SM100_UNROLL
    for (unsigned i = 0; i < 4; ++i) cells.r[i] = from[(c + i) * 128 + thread_index()];
    tmem_st<TmemShape::lanes32x32b, 4>(slab(at) + c, cells);
  }
  tmem_wait_st();
}

// A thread's mismatches over many repetitions, whose words the kernel compares, as they are too many to bring back.
struct Mismatches {
  std::uint32_t count = 0;
  std::uint32_t word = 0, column = 0, repetition = 0;  // of the first
};
inline constexpr std::size_t kMismatchWords = 4 * kThreads;

// 128 columns of D with expected[column][128 lanes].
MXCHECK_SM100_DEVICE void compare_cells(TmemAddress d, const std::uint32_t* expected, std::uint32_t repetition,
                                        Mismatches& mismatches) {
  for (unsigned c = 0; c < 128; c += 32) {
    Fragment<32> cells;
    tmem_ld<TmemShape::lanes32x32b, 32>(cells, slab(d) + c);
    tmem_wait_ld(cells);
    MXCHECK_SM100_UNROLL
    for (unsigned i = 0; i < 32; ++i) {
      // Selections, not branches: the next load needs the warp together.
      const bool wrong = cells.r[i] != expected[(c + i) * 128 + thread_index()];
      const bool first = wrong && mismatches.count == 0;
      mismatches.word = first ? cells.r[i] : mismatches.word;
      mismatches.column = first ? c + i : mismatches.column;
      mismatches.repetition = first ? repetition : mismatches.repetition;
      mismatches.count += wrong ? 1 : 0;
    }
  }
}
MXCHECK_SM100_DEVICE void write_mismatches(const Mismatches& mismatches, std::uint32_t* out) {
  const unsigned t = thread_index();
  out[t] = mismatches.count;
  out[kThreads + t] = mismatches.word;
  out[2 * kThreads + t] = mismatches.column;
  out[3 * kThreads + t] = mismatches.repetition;
}

// --- host
inline std::size_t total(const Outcome& outcome) {
  std::size_t sum = 0;
  if (outcome.out.size() < kMismatchWords) return sum;
  for (unsigned t = 0; t < kThreads; ++t) sum += outcome.out[t];
  return sum;
}
inline void add_first_mismatch(Report& report, const Outcome& outcome, const std::vector<std::uint32_t>& expected) {
  for (unsigned t = 0; total(outcome) != 0 && t < kThreads; ++t) {
    if (outcome.out[t] == 0) continue;
    const std::uint32_t column = outcome.out[2 * kThreads + t];
    report.add_evidence("first wrong word of lane " + std::to_string(t),
                        hex(outcome.out[kThreads + t]) + ", right " + hex(expected[column * 128 + t]) + ", column " +
                            std::to_string(column) + ", repetition " + std::to_string(outcome.out[3 * kThreads + t]));
    return;
  }
}

// --- one MMA
// One MMA of one step of k, from the operands' places in the image (operands.h) into D: what probes 3, 5, 6 and 9 to 11
// vary.

// Arguments::variant: a kind, and any of the others.
inline constexpr std::uint32_t kScaledKind = 0, kByteKind = 1, kHalfKind = 2, kFp4Kind = 3, kKindMask = 3;
inline constexpr std::uint32_t kAccumulates = 4;
inline constexpr std::uint32_t kStoresD = 8;        // `words` into D before: [columns][128 lanes]
inline constexpr std::uint32_t kStoresScales = 16;  // `words` by tcgen05.st, not the image's by tcgen05.cp: [12][128]

// Columns: D, A's scales, B's scales.
inline constexpr unsigned kScaleColumnA = 256, kScaleColumnB = 260;

template <int kGroup>
MXCHECK_SM100_KERNEL void one_mma(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  constexpr SharedLayout kRows128 = k_major(Swizzle::b128);
  const SharedAddress image = shared_base() + kImageAt;
  const TmemAddress tmem = open<kGroup>(a);
  const std::uint32_t kind = a.variant & kKindMask;
  if ((a.variant & (kStoresD | kStoresScales)) != 0) {
    if ((a.variant & kStoresD) != 0) {
      write_cells(tmem, a.columns, a.words);
    } else {
      write_cells(tmem + kScaleColumnA, 12, a.words);
    }
    sync_tensor<kGroup>();
  }
  issue_and_wait<kGroup>(0, [&] {
    const bool scaled = kind == kScaledKind || kind == kFp4Kind;
    if (scaled && (a.variant & kStoresScales) == 0) {
      const unsigned chunks[] = {kScalesAAt, kScalesBAt, kScalesBAt + 512};
      for (unsigned i = 0; i < 3; ++i) {
        cp<CpShape::rows32x128b_warpx4, kGroup>(tmem + kScaleColumnA + 4 * i,
                                                shared_descriptor<scale_chunk()>(image + chunks[i]));
      }
    }
    SharedDescriptor rows_a = shared_descriptor<kRows128>(image + kAAt);
    rows_a.bits += a.a_extra;
    const SharedDescriptor rows_b = shared_descriptor<kRows128>(image + kBAt);
    const InstructionDescriptor instruction{a.instruction};
    const bool accumulates = (a.variant & kAccumulates) != 0;
    if (kind == kScaledKind) {
      mma_block_scaled<kGroup>(tmem, rows_a, rows_b, instruction, tmem + kScaleColumnA, tmem + kScaleColumnB,
                               accumulates);
    } else if (kind == kFp4Kind) {
      mma_fp4<MmaKind::mxf4nvf4_block16, kGroup>(tmem, rows_a, rows_b, instruction, tmem + kScaleColumnA,
                                                 tmem + kScaleColumnB, accumulates);
    } else if (kind == kByteKind) {
      mma_f8f6f4<kGroup>(tmem, rows_a, rows_b, instruction, accumulates);
    } else {
      mma_f16<kGroup>(tmem, rows_a, rows_b, instruction, accumulates);
    }
  });
  read_cells(tmem, a.columns, a.out + static_cast<std::size_t>(rank_in_pair<kGroup>()) * a.columns * 128);
  close<kGroup>(tmem);
}

// --- host

// N of a descriptor: what the thin layer takes at compile time alone, as it has no wrong ones.
inline std::uint32_t with_n(InstructionDescriptor i, int n) {
  return (i.bits & ~(0x3FU << 17)) | static_cast<std::uint32_t>(n / 8) << 17;
}

// `columns` is a multiple of 4: N, or N / 2 where a pair's M is 128.
inline Outcome run_one_mma(Launcher& launcher, int group, std::vector<std::uint8_t> image, std::uint32_t instruction,
                           std::uint32_t variant, int columns, std::vector<std::uint32_t> words = {},
                           std::uint64_t a_extra = 0) {
  Launch launch{.kernel = group == 2 ? Kernel{&one_mma<2>} : Kernel{&one_mma<1>},
                .blocks = static_cast<unsigned>(group),
                .cluster = static_cast<unsigned>(group),
                .shared_bytes = kImageAt + kOperandBytes,
                .arguments = {.a_extra = a_extra,
                              .instruction = instruction,
                              .variant = variant,
                              .columns = static_cast<std::uint32_t>(columns)},
                .image = std::move(image),
                .words = std::move(words),
                .out_words = static_cast<std::size_t>(group) * static_cast<std::size_t>(columns) * 128};
  return launcher.run(launch);
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
