#pragma once
// Records of runs that nobody trained: every field has a value of its own, so that two that are exchanged are seen.

#include <cstdint>
#include <string>

#include "reference/layer/layer_recipe.h"
#include "trainer/record/run_record.h"

namespace mxcheck::test {

inline TrainingConfig sample_config(std::int64_t steps = 12) {
  TrainingConfig c;
  c.model = {2, 8, 2, 4, 4, 2, 8};
  c.batch = 2;
  c.steps = steps;
  c.seed = 7;
  c.recipe = layer_recipe_named("mxfp8");
  return c;
}

inline RecordedStep sample_step(std::int64_t step) {
  const auto n = static_cast<std::uint32_t>(step);
  const std::uint64_t digest = 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(step + 1);
  return {0x40B00000U - n, 0x3C000000U + n, 0x3F800000U ^ n, 0x38D1B717U + 3 * n, digest, n % 3};
}

inline RecordedEvaluation sample_evaluation(const TrainingConfig& c, std::int64_t step) {
  RecordedEvaluation e{step, 0x40A00000U, 0x40A00001U, {}, 32};
  for (std::int64_t l = 0; l < c.model.layers; ++l) e.equal_routes.push_back(30 - l);
  return e;
}

inline RecordedObservation sample_observation(const TrainingConfig& c, std::int64_t step, std::int64_t operands = 3) {
  RecordedObservation o{step, {}};
  for (std::int64_t l = 0; l < c.model.layers; ++l) {
    LayerObservation layer;
    for (std::int64_t e = 0; e < c.model.experts; ++e) layer.expert_loads.push_back(100 * l + e + step);
    for (std::int64_t k = 0; k < operands; ++k) {
      const auto n = static_cast<std::int32_t>(10 * l + k);
      layer.operands.push_back({"up." + std::to_string(k), 1000 + n, 20 + n, 40 + n, 32 + n, -100 + n, 5 + n});
    }
    layer.output_digest = 0xD6E8FEB86659FD93U * static_cast<std::uint64_t>(step + l + 1);
    o.layers.push_back(layer);
  }
  return o;
}

inline RecordedWitness sample_witness(const TrainingConfig& c, std::int64_t step) {
  RecordedWitness w{step, {}, {}};
  for (std::int64_t p = 0; p < 3 + 7 * c.model.layers; ++p)
    w.parameters.push_back(1'000'000'007U * static_cast<std::uint64_t>(p + step + 1));
  for (std::int64_t l = 0; l < c.model.layers; ++l) w.layers.push_back(~static_cast<std::uint64_t>(l + step));
  return w;
}

// A run without entries.
inline RunRecord sample_head(std::int64_t steps = 12) {
  RunRecord r;
  r.config = sample_config(steps);
  r.plan = {steps / 2, steps - 1, 5, 16, {1, steps / 2, steps - 1}};
  r.corpus = "boost headers 1.74";
  r.training_sha256 = std::string(64, 'a');
  r.training_bytes = 123456789;
  r.validation_sha256 = std::string(64, 'b');
  r.validation_bytes = 1234567;
  r.mxcheck = "0.1.0 commit 0123456789ab";
  r.engine = "sm90";
  r.device = "NVIDIA H200";
  r.started = "2026-11-23T12:34:56Z";
  return r;
}

inline RunRecord sample_run(std::int64_t steps = 12) {
  RunRecord r = sample_head(steps);
  r.seconds = 0.1;
  r.sittings = 2;
  r.end = RunEnd::finished;
  for (std::int64_t s = 0; s < steps; ++s) r.steps.push_back(sample_step(s));
  for (const std::int64_t s : {std::int64_t{0}, steps / 2, steps})
    r.evaluations.push_back(sample_evaluation(r.config, s));
  for (const std::int64_t s : {std::int64_t{0}, steps - 1}) r.observations.push_back(sample_observation(r.config, s));
  for (const std::int64_t s : {std::int64_t{0}, std::int64_t{1}, steps / 2, steps - 1})
    r.witnesses.push_back(sample_witness(r.config, s));
  return r;
}

}  // namespace mxcheck::test
