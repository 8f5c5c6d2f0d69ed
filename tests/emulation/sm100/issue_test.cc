// Who may issue tcgen05.mma, cp and commit, and with which descriptors (PTX ISA 9.0, 9.7.16).

#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

constexpr LaunchShape kAlone{.blocks = 1, .threads = 32, .cluster = 1, .shared_bytes = kSmallBytes};

TEST(Issue, the_even_cta_issues) {
  expect_fault(
      kPair, Hazard::issue,
      {"cta 1 warp 0 lane 0 (peer)", "tcgen05.mma.cta_group::2", "the CTA of odd rank 1", "the even-ranked CTA"}, [] {
        const TmemAddress tmem = open<2>({1});
        if (cluster_rank() == 1 && elect()) {
          role("peer");
          mma_f8f6f4<2>(tmem, matrix(kA), matrix(kB), kPairMma, false);
          commit_multicast<2>(barrier(0), 0b11);
        }
        close_after<Scope::cluster, 2>(barrier(0), 0, tmem);
      });
}
TEST(Issue, one_cta_group_for_a_kernel) {
  expect_fault(
      kPair, Hazard::issue,
      {"cta 0 warp 0 lane 0", "tcgen05.mma.cta_group::1", "cta_group::1 after cta_group::2", "one cta_group for all"},
      [] {
        const TmemAddress tmem = open<2>({1});
        if (cluster_rank() == 0 && elect()) {
          small_mma(tmem);
          commit<2>(barrier(0));
          wait_and_fence<Scope::cluster>(barrier(0), 0);
        }
        sync_warp();
        close<2>(tmem);
      });
  expect_fault(kPair, Hazard::issue, {"tcgen05.commit.cta_group::1", "cta_group::1 after cta_group::2"}, [] {
    const TmemAddress tmem = open<2>({1});
    if (cluster_rank() == 0 && elect()) {
      mma_f8f6f4<2>(tmem, matrix(kA), matrix(kB), kPairMma, false);
      commit<1>(barrier(0));
    }
    sync_warp();
  });
  expect_fault(kAlone, Hazard::issue, {"tcgen05.alloc.cta_group::2", "without a pair", "a cluster of an even size"},
               [] { tmem_alloc<2, 32>(shared_base()); });
  expect_fault(kAlone, Hazard::issue, {"tcgen05.mma.cta_group::2", "without a pair"}, [] {
    if (elect()) mma_f8f6f4<2>(0, matrix(kA), matrix(kB), kPairMma, false);
  });
}

TEST(Issue, the_commits_mask_is_of_the_cluster) {
  expect_fault(kPair, Hazard::address, {"cta 0 warp 0 lane 0", "tcgen05.commit", "rank 2", "below 2"}, [] {
    open<2>({1});
    if (cluster_rank() == 0 && elect()) {
      cp<CpShape::rows32x128b_warpx4, 2>(0, chunk(kScalesA));
      commit_multicast<2>(barrier(0), pair_mask(2));
    }
    cluster_sync();
  });
}
TEST(Issue, who_commits_has_issued) {
  expect_fault(
      {.threads = 64, .shared_bytes = kSmallBytes}, Hazard::issue,
      {"warp 1 lane 0 (commit)", "tcgen05.commit", "this thread has issued no tcgen05 operation", "tracks its own"},
      [] {
        const TmemAddress tmem = open({1});
        if (warp_index() == 0 && elect()) small_mma(tmem);
        sync_block();
        if (warp_index() == 1) {
          role("commit");
          if (elect()) commit<1>(barrier(0));
        }
        sync_block();
      });
}
TEST(Issue, one_lane_of_a_warp_issues) {
  expect_fault({.threads = 32, .shared_bytes = kSmallBytes}, Hazard::issue,
               {"warp 0 lane", "tcgen05.mma", "of the same warp has issued", "one elected lane"}, [] {
                 const TmemAddress tmem = open({1});
                 if (lane_index() < 2) small_mma(tmem);
                 sync_warp();
               });
}

