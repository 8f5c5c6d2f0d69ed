#pragma once
// The GEMM: MXFP8 with 1x32 by 1x32 scales, NVFP4 with 1x16 by 1x16 scales, BF16, or FP8 whose sums are promoted
// (tile.h); one CTA or a pair for a tile, persistent, warps with roles. One section a role;
// tests/libraries/wrong/sm100.cmake names them.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/sm100/gemm/params.h"
#include "kernels/sm100/gemm/tile.h"
#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/numbers.h"
#include "kernels/sm100/tcgen05/tma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"

namespace mxcheck::sm100::gemm {

// --- schedule
//
// The order of tiles: every CTA or pair takes each `units`-th tile, group by group, so that an expert's weights are
// read by neighbours in time; within a group in bands of 8 tiles of rows, columns outermost, so that a band's rows of A
// stay in L2.
//
// Every role of a CTA walks the same list by itself.

struct Work {
  std::int64_t row = 0;     // first, of A
  std::int64_t rows = 0;    // that are left in the group: those of D that are written
  std::int64_t column = 0;  // first, of D
  std::int64_t row_b = 0;   // first, of B
  std::int64_t row_d = 0;   // first, of D
  std::int64_t k = 0;       // first
  std::int64_t depth = 0;
  std::int64_t chunk_a = 0;  // of 128 rows: first, of the scales of A
  std::int64_t chunk_b = 0;
  std::int64_t chunk_k = 0;  // of 4 scales: first
};

template <Grouping kGrouping, int kM, int kN, int kChunkDepth>
class Schedule {
 public:
  MXCHECK_SM100_DEVICE Schedule(const Params& p, std::int64_t unit, std::int64_t units)
      : p_(p), next_(unit), units_(units) {
    enter();
  }

  // The next tile of this unit, if there is one.
  MXCHECK_SM100_DEVICE bool next(Work& work) {
    while (next_ >= first_ + tiles()) {
      first_ += tiles();
      leave();
      if (++group_ == p_.groups) return false;
      enter();
    }
    const std::int64_t in_group = next_ - first_;
    const std::int64_t band = in_group / (kBand * columns_);
    const std::int64_t in_band = in_group % (kBand * columns_);
    const std::int64_t height = rows_ - band * kBand < kBand ? rows_ - band * kBand : kBand;
    const std::int64_t tile_m = band * kBand + in_band % height;
    const std::int64_t tile_n = in_band / height;
    next_ += units_;
    const bool by_depth = kGrouping == Grouping::depth;
    work.row = begin_ * (by_depth ? 0 : 1) + tile_m * kM;
    work.rows = extent_ - tile_m * kM;
    work.column = tile_n * kN;
    work.row_b = (kGrouping == Grouping::rows ? group_ * p_.n : 0) + work.column;
    work.row_d = (by_depth ? group_ * p_.m : begin_) + tile_m * kM;
    work.k = by_depth ? begin_ : 0;
    work.depth = depth_;
    work.chunk_a = chunk_m_ + tile_m * (kM / 128);
    work.chunk_b = (kGrouping == Grouping::rows ? group_ * ((p_.n + 127) / 128) : 0) + work.column / 128;
    work.chunk_k = chunk_k_;
    return true;
  }

 private:
  static constexpr std::int64_t kBand = 8;

  MXCHECK_SM100_DEVICE std::int64_t tiles() const { return rows_ * columns_; }

  MXCHECK_SM100_DEVICE void enter() {
    if constexpr (kGrouping != Grouping::dense) {
      begin_ = p_.offsets[group_];
      const std::int64_t length = p_.offsets[group_ + 1] - begin_;
      extent_ = kGrouping == Grouping::rows ? length : p_.m;
      depth_ = kGrouping == Grouping::depth ? length : p_.k;
    } else {
      extent_ = p_.m;
      depth_ = p_.k;
    }
    rows_ = (extent_ + kM - 1) / kM;
    columns_ = (p_.n + kN - 1) / kN;
  }
  MXCHECK_SM100_DEVICE void leave() {
    if constexpr (kGrouping == Grouping::rows) chunk_m_ += (extent_ + 127) / 128;
    if constexpr (kGrouping == Grouping::depth) chunk_k_ += (depth_ + kChunkDepth - 1) / kChunkDepth;
  }

