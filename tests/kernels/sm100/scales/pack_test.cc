// Packed scales against the layout's formula (reference/quantize/scale_layout.h), byte by byte, padding included.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/sm100/gemm/emulated.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck::sm100::scales {
namespace {

using emulation::sm100::LaunchOptions, emulation::sm100::Schedule;
using Lengths = std::vector<std::int64_t>;

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

std::vector<std::int64_t> offsets_of(const Lengths& lengths) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

// Right bytes: every group of rows and of depth has a layout of its own; those of the groups of depth lie side by side.
std::vector<std::uint8_t> expected(const Lengths& rows, const Lengths& depth, const std::vector<std::uint8_t>& compact,
                                   const std::vector<std::int32_t>& index, std::int64_t scale_block) {
  std::int64_t columns = 0, chunks_k = 0;
  for (const std::int64_t k : depth) columns += up(k, scale_block), chunks_k += up(k, 4 * scale_block);
  std::vector<std::uint8_t> bytes;
  std::int64_t row = 0;
  for (const std::int64_t r : rows) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + static_cast<std::size_t>(up(r, 128) * chunks_k * 512));
    for (std::int64_t i = 0; i < r; ++i, ++row) {
      const std::int64_t from = index.empty() ? row : index[static_cast<std::size_t>(row)];
      std::int64_t block = 0, chunk = 0;
      for (const std::int64_t k : depth) {
        for (std::int64_t j = 0; j < up(k, scale_block); ++j) {
          const std::int64_t alone = layout_offset(ScaleLayout::tcgen05, i, j, r, up(k, scale_block));
          // Chunks of the rows before are elsewhere.
          const std::int64_t in_row = alone - i / 128 * up(k, 4 * scale_block) * 512;
          bytes[begin + static_cast<std::size_t>((i / 128 * chunks_k + chunk) * 512 + in_row)] =
              compact[static_cast<std::size_t>(from * columns + block + j)];
        }
        block += up(k, scale_block), chunk += up(k, 4 * scale_block);
      }
    }
  }
  return bytes;
}

void expect_packed(const Lengths& rows, const Lengths& depth, std::int64_t source_rows = 0,
                   std::int64_t scale_block = kBlock) {
  const std::vector<std::int64_t> row_offsets = offsets_of(rows);
  const std::vector<std::int64_t> depth_offsets = offsets_of(depth);
  PackJob job;
  job.rows = {row_offsets.data(), static_cast<std::int64_t>(rows.size()), 0};
  job.depth = {depth_offsets.data(), static_cast<std::int64_t>(depth.size()), 0};
  job.block = scale_block;
  job.columns = job.depth.pieces(scale_block), job.chunks_k = job.depth.pieces(scale_block * kChunkScales);
  std::mt19937_64 random(7);
  std::vector<std::int32_t> index;
  if (source_rows > 0) {
    for (std::int64_t i = 0; i < row_offsets.back(); ++i) {
      index.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(source_rows)));
    }
    job.index = index.data();
  }
  const std::int64_t all = source_rows > 0 ? source_rows : row_offsets.back();
  std::vector<std::uint8_t> compact(static_cast<std::size_t>(all * job.columns));
  for (std::uint8_t& scale : compact) scale = static_cast<std::uint8_t>(1 + random() % 255);
  job.compact = compact.data();
  const std::vector<std::uint8_t> right = expected(rows, depth, compact, index, scale_block);
  for (const Schedule schedule : {Schedule::eager, Schedule::random}) {
    std::vector<std::uint32_t> words(right.size() / 4 + 1, 0xA5A5A5A5);  // one more, which stays
    job.chunks = words.data();
    const auto result = pack_emulated(job, LaunchOptions{.schedule = schedule, .seed = 3});
    EXPECT_TRUE(result.completed && result.findings.empty()) << result.dump;
    EXPECT_EQ(words.back(), 0xA5A5A5A5);
    for (std::size_t i = 0; i < right.size(); ++i) {
      ASSERT_EQ(words[i / 4] >> (i % 4 * 8) & 0xFFU, right[i]) << "byte " << i;
    }
  }
}

TEST(Sm100Pack, a_matrix_has_the_formulas_bytes) {
  expect_packed({128}, {128});
  expect_packed({1}, {1});
  expect_packed({129}, {160});
  expect_packed({300}, {1000});
}

TEST(Sm100Pack, groups_begin_chunks_of_their_own) {
  expect_packed({0, 1, 130, 0, 128, 40}, {200});
  expect_packed({140}, {0, 32, 31, 385, 0, 16});
}

TEST(Sm100Pack, blocks_of_16_fill_a_chunk_with_64_of_k) {
  expect_packed({129}, {64}, 0, 16);
  expect_packed({0, 1, 130}, {200}, 0, 16);
  expect_packed({140}, {0, 16, 17, 385, 0, 64}, 0, 16);
  expect_packed({5, 130}, {96}, 17, 16);
}

TEST(Sm100Pack, rows_are_gathered) { expect_packed({5, 130}, {96}, 17); }

TEST(Sm100Pack, nothing_is_written_of_nothing) {
  expect_packed({}, {128});
  expect_packed({0, 0}, {128});
  expect_packed({128}, {0});
}

TEST(Sm100Pack, groups_of_one_length_are_those_of_their_offsets) {
  const Groups experts{nullptr, 3, 72};
  EXPECT_EQ(experts.begin(2), 144);
  EXPECT_EQ(experts.length(2), 72);
  EXPECT_EQ(experts.pieces(kChunkRows), 3);
  EXPECT_EQ((Groups{nullptr, 1, 300}.pieces(kChunkRows)), 3);
}

}  // namespace
}  // namespace mxcheck::sm100::scales
