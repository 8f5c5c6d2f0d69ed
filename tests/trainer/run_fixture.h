#pragma once
// A run that takes a tenth of a second, and its data.

#include "goldens/io/sha256.h"
#include "tests/testing.h"
#include "trainer/data/corpus.h"
#include "trainer/run/run.h"

namespace mxcheck::test {

inline Corpus small_corpus(std::uint8_t seed = 1) {
  Corpus corpus;
  corpus.name = "made up";
  for (int i = 0; i < 4000; ++i) corpus.training.push_back(static_cast<std::uint8_t>(i % 17 * seed + i % 5));
  for (int i = 0; i < 400; ++i) corpus.validation.push_back(static_cast<std::uint8_t>(i % 17 * seed + i % 3));
  corpus.training_sha256 = sha256(std::as_bytes(std::span(corpus.training)));
  corpus.validation_sha256 = sha256(std::as_bytes(std::span(corpus.validation)));
  return corpus;
}

inline TrainingConfig small_config(const std::string& recipe = "mxfp8") {
  TrainingConfig c;
  c.model = {.layers = 2, .width = 16, .heads = 2, .experts = 4, .inner = 8, .top_k = 2, .length = 12};
  c.batch = 2;
  c.steps = 12;
  c.seed = 3;
  c.recipe = layer_recipe_named(recipe);
  c.optimizer.warm_up = 3;
  return c;
}

inline RunPlan small_plan() {
  return {.evaluate_every = 4, .observe_every = 5, .checkpoint_every = 3, .validation_sequences = 2, .kept = {6}};
}

inline RunRequest small_request(const std::string& out, const Corpus& corpus) {
  return {.out = out, .config = small_config(), .plan = small_plan(), .corpus = &corpus, .mxcheck = "test"};
}

// Computed on one thread of the CPU.
inline RunRecord computed(const RunRequest& request, const RunWatch& watch = {}) {
  const std::unique_ptr<TrainingEngine> engine = cpu_engine(request.config, 1);
  return run_training(request, *engine, watch);
}

}  // namespace mxcheck::test