  const Params& p_;
  std::int64_t next_, units_;
  std::int64_t group_ = 0, first_ = 0;
  std::int64_t begin_ = 0, extent_ = 0, depth_ = 0;
  std::int64_t rows_ = 0, columns_ = 0;  // tiles of the group
  std::int64_t chunk_m_ = 0, chunk_k_ = 0;
};

// --- load
//
// The thread that loads: A and B by TMA in the swizzle that mma reads, and their scales, into the stages of a ring.

// A place in the ring, and how often it has been passed.
template <int kStages>
struct Ring {
  unsigned stage = 0;
  unsigned round = 0;
  MXCHECK_SM100_DEVICE void step() {
    if (++stage == kStages) {
      stage = 0;
      round ^= 1;
    }
  }
};

// 128 bytes of each of A's rows, where they are gathered, four rows a load. A row past the group's end is row -1, which
// lies outside of the tensor: zeros, which count as all bytes do.
template <class T>
MXCHECK_SM100_DEVICE void load_gathered(const Params& p, SharedAddress to, SharedAddress counts, int k,
                                        const Work& work, unsigned rank) {
  const auto row_of = [&](int i) {
    const std::int64_t row_in_tile = static_cast<std::int64_t>(T::kRows * rank) + i;
    return row_in_tile < work.rows ? p.gathered_rows[work.row + row_in_tile] : -1;
  };
  for (int i = 0; i < T::kRows; i += 4) {
    tma_gather4<T::kCtaGroup>(to + static_cast<unsigned>(i * kTileK), &p.a, counts, k, row_of(i), row_of(i + 1),
                              row_of(i + 2), row_of(i + 3));
  }
}

// By one thread of each CTA. Bytes of both CTAs of a pair count at the leader's barrier, which expects them once; the
// peer's may be there before the leader expects them.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void load(const Params& p, SharedAddress base, std::int64_t unit, std::int64_t units) {
  const unsigned rank = T::kCtaGroup == 2 ? cluster_rank() : 0;
  Schedule<kGrouping, T::kM, T::kN, T::kChunkDepth> schedule(p, unit, units);
  Ring<T::kStages> ring;
  Work work;
  // A tile. `gathers` is a type: each way to load A has a loop over k of its own, without a branch.
  const auto fill = [&](auto gathers) {
    const auto row_a = static_cast<int>(work.row + T::kRows * rank);
    const auto row_b = static_cast<int>(work.row_b + T::kRowsB * rank);
    for (std::int64_t k = 0; k < work.depth; k += T::kDepth) {
      const SharedAddress full = base + T::kFull + 8 * ring.stage;
      const auto stage = static_cast<unsigned>(ring.stage);
      // A ring that nobody has filled is empty: parity 1 passes at once in the first round.
      barrier_wait<T::kCtaGroup == 2 ? Scope::cluster : Scope::cta>(base + T::kEmpty + 8 * ring.stage, ring.round ^ 1);
      if (rank == 0) barrier_arrive_expect<Scope::cta>(full, T::kCtaGroup * T::kStageBytes);
      const SharedAddress counts = T::kCtaGroup == 2 ? map_to_rank(full, 0) : full;
      const auto at = static_cast<int>((work.k + k) / (T::kFp4 ? 2 : 1));  // the maps count bytes of FP4
      const std::int64_t chunk_k = work.chunk_k + k / T::kChunkDepth;
      if constexpr (decltype(gathers)::value) {
        load_gathered<T>(p, base + T::kA + stage * T::kBytesA, counts, at, work, rank);
      } else {
        tma_load<T::kCtaGroup>(base + T::kA + stage * T::kBytesA, &p.a, counts, at, row_a);
      }
      tma_load<T::kCtaGroup>(base + T::kB + stage * T::kBytesB, &p.b, counts, at, row_b);
      if constexpr (T::kScaled)
        tma_load<T::kCtaGroup>(base + T::kScalesA + stage * T::kScaleBytes, &p.scales_a, counts, 0,
                               static_cast<int>((work.chunk_a + rank) * p.chunks_k + chunk_k));
      for (int c = 0; c < T::kChunksB; ++c) {
        tma_load<T::kCtaGroup>(base + T::kScalesB + (stage * T::kChunksB + static_cast<unsigned>(c)) * T::kScaleBytes,
                               &p.scales_b, counts, 0, static_cast<int>((work.chunk_b + c) * p.chunks_k + chunk_k));
      }
      ring.step();
    }
  };
  while (schedule.next(work)) {
    if (kGrouping != Grouping::depth && p.gathered_rows != nullptr) {
      fill(std::true_type{});
    } else {
      fill(std::false_type{});
    }
  }
}

