#include "reference/training/optimizer.h"

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <limits>

#include "numerics/error.h"
#include "tests/reference/training/plain.h"
#include "tests/reference/training/test_training.h"

namespace mxcheck {
namespace {

using namespace plain;

// RN(fma(a, b, c)): 168 bits hold the sum of the numbers here exactly.
float fused(float a, float b, float c) {
  using Real = boost::multiprecision::cpp_bin_float_50;
  return Real(Real(a) * Real(b) + Real(c)).convert_to<float>();
}

std::vector<std::vector<float>> gradients_of(const TrainingConfig& config, float size) {
  std::vector<std::vector<float>> gradients;
  std::uint32_t seed = 1;
  for (const ParameterSpec& p : parameters_of(config.model)) {
    gradients.push_back(values(static_cast<std::size_t>(p.size()), ++seed, 6));
    for (float& g : gradients.back()) g *= size;
  }
  return gradients;
}

TEST(GradientNorm, is_the_stated_sum_of_squares) {
  for (const std::size_t size : {1U, 5U, 16384U, 16385U, 100000U}) {
    const std::vector<std::vector<float>> g{values(size, 1), values(3, 2)};
    float total = 0;
    for (const std::vector<float>& tensor : g) {
      std::vector<float> squares;
      for (const float v : tensor) squares.push_back(mul(v, v));
      total = add(total, pairwise(squares));
    }
    EXPECT_EQ(gradient_norm(g, 1), root(total)) << size;
    EXPECT_EQ(gradient_norm(g, 3), root(total)) << size;
  }
}

// The root hides a sum's last bit half the time: many sums, of sizes that end within a subtree.
TEST(GradientNorm, has_the_tree_of_the_pairwise_sum_at_every_size) {
  for (std::uint32_t seed = 1; seed <= 24; ++seed) {
    const std::vector<std::vector<float>> g{values(30000 + 3001 * seed, seed, 4)};
    std::vector<float> squares;
    for (const float v : g[0]) squares.push_back(mul(v, v));
    EXPECT_EQ(gradient_norm(g, 2), root(pairwise(squares))) << seed;
  }
}

TEST(GradientNorm, is_nan_or_infinite_where_the_sum_is) {
  EXPECT_TRUE(std::isnan(gradient_norm(std::vector<std::vector<float>>{{1}, {std::nanf("")}}, 1)));
  EXPECT_TRUE(std::isinf(gradient_norm(std::vector<std::vector<float>>{{1e30F}, {1}}, 1)));
}

// Two updates, element by element, as docs/training.md writes them.
TEST(AdamW, weights_and_moments_are_those_of_the_definition) {
  for (const Format moments : {Format::fp32, Format::bf16}) {
    for (const float size : {1e-3F, 10.0F}) {  // below the limit, and clipped
      TrainingConfig config = test_config("bf16");
      config.optimizer.moments = moments;
      const OptimizerConfig& o = config.optimizer;
      TrainingState state = initial_state(config, 1);
      TrainingState plain_state = state;
      for (std::int64_t t = 1; t <= 2; ++t) {
        std::vector<std::vector<float>> g = gradients_of(config, size);
        const std::vector<std::vector<float>> given = g;
        const float norm = size * 7;
        update(config, state, g, norm, 0.01F, 3);
        for (std::size_t p = 0; p < g.size(); ++p) {
          const bool decays = parameters_of(config.model)[p].kind == ParameterKind::matrix;
          for (std::size_t i = 0; i < g[p].size(); ++i) {
            const auto stored = [&](float v) { return moments == Format::bf16 ? wide(bf16(v)) : v; };
            const float clipped = norm > o.clip ? mul(given[p][i], div(o.clip, norm)) : given[p][i];
            float& m = plain_state.first_moments[p][i];
            float& v = plain_state.second_moments[p][i];
            float& w = plain_state.weights[p][i];
            m = stored(fused(o.beta1, m, mul(sub(1, o.beta1), clipped)));
            v = stored(fused(o.beta2, v, mul(sub(1, o.beta2), mul(clipped, clipped))));
            float step =
                div(div(m, bias_correction(o.beta1, t)), add(root(div(v, bias_correction(o.beta2, t))), o.epsilon));
            if (decays) step = add(step, mul(o.decay, w));
            w = sub(w, mul(0.01F, step));
          }
          ASSERT_EQ(state.first_moments[p], plain_state.first_moments[p]) << p;
          ASSERT_EQ(state.second_moments[p], plain_state.second_moments[p]) << p;
          ASSERT_EQ(state.weights[p], plain_state.weights[p]) << p;
          if (t == 2) break;  // one parameter will do the second time
        }
        EXPECT_EQ(state.updates, t);
      }
    }
  }
}

TEST(AdamW, a_norm_at_the_limit_is_not_clipped) {
  TrainingConfig config = test_config("bf16");
  const TrainingState start = initial_state(config, 1);
  const auto moment = [&](float norm) {
    TrainingState state = start;
    std::vector<std::vector<float>> g = gradients_of(config, 1);
    update(config, state, g, norm, 0.01F, 1);
    return state.first_moments[0][0];
  };
  EXPECT_EQ(moment(1), moment(0.5F));
  EXPECT_NE(moment(1), moment(std::nextafter(1.0F, 2.0F)));
}

TEST(AdamW, a_state_of_fewer_parameters_is_refused) {
  const TrainingConfig config = test_config("bf16");
  for (auto list : {&TrainingState::weights, &TrainingState::first_moments, &TrainingState::second_moments}) {
    TrainingState state = initial_state(config, 1);
    (state.*list).pop_back();
    std::vector<std::vector<float>> g = gradients_of(config, 1);
    EXPECT_THROW(update(config, state, g, 1, 0.01F, 1), Error);
    EXPECT_EQ(state.updates, 0);
  }
}

TEST(AdamW, sizes_that_do_not_agree_are_refused_before_anything_is_updated) {
  const TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  const TrainingState before = state;
  std::vector<std::vector<float>> g = gradients_of(config, 1);
  g.back().pop_back();
  EXPECT_THROW(update(config, state, g, 1, 0.01F, 1), Error);
  g.pop_back();
  EXPECT_THROW(update(config, state, g, 1, 0.01F, 1), Error);
  EXPECT_EQ(state.weights, before.weights);
  EXPECT_EQ(state.updates, 0);
}

}  // namespace
}  // namespace mxcheck
