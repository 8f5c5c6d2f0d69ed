#include "reference/training/state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "tests/reference/training/test_training.h"

namespace mxcheck {
namespace {

TEST(InitialState, elements_are_those_of_the_definition) {
  const TrainingConfig config = test_config("bf16");
  const TrainingState state = initial_state(config, 1);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  ASSERT_EQ(state.weights.size(), specs.size());
  for (std::size_t p = 0; p < specs.size(); ++p) {
    ASSERT_EQ(std::ssize(state.weights[p]), specs[p].size());
    EXPECT_EQ(state.first_moments[p], std::vector<float>(state.weights[p].size()));
    EXPECT_EQ(state.second_moments[p], std::vector<float>(state.weights[p].size()));
    for (const std::size_t i : {std::size_t{0}, std::size_t{17}, state.weights[p].size() - 1}) {
      double sum = 0;
      for (std::uint32_t j = 0; j < 6; ++j) {
        const std::uint32_t word =
            philox_word(config.seed, static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(p), j);
        sum += static_cast<double>(word & 0xFFFF) + static_cast<double>(word >> 16);
      }
      const double z = (sum - 393210) / 65536;
      const float right = specs[p].kind == ParameterKind::gain ? 1 : static_cast<float>(double{specs[p].deviation} * z);
      EXPECT_EQ(state.weights[p][i], right) << specs[p].name << ' ' << i;
    }
  }
  EXPECT_EQ(state.step, 0);
  EXPECT_EQ(state.updates, 0);
}

// Of n numbers of variance 1 the mean is within 5 / sqrt(n), the variance within 5 sqrt(2 / n) of it: five standard
// errors, with numbers that are fixed.
TEST(InitialState, numbers_have_mean_0_and_the_standard_deviation) {
  const TrainingConfig config = test_config("bf16");
  const TrainingState state = initial_state(config, 1);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (specs[p].kind == ParameterKind::gain) continue;
    double sum = 0, squares = 0;
    for (const float w : state.weights[p]) {
      const double z = double{w} / double{specs[p].deviation};
      sum += z, squares += z * z;
    }
    const auto n = static_cast<double>(state.weights[p].size());
    EXPECT_LE(std::abs(sum / n), 5 / std::sqrt(n)) << specs[p].name;
    EXPECT_LE(std::abs(squares / n - 1), 5 * std::sqrt(2 / n)) << specs[p].name;
  }
}

TEST(InitialState, seeds_differ_and_threads_do_not) {
  TrainingConfig config = test_config("bf16");
  const TrainingState one = initial_state(config, 1);
  EXPECT_EQ(one.weights, initial_state(config, 3).weights);
  config.seed ^= std::uint64_t{1} << 40;  // the high half of the key
  EXPECT_NE(one.weights[0], initial_state(config, 1).weights[0]);
}

TEST(InitialState, perturb_moves_one_weight_by_one_ulp) {
  TrainingConfig config = test_config("bf16");
  const TrainingState before = initial_state(config, 1);
  std::int64_t first = 1;
  for (std::size_t p = 0; p < before.weights.size(); ++p) {
    const auto size = std::ssize(before.weights[p]);
    for (const std::int64_t place : {std::int64_t{0}, size - 1}) {
      config.perturb = first + place;
      TrainingState after = initial_state(config, 1);
      float& moved = after.weights[p][static_cast<std::size_t>(place)];
      EXPECT_EQ(moved, std::nextafter(before.weights[p][static_cast<std::size_t>(place)],
                                      std::numeric_limits<float>::infinity()));
      moved = before.weights[p][static_cast<std::size_t>(place)];
      EXPECT_EQ(after.weights, before.weights);
    }
    first += size;
  }
  EXPECT_EQ(first, parameter_count(config.model) + 1);
  config.perturb = first;
  EXPECT_THROW(initial_state(config, 1), Error);
}

TEST(InitialState, perturb_all_moves_every_weight_up_or_down) {
  TrainingConfig config = test_config("bf16");
  const TrainingState before = initial_state(config, 1);
  config.perturb = kPerturbAll;
  const TrainingState after = initial_state(config, 1);
  EXPECT_EQ(after.weights, initial_state(config, 3).weights);
  for (std::size_t p = 0; p < before.weights.size(); ++p) {
    std::int64_t up = 0;
    for (std::size_t i = 0; i < before.weights[p].size(); ++i) {
      const double w = before.weights[p][i];
      const bool is_up = after.weights[p][i] == static_cast<float>(w * (1 + 0x1p-8));  // exact in FP64
      ASSERT_TRUE(is_up || after.weights[p][i] == static_cast<float>(w * (1 - 0x1p-8))) << p << " " << i;
      up += is_up ? 1 : 0;
    }
    // A fair coin's count is five deviations (half the root) from the half once in 1.7 million.
    const double size = static_cast<double>(before.weights[p].size());
    EXPECT_LE(std::abs(static_cast<double>(up) - size / 2), 5 * std::sqrt(size) / 2) << p;
  }
}

}  // namespace
}  // namespace mxcheck
