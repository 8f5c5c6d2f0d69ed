// An MMA of two CTAs (PTX ISA 9.0, 9.7.16.5): which half of A, B and D is whose, to the bit.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

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
          if (elect()) {
            if (form == Form::scaled) {
              cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn, chunk(kScalesA));
              cp<CpShape::rows32x128b_warpx4, 2>(tmem + kScaleColumn + 4, chunk(kScalesB));
              mma_block_scaled<2>(tmem, matrix(kA), matrix(kB), kPairScaledMma, tmem + kScaleColumn,
                                  tmem + kScaleColumn + 4, false);
            } else {
              mma_f8f6f4<2>(tmem, matrix(kA), matrix(kB), form == Form::half ? kHalf : kPairMma, false);
            }
            commit_multicast<2>(barrier(0), pair_mask(0));
          }
          sync_warp();
        }
        barrier_wait<Scope::cluster>(barrier(0), 0);
        fence_after_thread_sync();
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
