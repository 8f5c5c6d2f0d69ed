#pragma once
// Runs of training as they could be, without training: losses that fall by a law, differences as told.

#include "tests/testing.h"
#include "trainer/compare/arm.h"
#include "trainer/record/run_file.h"

namespace mxcheck::test {

struct MadeUp {
  std::string recipe = "bf16";
  std::uint64_t seed = 1;
  double difference = 0;  // relative, from the baseline of the same seed, at every evaluation
  std::int64_t perturb = 0;
  TokenRoundingRule rounding = TokenRoundingRule::none;
  Format moments = Format::fp32;
  std::int64_t bf16_last = 0;
};

inline std::uint32_t bits(double value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)); }

// 2 + 3 / sqrt(step), and some 0.1 % that the seed decides.
inline double made_up_loss(std::int64_t step, std::uint64_t seed) {
  const double noise = 1e-3 * std::sin(2.3 * static_cast<double>(seed));
  return (2 + 3 / std::sqrt(static_cast<double>(step))) * (1 + noise);
}

inline constexpr std::int64_t kMadeUpSteps = 400;
inline constexpr std::int64_t kMadeUpEvery = 20;  // steps between evaluations

inline TrainingConfig made_up_config(const MadeUp& m) {
  TrainingConfig c;
  c.model = {.layers = 2, .width = 64, .heads = 2, .experts = 8, .inner = 32, .top_k = 2, .length = 64};
  c.batch = 4;
  c.steps = kMadeUpSteps;
  c.seed = m.seed;
  c.perturb = m.perturb;
  c.recipe = layer_recipe_named(m.recipe);
  c.rounding = m.rounding;
  c.optimizer.moments = m.moments;
  c.bf16_last = m.bf16_last;
  return c;
}

inline RecordedObservation made_up_observation(const TrainingConfig& c, std::int64_t step) {
  RecordedObservation o{.step = step, .layers = {}};
  for (std::int64_t l = 0; l < c.model.layers; ++l) {
    LayerObservation layer;
    for (std::int64_t e = 0; e < c.model.experts; ++e) layer.expert_loads.push_back(64 + 8 * (e % 3) * (l + 1));
    for (const LayerGemmSpec& g : kLayerGemms) {
      if (c.recipe.gemm(g.value).a.quantized())
        layer.operands.push_back({.name = std::string(g.name) + ".a",
                                  .elements = 1 << 20,
                                  .saturated = step / 4,
                                  .flushed = 100 * (static_cast<std::int64_t>(g.value) + 1),
                                  .scales = 1 << 15,
                                  .least_exponent = -12,
                                  .largest_exponent = -1});
    }
    o.layers.push_back(layer);
  }
  return o;
}

inline NamedRun made_up_run(const MadeUp& m) {
  NamedRun run;
  RunRecord& r = run.record;
  r.config = made_up_config(m);
  run.file = arm_name(r) + "_" + std::to_string(m.seed) + ".h5";
  r.corpus = "made up";
  r.training_sha256 = "training";
  r.validation_sha256 = "validation";
  r.plan.validation_sequences = 1024;
  r.mxcheck = "1.0 abcdef";
  r.engine = "cpu";
  r.device = "a machine";
  r.started = "2026-11-20T00:00:" + std::to_string(10 + m.seed) + "Z";
  r.seconds = 3600;
  r.end = RunEnd::finished;
  for (std::int64_t s = 0; s < kMadeUpSteps; ++s) {
    RecordedStep step;
    step.loss = bits(made_up_loss(s + 1, m.seed) * (1 + m.difference) * (1 + 0.01 * std::cos(static_cast<double>(s))));
    step.gradient_norm = bits(1 + 0.1 * std::cos(2.0 * static_cast<double>(s)));
    r.steps.push_back(step);
  }
  for (std::int64_t s = kMadeUpEvery; s <= kMadeUpSteps; s += kMadeUpEvery) {
    const double loss = made_up_loss(s, m.seed) * (1 + m.difference);
    r.evaluations.push_back({.step = s,
                             .loss_bf16 = bits(loss),
                             .loss_own = bits(loss * 1.001),
                             .equal_routes = {990, 980 - s / 10},
                             .routes = 1000});
    r.observations.push_back(made_up_observation(r.config, s));
  }
  return run;
}

