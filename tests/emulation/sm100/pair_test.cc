// Two CTAs that multiply together (PTX ISA 9.0, 9.7.16.5): what each must wait for of the other, and scales that must
// be equal.

#include <array>
#include <bit>
#include <cstring>

#include "kernels/sm100/tcgen05/tma.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

TEST(Pair, scales_of_b_that_differ_between_the_ctas_are_found) {
  expect_fault(
      kPair, Hazard::scale_copies,
      {"cta 0 warp 0 lane 0 (mma)", "tcgen05.mma.cta_group::2", "scales of B differ between the CTAs", "in both"}, [] {
        const TmemAddress tmem = open<2>({1});
        if (cluster_rank() == 1) {
          fill(kScalesB, 512, 0x80808080);
          fence_proxy_async();
        }
        cluster_sync();
        if (cluster_rank() == 0 && elect()) {
          role("mma");
          cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn, chunk(kScalesA));
          cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn + 4, chunk(kScalesB));
          mma_block_scaled<2>(tmem, matrix(kA), matrix(kB), kPairScaledMma, tmem + kScaleColumn,
                              tmem + kScaleColumn + 4, false);
          commit_multicast<2>(barrier(0), 0b11);
        }
        close_after<Scope::cluster, 2>(barrier(0), 0, tmem);
      });
}
// All four partitions of 32 lanes hold the same scales: cp without .warpx4 does not do that.
TEST(Pair, scales_that_differ_between_partitions_are_found) {
  expect_fault({.threads = 128, .shared_bytes = kSmallBytes}, Hazard::scale_copies,
               {"cta 0 warp 0 lane 0 (mma)", "tcgen05.mma", "scales of A of row 0: partitions 0 and 2 of cta 0 differ",
                "cp.32x128b.warpx4"},
               [] {
                 const TmemAddress tmem = open({1});
                 const std::uint32_t scale = warp_index() < 2 ? kScales : 0x7E7E7E7E;
                 Fragment<8> words;
                 for (unsigned i = 0; i < 8; ++i) words.r[i] = i < 4 ? scale : kScales;
                 tmem_st<TmemShape::lanes32x32b, 8>(slab(tmem, kScaleColumn), words);
                 tmem_wait_st();
                 fence_before_thread_sync();
                 sync_block();
                 fence_after_thread_sync();
                 if (warp_index() == 0) {
                   role("mma");
                   if (elect()) {
                     small_scaled_mma(tmem);
                     commit<1>(barrier(0));
                   }
                 }
                 close_after<Scope::cta>(barrier(0), 0, tmem);
               });
}
// 128 rows of scales in lanes 0 to 31 alone.
TEST(Pair, scales_in_one_partition_are_found) {
  expect_fault({.threads = 32, .shared_bytes = kSmallBytes}, Hazard::uninitialized,
               {"(mma)", "scales of A: column 32, lane 32", "into all four partitions"}, [] {
                 const TmemAddress tmem = open({1});
                 tmem_st<TmemShape::lanes32x32b, 8>(tmem + kScaleColumn, {});
                 tmem_wait_st();
                 role("mma");
                 by_elected([&] { small_scaled_mma(tmem); });
               });
}

