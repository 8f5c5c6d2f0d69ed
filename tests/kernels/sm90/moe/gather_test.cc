// Rows of tokens copied to the rows of their experts, on the device against a loop. Skipped without a GPU.

#include "kernels/sm90/moe/moe_kernels.h"

#include <numeric>
#include <random>
#include <utility>

#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck_kernels::sm90 {
namespace {

using mxcheck::test::at, mxcheck::test::done, mxcheck::test::first_difference, mxcheck::test::Input;
using mxcheck::test::Output;

// Tokens of 0 to 5 slots, of which some were dropped; rows in any order.
struct Routes {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> rows;
  std::int64_t routed = 0;

  Routes(std::int64_t tokens, std::uint32_t seed) {
    std::mt19937 random(seed);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (auto slots = random() % 6; slots > 0; --slots) rows.push_back(random() % 7 == 0 ? -1 : 0);
      offsets.push_back(std::ssize(rows));
    }
    std::vector<std::int32_t> order(at(std::count(rows.begin(), rows.end(), 0)));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (auto& row : rows) {
      if (row == 0) row = order[at(routed++)];
    }
  }
};

std::vector<std::uint8_t> random_bytes(std::int64_t count) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> bytes(at(count));
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
  return bytes;
}

std::vector<std::uint8_t> gathered(const Routes& routes, const std::vector<std::uint8_t>& x, std::int64_t row_bytes) {
  std::vector<std::uint8_t> y(at(routes.routed * row_bytes));
  for (std::size_t t = 0; t + 1 < routes.offsets.size(); ++t) {
    for (std::int64_t s = routes.offsets[t]; s < routes.offsets[t + 1]; ++s) {
      const std::int32_t row = routes.rows[at(s)];
      if (row >= 0) std::copy_n(x.data() + t * at(row_bytes), row_bytes, y.data() + row * row_bytes);
    }
  }
  return y;
}

class Gather : public testing::Test {
 protected:
  void SetUp() override {
    if (!mxcheck::test::has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

// Widths around what a lane, a warp and a part of a row have; scales by words and by bytes.
TEST_F(Gather, EachRowIsItsTokens) {
  for (const std::int64_t tokens : {1, 37, 1000}) {
    const Routes routes(tokens, static_cast<std::uint32_t>(tokens));
    for (const auto& [row_bytes, scale_bytes] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {16, 0}, {512, 4}, {4080, 3}, {4096, 32}, {4112, 128}, {12304, 1}, {8192, 260}}) {
      const auto x = random_bytes(tokens * row_bytes);
      const auto scales = random_bytes(tokens * scale_bytes);
      const Input<std::uint8_t> x_on(x);
      const Input<std::uint8_t> scales_on(scales);
      const Input<std::int64_t> offsets(routes.offsets);
      const Input<std::int32_t> rows(routes.rows);
      const Output<std::uint8_t> y(routes.routed * row_bytes);
      const Output<std::uint8_t> z(routes.routed * scale_bytes);
      GatherJob job;
      job.values = {x_on.data(), y.data(), row_bytes};
      job.scales = {scales_on.data(), z.data(), scale_bytes};
      job.tokens = tokens, job.token_offsets = offsets.data(), job.token_rows = rows.data();
      ASSERT_EQ(done(launch_gather(job, nullptr)), cudaSuccess);
      EXPECT_EQ(first_difference(gathered(routes, x, row_bytes), y.read(), row_bytes), "") << tokens;
      EXPECT_EQ(
          first_difference(gathered(routes, scales, scale_bytes), z.read(), std::max<std::int64_t>(1, scale_bytes)), "")
          << tokens << " with " << scale_bytes;
    }
  }
}

}  // namespace
}  // namespace mxcheck_kernels::sm90
