// Reciprocals of the Hopper library against the device's own, of every mantissa with exponents from end to end. Tiles
// of experts' rows, and the check of their offsets, of as many experts as the gate has, and of more than a block has
// threads. Needs a GPU; without one every test is skipped.

#include "kernels/sm90/nvfp4/groups.h"

#include "kernels/sm90/nvfp4/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ios>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/nvfp4/reciprocal_device.h"

namespace mxcheck::test {
namespace {

using namespace mxcheck_kernels::sm90;
using Offsets = std::vector<std::int64_t>;

constexpr std::int64_t kCols = 100;  // of which a row of tiles of 128 x 4 scales is two
constexpr std::int64_t kBytesOfTile = 2 * 512;

// Experts without rows, of one, of whole tiles, and of any number below 300.
Offsets offsets_of(int experts) {
  std::mt19937 random{1};
  Offsets offsets{0};
  for (int e = 0; e < experts; ++e) {
    const std::int64_t some[] = {0, 1, 16, 128, static_cast<std::int64_t>(random() % 300)};
    offsets.push_back(offsets.back() + some[random() % 5]);
  }
  return offsets;
}

std::vector<GroupTile> tiles_of(const Offsets& offsets, bool tiled) {
  const std::int64_t height = tiled ? 128 : 16;
  std::vector<GroupTile> tiles;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    for (std::int64_t row = offsets[e]; row < offsets[e + 1]; row += height)
      tiles.push_back({row, std::min(height, offsets[e + 1] - row)});
  }
  return tiles;
}

// The device's table for offsets of so many rows, beside scales that are too many by `by`.
struct Made {
  std::vector<GroupTile> tiles;
  mxcheck_device_report report = {};
};
Made make(const Offsets& offsets, std::int64_t rows, bool tiled, std::int64_t needed, std::int64_t by) {
  const Input<std::int64_t> input(offsets);
  const Input<mxcheck_device_report> report(std::vector<mxcheck_device_report>(1));
  GroupsJob job{.offsets = input.data(), .experts = static_cast<std::int64_t>(offsets.size()) - 1, .rows = rows};
  job.cols = kCols, job.tiled = tiled, job.claimed = needed * (tiled ? kBytesOfTile : 1) + by;
  job.report = const_cast<mxcheck_device_report*>(report.data());
  const Output<GroupTile> table(static_cast<std::int64_t>(table_bytes(job) / sizeof(GroupTile)));
  GroupTable made;
  EXPECT_EQ(done(make_groups(job, table.data(), made, nullptr)), cudaSuccess);
  Made result{table.read()};
  EXPECT_EQ(cudaMemcpy(&result.report, job.report, sizeof(result.report), cudaMemcpyDeviceToHost), cudaSuccess);
  return result;
}

// All of the table is written: tiles that are not there have no rows.
void expect_tiles(const std::vector<GroupTile>& right, const std::vector<GroupTile>& made, const std::string& what) {
  ASSERT_LE(right.size(), made.size()) << what;
  for (std::size_t t = 0; t < made.size(); ++t) {
    const GroupTile tile = t < right.size() ? right[t] : GroupTile{};
    ASSERT_EQ(made[t].first, tile.first) << what << ", tile " << t;
    ASSERT_EQ(made[t].rows, tile.rows) << what << ", tile " << t;
  }
}

using Sm90Nvfp4Groups = DeviceTest;

TEST_F(Sm90Nvfp4Groups, have_the_tiles_of_each_expert) {
  for (const bool tiled : {false, true}) {
    for (const int experts : {1, 5, 300, 2500}) {
      const Offsets offsets = offsets_of(experts);
      const std::vector<GroupTile> right = tiles_of(offsets, tiled);
      const Made made = make(offsets, offsets.back(), tiled, static_cast<std::int64_t>(right.size()), 0);
      EXPECT_EQ(made.report.status, MXCHECK_OK) << made.report.message;
      expect_tiles(right, made.tiles, std::to_string(experts) + (tiled ? " experts, tiled" : " experts"));
    }
  }
}

TEST_F(Sm90Nvfp4Groups, of_wrong_offsets_have_no_tile_and_are_reported) {
  for (const int experts : {5, 2500}) {
    const Offsets right = offsets_of(experts);
    const auto needed = static_cast<std::int64_t>(tiles_of(right, false).size());
    const auto expect_refused = [&](const Offsets& offsets, std::int64_t by, std::int64_t index, std::int64_t value) {
      const Made made = make(offsets, right.back(), false, needed, by);
      EXPECT_EQ(made.report.status, MXCHECK_INVALID);
      EXPECT_EQ(made.report.index, index) << made.report.message;
      EXPECT_EQ(made.report.value, value) << made.report.message;
      expect_tiles({}, made.tiles, made.report.message);
    };
    const auto with = [&](std::size_t at, std::int64_t value) {
      Offsets offsets = right;
      offsets[at] = value;
      return offsets;
    };
    const auto last = static_cast<std::size_t>(experts);
    expect_refused(with(0, 1), 0, 0, 1);
    expect_refused(with(last, right.back() + 1), 0, experts, right.back() + 1);
    expect_refused(with(2, std::int64_t{1} << 32), 0, 3, right[3]);
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    expect_refused(with(last / 2, kLeast), 0, experts / 2, kLeast);
    expect_refused(right, 1, needed + 1, needed);
    expect_refused(right, -1, needed - 1, needed);
  }
}

// The table of a matrix whose rows come from 1000 of x by this index, with offsets or without.
Made make_gathered(const Offsets& offsets, const std::vector<std::int32_t>& index) {
  const Input<std::int64_t> input(offsets.empty() ? Offsets{0} : offsets);
  const Input<std::int32_t> rows(index);
  const Input<mxcheck_device_report> report(std::vector<mxcheck_device_report>(1));
  GatherJob job{{.offsets = offsets.empty() ? nullptr : input.data(), .experts = 1}, rows.data(), 1000};
  if (!offsets.empty()) job.groups.experts = static_cast<std::int64_t>(offsets.size()) - 1;
  job.groups.rows = static_cast<std::int64_t>(index.size()), job.groups.cols = kCols;
  job.groups.report = const_cast<mxcheck_device_report*>(report.data());
  const Output<GroupTile> table(static_cast<std::int64_t>(table_bytes(job.groups) / sizeof(GroupTile)));
  GroupTable made;
  EXPECT_EQ(done(make_gather(job, table.data(), made, nullptr)), cudaSuccess);
  Made result{table.read()};
  EXPECT_EQ(cudaMemcpy(&result.report, job.groups.report, sizeof(result.report), cudaMemcpyDeviceToHost), cudaSuccess);
  return result;
}

std::vector<std::int32_t> rows_of_source(std::int64_t rows) {
  std::mt19937 random{2};
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < rows; ++i) index.push_back(static_cast<std::int32_t>(random() % 1000));
  index.front() = 0, index.back() = 999;
  return index;
}

