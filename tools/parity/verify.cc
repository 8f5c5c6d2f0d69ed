// mxcheck parity verify: whether runs and their checkpoints are whole, and what they say.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <memory>

#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/parity/parity.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/run_file.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

struct Options {
  std::vector<std::string> files;
  bool json = false;
};

// Everything that is said of a run is computed here from what it recorded.
struct Facts {
  std::string file;
  RunRecord run;
  std::vector<std::int64_t> checkpoints;  // kept ones that lie beside it and belong to it
  std::int64_t not_finite = 0;            // steps with a loss or norm of NaN or Inf
  std::int64_t not_updated = 0;
  double first_loss = NAN, last_loss = NAN;  // means of the first and the last 100 steps, or of what there is
};

double mean_loss(const RunRecord& run, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += double{std::bit_cast<float>(run.steps[i].loss)};
  return begin == end ? NAN : sum / static_cast<double>(end - begin);
}

Facts facts_of(const std::string& file) {
  Facts f;
  f.file = file;
  f.run = read_run(file);
  for (const std::int64_t step : f.run.plan.kept) {
    const std::string path = kept_checkpoint_of(file, step);
    if (!std::filesystem::exists(path)) continue;
    check_belongs(read_checkpoint(path), f.run, path);
    f.checkpoints.push_back(step);
  }
  for (const RecordedStep& step : f.run.steps) {
    f.not_finite +=
        !std::isfinite(std::bit_cast<float>(step.loss)) || !std::isfinite(std::bit_cast<float>(step.gradient_norm));
    f.not_updated += step.skipped != 0;
  }
  const std::size_t part = std::min<std::size_t>(100, f.run.steps.size());
  f.first_loss = mean_loss(f.run, 0, part);
  f.last_loss = mean_loss(f.run, f.run.steps.size() - part, f.run.steps.size());
  return f;
}

std::string text_of(const Facts& f) {
  const RunRecord& run = f.run;
  const ModelShape& m = run.config.model;
  std::string text = fmt::format("{}: {}, {} of {} steps, {}\n", f.file, run_title(run.config), run.steps.size(),
                                 run.config.steps, to_text(run.end));
  text += fmt::format(
      "  model        {} parameters: {} layers of width {}, {} experts of width {}, top {}; {} tokens a step\n",
      parameter_count(m), m.layers, m.width, m.experts, m.inner, m.top_k, run.config.tokens());
  text += fmt::format("  data         {}, SHA-256 {}\n", run.corpus, run.training_sha256.substr(0, 16));
  text += fmt::format("  computed by  {} ({}), mxcheck {}, {:.1f} s in {} sitting{}\n", run.engine, run.device,
                      run.mxcheck, run.seconds, run.sittings, run.sittings == 1 ? "" : "s");
  text += fmt::format("  loss         {:.4f} to {:.4f}, means of {} steps\n", f.first_loss, f.last_loss,
                      std::min<std::size_t>(100, run.steps.size()));
  if (!run.evaluations.empty()) {
    const RecordedEvaluation& last = run.evaluations.back();
    text +=
        fmt::format("  validation   {:.4f} with BF16 layers, {:.4f} under the recipe; {} evaluations\n",
                    std::bit_cast<float>(last.loss_bf16), std::bit_cast<float>(last.loss_own), run.evaluations.size());
  }
  text += fmt::format("  not finite   {} steps, {} not updated\n", f.not_finite, f.not_updated);
  text += fmt::format(
      "  to audit     {} witnesses; checkpoints {}\n", run.witnesses.size(),
      f.checkpoints.empty() ? "none" : join(f.checkpoints, ", ", [](std::int64_t s) { return std::to_string(s); }));
  return text + "  whole: its contents have the hash that it carries\n";
}

Json json_of(const Facts& f) {
  const RunRecord& run = f.run;
  Json json{{"file", f.file},
            {"title", run_title(run.config)},
            {"end", to_text(run.end)},
            {"steps", run.steps.size()},
            {"parameters", parameter_count(run.config.model)},
            {"corpus", run.corpus},
            {"training_sha256", run.training_sha256},
            {"engine", run.engine},
            {"device", run.device},
            {"seconds", run.seconds},
            {"first_loss", json_number(f.first_loss)},
            {"last_loss", json_number(f.last_loss)},
            {"steps_not_finite", f.not_finite},
            {"steps_not_updated", f.not_updated},
            {"witnesses", run.witnesses.size()},
            {"checkpoints", f.checkpoints}};
  json["evaluations"] = Json::array();
  for (const RecordedEvaluation& e : run.evaluations) {
    json["evaluations"].push_back({{"step", e.step},
                                   {"loss_bf16", json_number(std::bit_cast<float>(e.loss_bf16))},
                                   {"loss_own", json_number(std::bit_cast<float>(e.loss_own))}});
  }
  return json;
}

int run(const Options& o) {
  std::vector<Facts> all;
  for (const std::string& file : o.files) all.push_back(facts_of(file));
  if (o.json) {
    Json json = Json::array();
    for (const Facts& f : all) json.push_back(json_of(f));
    print_json(json);
    return 0;
  }
  for (const Facts& f : all) print(text_of(f));
  return 0;
}

}  // namespace

void add_parity_verify(Command& parity) {
  auto o = std::make_shared<Options>();
  Command sub =
      parity.subcommand("verify", "Is a run's file whole, do its checkpoints belong to it, and what does it say?");
  sub.option("RUNS", o->files, "Files of runs").required();
  sub.flag("--json", o->json, "As JSON");
  sub.footer("A file that is truncated, altered or of another kind is refused, and so is a kept checkpoint beside it.");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
