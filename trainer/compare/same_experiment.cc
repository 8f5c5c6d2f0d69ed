#include "trainer/compare/same_experiment.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace mxcheck {
namespace {

struct Field {
  std::string name;
  std::string value;
};

std::vector<Field> shared_fields(const RunRecord& r) {
  const TrainingConfig& c = r.config;
  const OptimizerConfig& o = c.optimizer;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {
      {"model.layers", text(c.model.layers)},
      {"model.width", text(c.model.width)},
      {"model.heads", text(c.model.heads)},
      {"model.experts", text(c.model.experts)},
      {"model.inner", text(c.model.inner)},
      {"model.top_k", text(c.model.top_k)},
      {"model.length", text(c.model.length)},
      {"batch", text(c.batch)},
      {"steps", text(c.steps)},
      {"balance", text(c.balance)},
      {"optimizer.peak_rate", text(o.peak_rate)},
      {"optimizer.last_rate", text(o.last_rate)},
      {"optimizer.warm_up", text(o.warm_up)},
      {"optimizer.beta1", text(o.beta1)},
      {"optimizer.beta2", text(o.beta2)},
      {"optimizer.epsilon", text(o.epsilon)},
      {"optimizer.decay", text(o.decay)},
      {"optimizer.clip", text(o.clip)},
      {"optimizer.skips_non_finite", text(o.skips_non_finite)},
      {"training_sha256", r.training_sha256},
      {"validation_sha256", r.validation_sha256},
      {"validation_sequences", text(r.plan.validation_sequences)},
  };
}

void check_fields(const NamedRun& first, const NamedRun& run) {
  const std::vector<Field> expected = shared_fields(first.record);
  const std::vector<Field> found = shared_fields(run.record);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].value == expected[i].value) continue;
    throw Error(ErrorKind::input, fmt::format("{} and {}: {} differs, {} and {}; runs of one experiment share it",
                                              first.file, run.file, found[i].name, expected[i].value, found[i].value));
  }
}

// The steps of `run` are those of `longest`, or their beginning where the run diverged.
void check_evaluations(const NamedRun& longest, const NamedRun& run) {
  const auto& expected = longest.record.evaluations;
  const auto& found = run.record.evaluations;
  const auto step = &RecordedEvaluation::step;
  const bool begins = std::ranges::equal(found.begin(), found.end(), expected.begin(),
                                         expected.begin() + static_cast<std::ptrdiff_t>(found.size()), {}, step, step);
  const bool whole = found.size() == expected.size() || run.record.end == RunEnd::diverged;
  if (begins && whole) return;
  throw Error(ErrorKind::input,
              fmt::format("{} and {}: evaluations are after other steps ({} and {} of them); runs of one experiment "
                          "are evaluated after the same",
                          longest.file, run.file, expected.size(), found.size()));
}

// A name stands for one recipe, and bf16 for none.
void check_recipes(std::span<const NamedRun> runs) {
  std::map<std::string, const NamedRun*> seen;
  for (const NamedRun& run : runs) {
    const LayerRecipe& recipe = run.record.config.recipe;
    const auto [at, is_new] = seen.try_emplace(recipe.name, &run);
    if (at->second->record.config.recipe != recipe)
      throw Error(ErrorKind::input, at->second->file + " and " + run.file + ": recipe differs, though both call it '" +
                                        recipe.name + "'; a name stands for one recipe");
    const bool quantizes =
        std::ranges::any_of(recipe.gemms, [](const GemmRule& g) { return g.a.quantized() || g.b.quantized(); });
    if (is_new && recipe.name == "bf16" && quantizes)
      throw Error(ErrorKind::input, run.file + ": recipe 'bf16' quantizes; the baseline's does not");
  }
}

}  // namespace

void check_whole(const NamedRun& run) {
  const RunRecord& r = run.record;
  if (r.end == RunEnd::unfinished)
    throw Error(ErrorKind::input, fmt::format("{}: unfinished, {} of {} steps; finish it first", run.file,
                                              r.steps.size(), r.config.steps));
  if (r.end == RunEnd::diverged) return;
  if (static_cast<std::int64_t>(r.steps.size()) != r.config.steps)
    throw Error(ErrorKind::input, fmt::format("{}: finished with {} steps, its configuration has {}", run.file,
                                              r.steps.size(), r.config.steps));
  if (r.evaluations.size() < kEndpointEvaluations)
    throw Error(ErrorKind::input, fmt::format("{}: {} evaluations; the endpoint is the mean of the last {}", run.file,
                                              r.evaluations.size(), kEndpointEvaluations));
}

void check_same_experiment(std::span<const NamedRun> runs) {
  if (runs.empty()) return;
  for (const NamedRun& run : runs) check_fields(runs.front(), run);
  const NamedRun& longest =
      *std::ranges::max_element(runs, {}, [](const NamedRun& r) { return r.record.evaluations.size(); });
  for (const NamedRun& run : runs) check_evaluations(longest, run);
  check_recipes(runs);
}

}  // namespace mxcheck
