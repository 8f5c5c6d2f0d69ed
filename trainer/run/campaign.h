#pragma once
// Many runs from one text: trunks, their branches, and runs from scratch, as many at once as a device takes, each once.
//
//   const Campaign campaign = read_campaign("recipes.json");
//   const std::vector<CampaignRun> runs = runs_of(campaign, "runs/");
//   run_campaign(campaign, runs, corpus, make_engine, options, watch);
//
// The text, JSON:
//
//   {"preset": "verdict", "seeds": [1, 2, 3, 4, 5],
//    "arms": [{"recipe": "mxfp8", "at": [25, 50]}, {"recipe": "bf16", "perturb": "all", "at": [25, 50]},
//             {"recipe": "mxfp8", "at": [0], "seeds": [1, 2, 3]}]}
//
// "at": percent of the steps after which an arm branches off from the trunk of each seed; 0: from scratch. An arm may
// have "rounding", "moments" and seeds of its own; "recipe" is a name, a file, or a recipe of docs/layer.md as it
// stands. Optional: "model" (sizes that differ from the preset's: layers, width, heads, experts, inner, top_k, length),
// "optimizer" (peak_rate, last_rate, warm_up that differ), "steps", "batch", "microbatches", "evaluate_every",
// "validation_sequences", "observe_every", "checkpoint_every", and "configuration" (all of one, in place of a preset).
// A trunk is BF16's run of a seed, and is made where an arm has the seed. Files: bf16_SEED.h5, ARM_atPERCENT_SEED.h5,
// ARM_SEED.h5 from scratch.
//
// A branch begins as soon as its trunk has come to its step, beside the trunk's other steps, if there is room.
//
// A campaign that was stopped or killed goes on when it is started again: what has ended is read and checked, what was
// begun goes on, nothing is done twice. Several processes may work at one folder by one text, one for each GPU for
// instance: each run is one process's (a lock in .campaign.lock, free when the process ends), and each waits for the
// others' runs. A run of other configuration under a file's name is refused.
//
// Errors: Error{usage} for a text that is no campaign, with its place; Error{input} for a file of another run. An error
// of a run ends that run, and those that branch off from it are left out; the others go on, and the first error is
// thrown at the end.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/corpus.h"
#include "trainer/run/branch.h"
#include "trainer/run/run.h"

namespace mxcheck {

struct CampaignArm {
  TrainingConfig config;         // without a seed
  std::vector<std::int64_t> at;  // percent; 0: from scratch
  std::vector<std::uint64_t> seeds;
};
struct Campaign {
  std::string preset;    // empty: a configuration
  TrainingConfig trunk;  // without a seed
  RunPlan plan;          // of a trunk: a checkpoint is kept where a branch begins
  std::vector<CampaignArm> arms;
};
Campaign campaign_from_json(std::string_view text, const std::string& where);
Campaign read_campaign(const std::string& path);

struct CampaignRun {
  std::string out;
  TrainingConfig config;
  RunPlan plan;
  std::int64_t at = 0;        // step of the trunk; 0: from scratch
  std::ptrdiff_t trunk = -1;  // its place among the runs
  [[nodiscard]] std::int64_t steps() const { return config.steps - at; }
};
// Trunks first; each after what it needs.
std::vector<CampaignRun> runs_of(const Campaign& campaign, const std::string& folder);

struct CampaignOptions {
  int at_once = 5;
  std::string mxcheck;             // as of a RunRequest
  bool keeps_checkpoints = false;  // those to branch off from are removed otherwise, when all runs have ended
};
struct CampaignProgress {
  std::int64_t runs = 0, runs_done = 0;
  std::int64_t tokens = 0, tokens_done = 0;  // of training, of all runs; of this sitting and those before
  std::int64_t tokens_own = 0;               // by this process, in this sitting
  std::string now;                           // the run that took a step last
};
// False: every run stops after its step, to be gone on with.
using CampaignWatch = std::function<bool(const CampaignProgress&)>;

// True if all ended; false where the watch stopped it.
bool run_campaign(const std::vector<CampaignRun>& runs, const Corpus& corpus, const EngineMaker& engine,
                  const CampaignOptions& options, const CampaignWatch& watch);

}  // namespace mxcheck