// The leader waits for the peer's data too (CUTLASS #3643, #3647): its own barrier counts its own bytes alone.
TEST(Pair, the_leader_knows_that_the_peers_data_have_landed) {
  alignas(16) static std::array<std::uint32_t, 128> scales{};
  scales.fill(kScales);
  const auto kernel = [](bool waits) {
    const TmemAddress tmem = open<2>({1, 1, 1});
    role(cluster_rank() == 0 ? "leader" : "peer");
    if (elect()) {
      barrier_arrive_expect<Scope::cta>(barrier(0), 512);
      bulk_load(shared_base() + kScalesA, scales.data(), 512, barrier(0));
    }
    cluster_sync();  // both are under way
    by_elected([&] {
      barrier_wait<Scope::cluster>(barrier(0), 0);
      if (cluster_rank() == 1) barrier_arrive<Scope::cluster>(map_to_rank(barrier(1), 0));
      if (cluster_rank() == 0) {
        if (waits) barrier_wait<Scope::cluster>(barrier(1), 0);
        cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn, chunk(kScalesA));
        commit_multicast<2>(barrier(2), 0b11);
      }
    });
    close_after<Scope::cluster, 2>(barrier(2), 0, tmem);
  };
  expect_needed(kPair, kernel, Hazard::not_complete,
                {"cta 0 warp 0 lane 0 (leader)", "tcgen05.cp.cta_group::2", "of shared memory of cta 1",
                 "a wait for the barrier of that load"});
}

TEST(Pair, the_leaders_commit_is_acquired_at_cluster_scope) {
  const auto kernel = [](bool cluster) {
    const TmemAddress tmem = open<2>({1});
    if (cluster_rank() == 0 && elect()) {
      mma_f8f6f4<2>(tmem, matrix(kA), matrix(kB), kPairMma, false);
      commit_multicast<2>(barrier(0), pair_mask(0));
    }
    role("read");
    cluster ? wait_and_fence<Scope::cluster>(barrier(0), 0) : barrier_wait<Scope::cta>(barrier(0), 0);
    const std::uint32_t word = load_column(tmem);
    if (cluster) {
      EXPECT_EQ(word, kSum32);
    }
    close<2>(tmem);
  };
  expect_needed(kPair, kernel, Hazard::not_complete,
                {"cta 1 warp 0", "(read)", "tcgen05.ld.32x32b.x1", "column 0, lane 0", ".acquire.cluster"});
}
// Who is gone (triton #9413, #10409).
TEST(Pair, both_ctas_stay_until_the_last_commit) {
  const auto kernel = [](bool stays, std::uint16_t mask) {
    init_barriers({1});
    fill(kScalesA, 512, kScales);
    fence_proxy_async();
    cluster_sync();
    tmem_alloc<2, 32>(shared_base());
    tmem_relinquish<2>();
    cluster_sync();
    const auto tmem = load_shared<std::uint32_t>(shared_base());
    if (cluster_rank() == 0 && elect()) {
      role("copy");
      cp<CpShape::rows32x128b_warpx4, 2>(tmem, chunk(kScalesA));
      commit_multicast<2>(barrier(0), mask);
    }
    sync_warp();
    cluster_sync();
    if (cluster_rank() == 0 || stays) wait_and_fence<Scope::cluster>(barrier(0), 0);
    fence_before_thread_sync();
    if (stays) cluster_sync();
    fence_after_thread_sync();
    if (stays || cluster_rank() == 0) tmem_dealloc<2, 32>(tmem);
  };
  expect_right(kPair, with(kernel, true, 0b11));
  const LaunchOptions lazy{.schedule = Schedule::lazy};
  expect_fault_under(lazy, kPair, Hazard::exit,
                     {"cta 0 warp 0 lane 0 (copy)", "tcgen05.commit", "a commit arrives at cta 1, which has ended"},
                     with(kernel, false, 0b11));
  expect_fault_under(
      lazy, kPair, Hazard::exit,
      {"cta 0 warp 0 lane 0 (copy)", "tcgen05.cp", "it executes after cta 1 has ended", "every CTA of the pair"},
      with(kernel, false, 0b01));
  expect_fault_under({}, kPair, Hazard::deadlock,
                     {"cta 0 warp 0 lane 0", "tcgen05.dealloc", "the other CTA of the pair"},
                     with(kernel, false, 0b01));
}
TEST(Pair, nothing_is_issued_to_a_cta_that_has_ended) {
  const auto kernel = [](const std::function<void()>& leader) {
    return [leader] {
      init_barriers({1});
      cluster_sync();
      if (cluster_rank() == 1) return;
      cluster_sync();  // of those that are left
      if (elect()) leader();
    };
  };
  expect_fault(kPair, Hazard::exit, {"cta 0 warp 0 lane 0", "tcgen05.mma", "cta 1 of the pair has ended", "both run"},
               kernel([] { mma_f8f6f4<2>(0, matrix(kA), matrix(kB), kPairMma, false); }));
  expect_fault(kPair, Hazard::exit,
               {"mbarrier.arrive", "shared memory of cta 1, which has ended", "a barrier of the cluster before"},
               kernel([] { barrier_arrive<Scope::cluster>(map_to_rank(barrier(0), 1)); }));
}