// --- multiply
//
// The thread that multiplies: scales of a stage into tensor memory, then four mma of 32 bytes along k. A step of MXFP8
// reads a byte of its chunk's words, one of NVFP4 the words of a chunk of its own.

// By one thread, of the leader where there is a pair.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void multiply(const Params& p, SharedAddress base, TmemAddress tmem, std::int64_t unit,
                                   std::int64_t units) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  constexpr SharedLayout kRows128 = k_major(Swizzle::b128);
  const auto done = [](SharedAddress barrier) {
    if constexpr (T::kCtaGroup == 2) {
      commit_multicast<2>(barrier, pair_mask(0));
    } else {
      commit<1>(barrier);
    }
  };
  Schedule<kGrouping, T::kM, T::kN, T::kChunkDepth> schedule(p, unit, units);
  Ring<T::kStages> ring;
  Ring<T::kAccumulators> accumulator;
  const auto begin = [&] {
    barrier_wait<kScope>(base + T::kDrained + 8 * accumulator.stage, accumulator.round ^ 1);
    fence_after_thread_sync();
  };
  const auto end = [&] {
    done(base + T::kAccumulated + 8 * accumulator.stage);
    accumulator.step();
  };
  Work work;
  while (schedule.next(work)) {
    if (work.depth == 0) continue;  // D is alpha * 0 + C: nothing is accumulated
    if constexpr (!T::kPromoted) begin();
    for (std::int64_t k = 0; k < work.depth; k += T::kDepth) {
      if constexpr (T::kPromoted) begin();
      const TmemAddress d = tmem + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN);
      const auto stage = static_cast<unsigned>(ring.stage);
      barrier_wait<kScope>(base + T::kFull + 8 * ring.stage, ring.round);
      fence_after_thread_sync();
      const std::int64_t left = work.depth - k;
      const int steps = left < T::kDepth ? static_cast<int>((left + T::kStep - 1) / T::kStep) : T::kDepth / T::kStep;
      const TmemAddress slot = tmem + T::kScaleColumn + stage * T::kSlotColumns;
      for (int q = 0; q < T::kChunksK && q * T::kStepsOfAChunk < steps; ++q) {  // chunks along k that a step reads
        const auto chunk = static_cast<unsigned>(q);
        const TmemAddress scales_a = slot + chunk * T::kChunkColumns;
        const TmemAddress scales_b = scales_a + 4;
        cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
            scales_a,
            shared_descriptor<scale_chunk()>(base + T::kScalesA + stage * T::kScaleBytes + chunk * kChunkBytes));
        for (int c = 0; c < T::kChunksB; ++c) {
          cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
              scales_b + static_cast<unsigned>(4 * c),
              shared_descriptor<scale_chunk()>(base + T::kScalesB +
                                               (stage * T::kChunksB + static_cast<unsigned>(c)) * T::kScaleBytes +
                                               chunk * kChunkBytes));
        }
      }
      const SharedDescriptor a = shared_descriptor<kRows128>(base + T::kA + stage * T::kBytesA);
      const SharedDescriptor b = shared_descriptor<kRows128>(base + T::kB + stage * T::kBytesB);
      // Tiles of 64 and 192 columns begin in the middle of a chunk every second time: 64 rows are two columns.
      const auto rows_of_chunk = static_cast<unsigned>(work.column % 128 / 32);
      for (int i = 0; i < steps; ++i) {
        const auto id = static_cast<unsigned>(i);
        const bool accumulates = (k > 0 && !T::kPromoted) || i > 0;
        const SharedDescriptor step_a = advance(a, kStepK * id);
        const SharedDescriptor step_b = advance(b, kStepK * id);
        const TmemAddress scales_a = slot + id / T::kStepsOfAChunk * T::kChunkColumns;
        const TmemAddress rows_b = scales_a + 4 + rows_of_chunk;
        if constexpr (T::kFp4) {
          mma_fp4<MmaKind::mxf4nvf4_block16, T::kCtaGroup>(d, step_a, step_b, p.instruction, scales_a, rows_b,
                                                           accumulates);
        } else if constexpr (T::kScaled) {
          mma_block_scaled<T::kCtaGroup>(d, step_a, step_b, with_scale_ids(p.instruction, id, id), scales_a, rows_b,
                                         accumulates);
        } else if constexpr (T::kPromoted) {
          mma_f8f6f4<T::kCtaGroup>(d, step_a, step_b, p.instruction, accumulates);
        } else {
          mma_f16<T::kCtaGroup>(d, step_a, step_b, p.instruction, accumulates);
        }
      }
      done(base + T::kEmpty + 8 * ring.stage);
      ring.step();
      if constexpr (T::kPromoted) end();
    }
    if constexpr (!T::kPromoted) end();
  }
}

