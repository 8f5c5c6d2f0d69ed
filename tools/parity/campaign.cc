// mxcheck parity campaign: all runs of one text, each once.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/parity/parity.h"
#include "trainer/config/config.h"
#include "trainer/run/campaign.h"

namespace mxcheck {
namespace {

constexpr int kAtOnce = 5;  // runs of one GPU, or of the CPU

struct CampaignCommand {
  std::string file, folder, data, engine = "cpu";
  int at_once = 0, threads = 0;
  bool keeps_checkpoints = false, lists = false;
};

std::string list_text(const std::vector<CampaignRun>& runs) {
  std::string text;
  std::int64_t tokens = 0;
  for (const CampaignRun& run : runs) {
    const std::string from =
        run.trunk < 0 ? "from scratch"
                      : fmt::format("from step {} of {}", run.at, runs[static_cast<std::size_t>(run.trunk)].out);
    text += fmt::format("{}: {}, {} steps {}\n", run.out, run_title(run.config), run.steps(), from);
    tokens += run.steps() * run.config.tokens();
  }
  return text + fmt::format("{} runs, {:.1f} M tokens\n", runs.size(), static_cast<double>(tokens) * 1e-6);
}

// The folder of the runs may be new, in one that is there: that is looked at before data is read, and it is made after.
void require_place(const std::string& folder) {
  std::filesystem::path path(folder);
  if (!path.has_filename()) path = path.parent_path();
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  if (!is_folder(folder) && !is_folder(parent))
    throw Error(ErrorKind::usage, folder + ": there is no folder " + parent + " to make it in");
}
void make_folder(const std::string& folder) {
  std::error_code error;
  if (!is_folder(folder)) std::filesystem::create_directory(folder, error);
  if (is_folder(folder)) return;
  throw Error(ErrorKind::usage,
              folder + ": cannot be made: " + (error ? error.message() : "there is a file of that name"));
}

int run_command(const CampaignCommand& o) {
  const Campaign campaign = read_campaign(o.file);
  const std::vector<CampaignRun> runs = runs_of(campaign, o.folder);
  if (o.lists) {
    print(list_text(runs));
    return 0;
  }
  require_place(o.folder);
  const Corpus corpus = !o.data.empty()                     ? corpus_at(o.data)
                        : campaign.preset == kVerdictPreset ? english_corpus()
                                                            : boost_corpus();
  make_folder(o.folder);
  const std::shared_ptr<TrainingGpus> gpus = parity_gpus(o.engine);
  const int at_once = o.at_once > 0 ? o.at_once : kAtOnce * (gpus == nullptr ? 1 : std::max(1, gpus->count()));
  const EngineMaker engine = [&](const TrainingConfig& config) {
    return parity_engine(o.engine, config, campaign.plan.validation_sequences, o.threads, gpus);
  };
  const auto begun = std::chrono::steady_clock::now();
  bool ended = false;
  CampaignProgress last;
  {
    const StopOnSignal stop;
    Progress line("campaign");
    ended = run_campaign(runs, corpus, engine, {at_once, parity_version(), o.keeps_checkpoints},
                         [&](const CampaignProgress& p) {
                           last = p;
                           line.now(fmt::format("{} of {} runs, {}", p.runs_done, p.runs, p.now),
                                    static_cast<double>(p.tokens_done) / static_cast<double>(p.tokens));
                           return StopOnSignal::asked() == 0;
                         });
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  print(fmt::format("{}: {} runs, {}; {:.1f} M tokens in {:.1f} s, {:.2f} M a second\n", o.folder, runs.size(),
                    ended ? "all ended" : "stopped: start it again to go on",
                    static_cast<double>(last.tokens_own) * 1e-6, seconds,
                    static_cast<double>(last.tokens_own) * 1e-6 / seconds));
  return ended ? 0 : 128 + StopOnSignal::asked();
}

}  // namespace

void add_parity_campaign(Command& parity) {
  auto o = std::make_shared<CampaignCommand>();
  Command sub =
      parity.subcommand("campaign", "All runs of one text: trunks, branches and runs from scratch, several at once");
  sub.option("CAMPAIGN", o->file, "The text, JSON: docs/parity.md has an example").required();
  sub.option("-o,--output", o->folder, "A folder for the runs; what is there already is not done again")
      .required()
      .not_empty();
  sub.option("--data", o->data, "Text to train on (default: that of the preset)").not_empty();
  sub.option("--engine", o->engine, "What computes: cpu, sm90 (a Hopper GPU), or a library of kernels/train.h")
      .shows_default()
      .not_empty();
  sub.option("--at-once", o->at_once, "Runs at a time, of all GPUs together; 0: five on each GPU, or on the CPU")
      .shows_default()
      .between(0, 512);
  sub.option("--threads", o->threads, "Of the CPU for each run; 0: all; they change no bit").between(0, 1024);
  sub.flag("--keep-checkpoints", o->keeps_checkpoints, "Leave the states that runs branched off from");
  sub.flag("--list", o->lists, "Say which runs it has, and compute none");
  sub.footer("Stopped or killed, it goes on when it is started again.");
  sub.exits({{0, "all runs ended"}, {130, "stopped by Ctrl-C"}});
  sub.runs([o] { return run_command(*o); });
}

}  // namespace mxcheck
