#pragma once
// A model that is small enough for many steps in a test, with sizes that are no multiples of tiles, and its data.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/training/model.h"

namespace mxcheck {

inline TrainingConfig test_config(const std::string& recipe) {
  TrainingConfig c;
  c.model = {.layers = 2, .width = 32, .heads = 2, .experts = 4, .inner = 16, .top_k = 2, .length = 20};
  c.batch = 2;
  c.steps = 100;
  c.seed = 7;
  c.recipe = layer_recipe_named(recipe);
  c.optimizer.warm_up = 4;
  return c;
}

// Bytes with a pattern that can be learnt: batch x (length + 1), another one for each step.
inline std::vector<std::uint8_t> test_data(const TrainingConfig& c, std::int64_t step = 0) {
  std::vector<std::uint8_t> data;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t i = 0; i <= c.model.length; ++i)
      data.push_back(static_cast<std::uint8_t>(97 + (i * (b + 2) + step) % 7 + (i % 5 == 0 ? 100 : 0)));
  }
  return data;
}

}  // namespace mxcheck