// Differences around `gap` that the seed decides, their deviation about `noise`.
inline double spread(double gap, double noise, std::uint64_t seed) {
  return gap + noise * 1.4142 * std::sin(1.7 * static_cast<double>(seed) + 1);
}

inline void add_arm(std::vector<NamedRun>& runs, MadeUp m, double gap, double noise, std::uint64_t seeds) {
  for (m.seed = 1; m.seed <= seeds; ++m.seed) {
    m.difference = spread(gap, noise, m.seed);
    runs.push_back(made_up_run(m));
  }
}

// BF16, A/A and the negative control, `seeds` of each, such that nothing but an arm of its own decides.
inline std::vector<NamedRun> sensitive_experiment(std::uint64_t seeds = 6) {
  std::vector<NamedRun> runs;
  add_arm(runs, {.recipe = "bf16"}, 0, 0, seeds);
  add_arm(runs, {.recipe = "bf16", .perturb = 7}, 0, 2e-4, seeds);
  add_arm(runs, {.recipe = "broken"}, 0.03, 2e-3, seeds);
  return runs;
}

// A trunk that could be a file, of which branches know the hash.
inline NamedRun made_up_trunk(std::uint64_t seed) {
  NamedRun trunk = made_up_run({.recipe = "bf16", .seed = seed});
  trunk.record.training_sha256 = std::string(64, '7'), trunk.record.validation_sha256 = std::string(64, '5');
  trunk.record.observations.pop_back();  // of the step after the last
  return trunk;
}

// The trunk up to a step, then `gap` above it.
inline NamedRun made_up_branch(const NamedRun& trunk, MadeUp m, std::int64_t step, double gap) {
  m.seed = trunk.record.config.seed;
  NamedRun branch = trunk;
  RunRecord& r = branch.record;
  r.config = made_up_config(m);
  r.branch = RunBranch{sha256_of(trunk.record), trunk.file, step, trunk.record.step(step - 1).weights};
  r.steps.erase(r.steps.begin(), r.steps.begin() + step);
  while (r.evaluations.front().step < step) r.evaluations.erase(r.evaluations.begin());
  for (RecordedEvaluation& e : r.evaluations) e.loss_bf16 = bits(value_of(e.loss_bf16) * (1 + gap));
  branch.file = arm_name(r) + "_" + std::to_string(m.seed) + ".h5";
  return branch;
}

// Trunks of six seeds, and at step 200 A/A, a control, and mxfp8 with this gap.
inline std::vector<NamedRun> branches(double gap, std::int64_t step = 200) {
  std::vector<NamedRun> runs;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const NamedRun trunk = made_up_trunk(seed);
    runs.push_back(trunk);
    runs.push_back(made_up_branch(trunk, {.recipe = "bf16", .perturb = -1}, step, spread(0, 1e-4, seed)));
    runs.push_back(made_up_branch(trunk, {.recipe = "broken"}, step, spread(0.2, 1e-3, seed)));
    runs.push_back(made_up_branch(trunk, {.recipe = "mxfp8"}, step, spread(gap, 1e-4, seed)));
  }
  return runs;
}

// branches(), where mxfp8 is above BF16 by `gap` times its share of training, from 50, 75 and 0 %; and another recipe
// from scratch.
inline std::vector<NamedRun> several_branch_points(double gap) {
  std::vector<NamedRun> runs = branches(gap / 2);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const NamedRun trunk = made_up_trunk(seed);
    runs.push_back(made_up_branch(trunk, {.recipe = "mxfp8"}, 300, spread(gap / 4, 1e-5, seed)));
    for (const char* recipe : {"mxfp8", "mxfp8_floor"}) {
      const double mean = recipe == std::string("mxfp8") ? gap : 0;
      NamedRun run = made_up_run({.recipe = recipe, .seed = seed, .difference = spread(mean, 1e-5, seed)});
      run.record.training_sha256 = trunk.record.training_sha256;
      run.record.validation_sha256 = trunk.record.validation_sha256;
      runs.push_back(run);
    }
  }
  return runs;
}

}  // namespace mxcheck::test