TEST(Pair, both_ctas_allocate_and_free_alike) {
  expect_fault(kPair, Hazard::collective,
               {"cta 1 warp 0 lane 0", "tcgen05.alloc.cta_group::2", "calls for 64 columns while rank 0 waits with 32"},
               [] { cluster_rank() == 0 ? tmem_alloc<2, 32>(shared_base()) : tmem_alloc<2, 64>(shared_base()); });
  expect_fault({.blocks = 2, .threads = 64, .cluster = 2, .shared_bytes = 64}, Hazard::collective,
               {"tcgen05.alloc.cta_group::2", "one warp of each CTA of the pair"}, [] {
                 if (cluster_rank() == 0) tmem_alloc<2, 32>(shared_base() + 8 * warp_index());
                 cluster_sync();
               });
}

// --- bits
// An MMA of two CTAs (PTX ISA 9.0, 9.7.16.5): which half of A, B and D is whose, to the bit.

constexpr LaunchShape kPairOfFourWarps{.blocks = 2, .threads = 128, .cluster = 2, .shared_bytes = kSmallBytes};

constexpr auto kHalf = instruction_descriptor<ByteInstruction{.m = 128, .n = kPairN, .cta_group = 2}>();

// Whole numbers in E4M3, so that every sum is exact: 1 to 8 by the element's place.
constexpr std::array<std::uint8_t, 8> kCodes{0x38, 0x40, 0x44, 0x48, 0x4A, 0x4C, 0x4E, 0x50};
constexpr unsigned a_at(unsigned row, unsigned k) { return (row * 3 + row / 128 * 5 + k) % 8; }
constexpr unsigned b_at(unsigned n, unsigned k) { return (n * 5 + n / 16 * 3 + k * k) % 8; }
constexpr unsigned scale_a(unsigned row) { return 127 + row % 3 + row / 128; }
constexpr unsigned scale_b(unsigned n) { return 127 - n % 2; }
float right(unsigned row, unsigned n, bool scaled) {
  unsigned sum = 0;
  for (unsigned k = 0; k < 32; ++k) sum += (a_at(row, k) + 1) * (b_at(n, k) + 1);
  if (!scaled) return static_cast<float>(sum);
  return static_cast<float>(sum) * static_cast<float>(1U << (scale_a(row) - 127)) /
         static_cast<float>(1U << (127 - scale_b(n)));
}

// Rows of 32 bytes, swizzled by 32: row r, byte k.
constexpr unsigned in_rows(unsigned r, unsigned k) { return r * 32 + (k ^ r / 4 % 2 * 16); }