// --- epilogue
//
// The four warps that write: accumulators out of tensor memory, times alpha, plus C, rounded once to D's type.
// A thread has a row: warp w of a CTA reaches lanes 32 (w % 4) to 32 (w % 4) + 31 alone (PTX ISA 9.0, 9.7.16.2.3.1).

// To nearest even; NaN is 0x7FFF, as the conversion's is.
MXCHECK_SM100_DEVICE std::uint16_t to_bf16(float x) {
#if MXCHECK_SM100_EMULATED
  const std::uint32_t bits = float_bits(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
#else
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#endif
}

// Products and sums each rounded: no FMA, whatever the compiler would like.
MXCHECK_SM100_DEVICE float finish(float sum, float alpha, bool adds, float c) {
#if MXCHECK_SM100_EMULATED
  const float product = alpha * sum;
  const float value = adds ? product + c : product;
  return value == value ? value : float_of(0x7FFFFFFF);  // the one NaN that FMUL and FADD have, whatever the host's
#else
  const float product = __fmul_rn(alpha, sum);
  return adds ? __fadd_rn(product, c) : product;
#endif
}

MXCHECK_SM100_DEVICE float multiply_add(float a, float b, float c) {
#if MXCHECK_SM100_EMULATED
  const float value = std::fma(a, b, c);
  return value == value ? value : float_of(0x7FFFFFFF);
#else
  return __fmaf_rn(a, b, c);
#endif
}

// 32 columns of one row of D, of which `count` exist.
MXCHECK_SM100_DEVICE void write(const Params& p, std::int64_t row, std::int64_t column, int count,
                                const Fragment<32>& sums) {
  const std::int64_t at = row * p.n + column;
  MXCHECK_SM100_UNROLL
  for (int i = 0; i < 32; ++i) {
    if (i >= count) continue;  // not a break: registers are indexed by constants alone
    float c = 0;
    if (p.c != nullptr) {
      c = p.bf16 ? float_of(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(p.c)[at + i]) << 16)
                 : static_cast<const float*>(p.c)[at + i];
    }
    const float value = finish(float_of(sums.r[i]), p.alpha, p.c != nullptr, c);
    if (p.bf16) {
      static_cast<std::uint16_t*>(p.d)[at + i] = to_bf16(value);
    } else {
      static_cast<float*>(p.d)[at + i] = value;
    }
  }
}