TEST_F(Sm90Nvfp4Groups, of_gathered_rows_are_those_of_experts_or_of_all_rows) {
  for (const int experts : {0, 5, 2500}) {
    const Offsets offsets = experts == 0 ? Offsets{} : offsets_of(experts);
    const std::int64_t rows = experts == 0 ? 30'001 : offsets.back();
    const Made made = make_gathered(offsets, rows_of_source(rows));
    EXPECT_EQ(made.report.status, MXCHECK_OK) << made.report.message;
    expect_tiles(tiles_of(experts == 0 ? Offsets{0, rows} : offsets, false), made.tiles, std::to_string(experts));
  }
}

TEST_F(Sm90Nvfp4Groups, of_a_wrong_row_index_have_no_tile_and_the_first_wrong_is_reported) {
  for (const int experts : {0, 5}) {
    const Offsets offsets = experts == 0 ? Offsets{} : offsets_of(experts);
    const std::int64_t rows = experts == 0 ? 30'001 : offsets.back();
    for (const std::int32_t wrong : {-1, 1000, std::numeric_limits<std::int32_t>::max()}) {
      for (const std::int64_t at : {std::int64_t{0}, rows / 3, rows - 1}) {
        std::vector<std::int32_t> index = rows_of_source(rows);
        index[static_cast<std::size_t>(at)] = index.back() = wrong;
        const Made made = make_gathered(offsets, index);
        EXPECT_EQ(made.report.status, MXCHECK_INVALID);
        EXPECT_EQ(made.report.index, at);
        EXPECT_EQ(made.report.value, wrong);
        expect_tiles({}, made.tiles, made.report.message);
      }
    }
  }
}

using Sm90Nvfp4ReciprocalOnDevice = DeviceTest;

TEST_F(Sm90Nvfp4ReciprocalOnDevice, is_that_of_the_division_for_every_mantissa) {
  for (const int exponent : {-125, -109, -64, -3, -2, -1, 0, 1, 2, 3, 64, 108, 124}) {
    ReciprocalCount count;
    ASSERT_EQ(count_reciprocals(exponent, count), cudaSuccess);
    EXPECT_EQ(count.differing, 0U) << "2^" << exponent << ": " << std::hex << count.example;
    EXPECT_EQ(count.far, 0U) << "2^" << exponent;
  }
}

}  // namespace
}  // namespace mxcheck::test