// Each CTA's rows of A and B, and its scales, by all threads of warp 0.
void fill_operands(unsigned rows_a) {
  const unsigned rank = cluster_rank();
  const auto put = [](unsigned at, unsigned bytes, const auto& byte_of) {
    std::vector<std::uint8_t> bytes_there(bytes);
    byte_of(bytes_there);
    for (unsigned i = 4 * lane_index(); i < bytes; i += 128) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes_there.data() + i, 4);
      store_shared(shared_base() + at + i, word);
    }
  };
  put(kA, rows_a * 32, [&](auto& to) {
    for (unsigned r = 0; r < rows_a; ++r) {
      for (unsigned k = 0; k < 32; ++k) to[in_rows(r, k)] = kCodes[a_at(r + rows_a * rank, k)];
    }
  });
  put(kB, kPairN / 2 * 32, [&](auto& to) {
    for (unsigned r = 0; r < kPairN / 2; ++r) {
      for (unsigned k = 0; k < 32; ++k) to[in_rows(r, k)] = kCodes[b_at(r + kPairN / 2 * rank, k)];
    }
  });
  // 128 x 4 chunks: row r at 16 * (r % 32) + 4 * (r / 32), one byte a step of k. All n rows of B's are in both CTAs.
  put(kScalesA, 512, [&](auto& to) {
    for (unsigned r = 0; r < 128; ++r)
      to[r % 32 * 16 + r / 32 * 4] = static_cast<std::uint8_t>(scale_a(r + 128 * rank));
  });
  put(kScalesB, 512, [&](auto& to) {
    for (unsigned r = 0; r < kPairN; ++r) to[r % 32 * 16 + r / 32 * 4] = static_cast<std::uint8_t>(scale_b(r));
  });
  fence_proxy_async();
}

enum class Form : std::uint8_t { wide, half, scaled };

void multiply_as_a_pair(Form form) {
  const unsigned rows_a = form == Form::half ? 64 : 128;
  std::array<std::array<std::uint32_t, 32>, 256> d{};
  expect_right(
      kPairOfFourWarps,
      [&] {
        const TmemAddress tmem = open<2>({1});
        if (warp_index() == 0) {
          fill_operands(rows_a);
          sync_warp();
        }
        cluster_sync();
        if (cluster_rank() == 0 && warp_index() == 1) {
          role("mma");
          by_elected([&] {
            if (form == Form::scaled) {
              cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn, chunk(kScalesA));
              cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn + 4, chunk(kScalesB));
              mma_block_scaled<2>(tmem, matrix(kA), matrix(kB), kPairScaledMma, tmem + kScaleColumn,
                                  tmem + kScaleColumn + 4, false);
            } else {
              mma_f8f6f4<2>(tmem, matrix(kA), matrix(kB), form == Form::half ? kHalf : kPairMma, false);
            }
            commit_multicast<2>(barrier(0), pair_mask(0));
          });
        }
        wait_and_fence<Scope::cluster>(barrier(0), 0);
        auto& row = d[128 * cluster_rank() + thread_index()];
        const auto read = [&]<int kColumns>(Fragment<kColumns> words) {
          tmem_ld<TmemShape::lanes32x32b, kColumns>(words, slab(tmem));
          tmem_wait_ld(words);
          std::copy_n(words.r, kColumns, row.begin());
        };
        form == Form::half ? read(Fragment<kPairN / 2>{}) : read(Fragment<kPairN>{});
        close<2>(tmem);
      },
      [&] {
        for (unsigned row = 0; row < 2 * rows_a; ++row) {
          for (unsigned n = 0; n < kPairN; ++n) {
            // Layouts A and B (9.7.16.10.5): with M = 128 the second half of the columns is 64 lanes further.
            const unsigned cta = row / rows_a;
            const std::uint32_t got = form == Form::half ? d[128 * cta + row % 64 + 64 * (n / 16)][n % 16] : d[row][n];
            ASSERT_EQ(got, std::bit_cast<std::uint32_t>(right(row, n, form == Form::scaled))) << row << " " << n;
          }
        }
        d = {};
      });
}
TEST(PairBits, an_mma_of_256_rows_is_each_ctas_half_of_a_by_both_halves_of_b) { multiply_as_a_pair(Form::wide); }
TEST(PairBits, an_mma_of_128_rows_has_64_in_each_cta) { multiply_as_a_pair(Form::half); }
TEST(PairBits, scales_are_copied_in_both_ctas_each_from_its_own_memory) { multiply_as_a_pair(Form::scaled); }

}  // namespace
}  // namespace mxcheck::sm100::test