// Tells the leader that an accumulator may be overwritten: this thread's loads are over (wait::ld), and the fence
// orders them before the arrival.
template <class T>
MXCHECK_SM100_DEVICE void drained(SharedAddress base, unsigned accumulator) {
  fence_before_thread_sync();
  const SharedAddress barrier = base + T::kDrained + 8 * static_cast<unsigned>(accumulator);
  if constexpr (T::kCtaGroup == 2) {
    barrier_arrive<Scope::cluster>(map_to_rank(barrier, 0));
  } else {
    barrier_arrive<Scope::cta>(barrier);
  }
}

// Accumulates one row: partial sums of 128 along k, each scaled by RN(scale of A * scale of B) and added by an FMA.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void promote(const Params& p, SharedAddress base, TmemAddress lanes, const Work& work,
                                  std::int64_t row_in_tile, Ring<T::kAccumulators>& accumulator, float (&sums)[T::kN]) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  const bool exists = row_in_tile < work.rows;
  const std::int64_t row_of_product = work.row + row_in_tile;
  const bool gathers = kGrouping != Grouping::depth && exists && p.gathered_rows != nullptr;
  const std::int64_t row = gathers ? p.gathered_rows[row_of_product] : row_of_product;
  const std::int64_t expert_rows = kGrouping == Grouping::rows ? (p.n + p.block_b - 1) / p.block_b : 0;
  const std::int64_t expert = kGrouping == Grouping::rows ? work.row_b / p.n : 0;
  for (std::int64_t k = 0; k < work.depth; k += T::kDepth) {
    const std::int64_t block = work.chunk_k + k / T::kDepth;
    const float factor_a = exists ? p.factors_a[row * p.chunks_k + block] : 0;
    barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
    fence_after_thread_sync();
    MXCHECK_SM100_UNROLL
    for (int n = 0; n < T::kN; n += 32) {
      Fragment<32> partial;
      tmem_ld<TmemShape::lanes32x32b, 32>(
          partial, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));
      tmem_wait_ld(partial);
      MXCHECK_SM100_UNROLL
      for (int i = 0; i < 32; ++i) {
        const std::int64_t column = work.column + n + i;
        const float factor_b =
            column < p.n ? p.factors_b[(expert * expert_rows + column / p.block_b) * p.chunks_k + block] : 0;
        sums[n + i] = multiply_add(float_of(partial.r[i]), finish(factor_a, factor_b, false, 0), sums[n + i]);
      }
    }
    drained<T>(base, accumulator.stage);
    accumulator.step();
  }
}