TEST(Issue, forms_that_are_not_modelled_are_unknown) {
  expect_fault(kPair, Hazard::unknown, {"tcgen05.mma", "a pair's M of 128 with scales", "M = 256"}, [] {
    constexpr auto kNarrow = instruction_descriptor<ScaledInstruction{.m = 128, .n = 32, .cta_group = 2}>();
    const TmemAddress tmem = open<2>({1});
    if (cluster_rank() == 0 && elect()) {
      mma_block_scaled<2>(tmem, matrix(kA), matrix(kB), kNarrow, tmem + kScaleColumn, tmem + kScaleColumn + 4, false);
    }
    cluster_sync();
  });
  const auto issues = [](const std::function<void(TmemAddress)>& issue) {
    return [issue] {
      const TmemAddress tmem = open({1});
      by_elected([&] { issue(tmem); });
    };
  };
  expect_fault(kAlone, Hazard::unknown, {"tcgen05.mma", "D begins at lane 16", "lane 0"},
               issues([](TmemAddress t) { small_mma(t + (16 << 16)); }));
  expect_fault(kAlone, Hazard::unknown, {"tcgen05.cp", "a copy to lane 32", "lane 0"},
               issues([](TmemAddress t) { small_cp(t + (32 << 16)); }));
  expect_fault(kAlone, Hazard::unknown, {"tcgen05.mma", "scales of A at lane 0, bits 31:30 = 1", "the ids"},
               issues([](TmemAddress t) {
                 mma_block_scaled<1>(t, matrix(kA), matrix(kB), kSmallScaled, t + 32 + (1U << 30), t + 36, false);
               }));
  // Values that the two descriptors (instruction, matrix) cannot have.
  expect_fault(
      kAlone, Hazard::descriptor, {"warp 0 lane 0", "tcgen05.mma", "bits 22:17 = 0"},
      issues([](TmemAddress t) { mma_f8f6f4<1>(t, matrix(kA), matrix(kB), {kSmall.bits & ~(63U << 17)}, false); }));
  expect_fault(kAlone, Hazard::descriptor, {"tcgen05.mma", "bits 28:24 = 16 makes M 256"}, issues([](TmemAddress t) {
                 mma_f8f6f4<1>(t, matrix(kA), matrix(kB), {(kSmall.bits & ~(31U << 24)) | 16U << 24}, false);
               }));
  expect_fault(
      kAlone, Hazard::descriptor, {"tcgen05.mma", "A: matrix descriptor: bits 48:46 = 0", "Hopper"},
      issues([](TmemAddress t) { mma_f8f6f4<1>(t, {matrix(kA).bits & ~(7ULL << 46)}, matrix(kB), kSmall, false); }));
  expect_fault(
      kAlone, Hazard::descriptor, {"tcgen05.mma", "B: matrix descriptor: bits 63:61 = 7 is no swizzle"},
      issues([](TmemAddress t) { mma_f8f6f4<1>(t, matrix(kA), {matrix(kB).bits | 7ULL << 61}, kSmall, false); }));
  expect_fault(kAlone, Hazard::descriptor, {"tcgen05.mma", "A: the operand starts at", "a 32-byte swizzle"},
               issues([](TmemAddress t) { mma_f8f6f4<1>(t, advance(matrix(kA), 32), matrix(kB), kSmall, false); }));
  expect_fault(kAlone, Hazard::descriptor, {"tcgen05.mma", "A: the operand reads", "shared memory has"},
               issues([](TmemAddress t) { mma_f8f6f4<1>(t, matrix(kScalesA), matrix(kB), kSmall, false); }));
  expect_fault(kAlone, Hazard::descriptor, {"tcgen05.cp", "the copy reads", "shared memory has"},
               issues([](TmemAddress t) { cp<CpShape::rows128x128b, 1>(t, chunk(kScalesB)); }));
}

}  // namespace
}  // namespace mxcheck::sm100::test
