// mxcheck parity: runs of training, recorded step by step, that anyone can compute again.

#include "tools/parity/parity.h"

#include <fmt/format.h>

namespace mxcheck {

Corpus corpus_of(const std::string& data) { return data.empty() ? boost_corpus() : corpus_at(data); }

std::string run_title(const TrainingConfig& config) {
  std::string title = config.recipe.name;
  if (config.rounding != TokenRoundingRule::none)
    title += fmt::format(" + {} (tiles of {})", to_text(config.rounding), config.tile);
  if (config.optimizer.moments != Format::fp32)
    title += fmt::format(" + moments {}", spec(config.optimizer.moments).name);
  title += fmt::format(", seed {}", config.seed);
  if (config.perturb == kPerturbAll) title += ", all weights moved";
  if (config.perturb > 0) title += fmt::format(", weight {} an ulp up", config.perturb - 1);
  return title;
}

void add_parity(Command& app) {
  Command sub = app.subcommand("parity", "Runs of training under a recipe, recorded to the bit, audited and compared");
  sub.requires_subcommand();
  add_parity_run(sub);
  add_parity_audit(sub);
  add_parity_compare(sub);
  add_parity_verify(sub);
  sub.footer(
      "Examples:\n"
      "  mxcheck parity run --preset tiny --recipe mxfp8 --seed 1 --steps 1000 -o mxfp8_1.h5\n"
      "  mxcheck parity run --resume -o mxfp8_1.h5               go on with a run that was interrupted\n"
      "  mxcheck parity audit mxfp8_1.h5 --step 500              compute a step again: every bit must agree\n"
      "  mxcheck parity verify mxfp8_1.h5                        is the file whole, and what does it say?\n"
      "  mxcheck parity compare runs/*.h5 --html report.html     is the recipe as good as BF16?");
}

}  // namespace mxcheck