// By the 128 threads of warps 2 to 5 of each CTA.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void epilogue(const Params& p, SharedAddress base, TmemAddress tmem, std::int64_t unit,
                                   std::int64_t units) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  const unsigned rank = T::kCtaGroup == 2 ? cluster_rank() : 0;
  const unsigned slab = warp_index() % 4 * 32;
  const TmemAddress lanes = tmem + (slab << 16);
  const std::int64_t row_in_tile = T::kRows * rank + slab + lane_index();
  Schedule<kGrouping, T::kM, T::kN, T::kChunkDepth> schedule(p, unit, units);
  Ring<T::kAccumulators> accumulator;
  Work work;
  while (schedule.next(work)) {
    [[maybe_unused]] float promoted[T::kPromoted ? T::kN : 1] = {};
    const bool sums_exist = work.depth > 0;
    if constexpr (T::kPromoted) {
      promote<T, kGrouping>(p, base, lanes, work, row_in_tile, accumulator, promoted);
    } else if (sums_exist) {
      barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
      fence_after_thread_sync();
    }
    const bool writes = row_in_tile < work.rows;
    MXCHECK_SM100_UNROLL
    for (int n = 0; n < T::kN; n += 32) {
      Fragment<32> sums;
      if constexpr (T::kPromoted) {
        MXCHECK_SM100_UNROLL
        for (int i = 0; i < 32; ++i) sums.r[i] = float_bits(promoted[n + i]);
      } else if (sums_exist) {
        tmem_ld<TmemShape::lanes32x32b, 32>(
            sums, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));
        tmem_wait_ld(sums);
      } else {
        MXCHECK_SM100_UNROLL
        for (int i = 0; i < 32; ++i) sums.r[i] = 0;
      }
      const std::int64_t column = work.column + n;
      const auto left = static_cast<int>(p.n - column < 32 ? p.n - column : 32);
      if (writes && left > 0) write(p, work.row_d + row_in_tile, column, left, sums);
    }
    if (T::kPromoted || !sums_exist) continue;
    drained<T>(base, accumulator.stage);
    accumulator.step();
  }
}

// --- kernel

template <class T>
MXCHECK_SM100_DEVICE void initialize(SharedAddress base) {
  for (unsigned s = 0; s < T::kStages; ++s) {
    barrier_init(base + T::kFull + 8 * s, 1);   // the leader's expectation; the rest are bytes
    barrier_init(base + T::kEmpty + 8 * s, 1);  // a commit
  }
  for (unsigned s = 0; s < T::kAccumulators; ++s) {
    barrier_init(base + T::kAccumulated + 8 * s, 1);               // a commit
    barrier_init(base + T::kDrained + 8 * s, 128 * T::kCtaGroup);  // every thread of the epilogues
  }
  fence_barrier_init();
}

template <class T>
MXCHECK_SM100_DEVICE void sync_all() {
  if constexpr (T::kCtaGroup == 2) {
    cluster_sync();
  } else {
    sync_block();
  }
}

// The kernel's body, which every thread runs. For tiles of a CTA pair the cluster is 2 CTAs.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void gemm(const Params& p) {
  const SharedAddress base = shared_base();
  const unsigned warp = warp_index();
  const std::int64_t unit = block_index() / T::kCtaGroup;
  const std::int64_t units = grid_blocks() / T::kCtaGroup;
  if (warp == 0) {
    role("load");
    if (elect()) {
      prefetch_map(&p.a);
      prefetch_map(&p.b);
      initialize<T>(base);
    }
    sync_warp();
  }
  // A pair's allocation needs both CTAs to be there.
  sync_all<T>();
  if (warp == 1) {
    role("multiply");
    tmem_alloc<T::kCtaGroup, T::kColumns>(base + T::kSlot);
    tmem_relinquish<T::kCtaGroup>();
  }
  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  const TmemAddress tmem = load_shared<std::uint32_t>(base + T::kSlot);
  if (warp == 0) {
    if (elect()) load<T, kGrouping>(p, base, unit, units);
    sync_warp();
  } else if (warp == 1) {
    if ((T::kCtaGroup == 1 || cluster_rank() == 0) && elect()) multiply<T, kGrouping>(p, base, tmem, unit, units);
    sync_warp();
  } else {
    role("epilogue");
    epilogue<T, kGrouping>(p, base, tmem, unit, units);
  }
  // Everything is over in both CTAs: commits that arrive at the peer's barriers, loads of tensor memory.
  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  if (warp == 1) tmem_dealloc<T::kCtaGroup, T::kColumns>(tmem);
}

}  // namespace mxcheck::sm100::gemm
