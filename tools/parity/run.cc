// mxcheck parity run: trains, and records.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <exception>
#include <functional>
#include <memory>

#include "numerics/error.h"
#include "properties/process/candidate_process.h"
#include "tools/common/json.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/parity/parity.h"
#include "tools/parity/run_options.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/together.h"

namespace mxcheck {
namespace {

// SIGINT, SIGTERM or SIGHUP while there is one ask for an end after the step that is being computed; a second one of
// the same kind ends the process at once, which costs nothing that was recorded. What came before takes its place again
// at the end.
class StopOnSignal {
 public:
  StopOnSignal() {
    asked() = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = [](int signal) { asked() = signal; };
      action.sa_flags = static_cast<int>(SA_RESETHAND);
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup stays nohup
    }
  }
  ~StopOnSignal() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static std::atomic<int>& asked() {
    static std::atomic<int> signal = 0;
    return signal;
  }

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

std::string loss_text(std::uint32_t bits) { return fmt::format("{:.4f}", std::bit_cast<float>(bits)); }

std::string outcome_text(const RunRecord& run, const std::string& output) {
  const auto tokens = static_cast<double>(std::ssize(run.steps) * run.config.tokens());
  std::string text = fmt::format("{}: {}, {} of {} steps, {}\n", output, run_title(run.config), run.steps.size(),
                                 run.config.steps, to_text(run.end));
  if (!run.steps.empty())
    text += fmt::format("loss        {} to {}\n", loss_text(run.steps.front().loss), loss_text(run.steps.back().loss));
  if (!run.evaluations.empty()) {
    const RecordedEvaluation& last = run.evaluations.back();
    text += fmt::format("validation  {} with BF16 layers, {} under the recipe, after {} steps\n",
                        loss_text(last.loss_bf16), loss_text(last.loss_own), last.step);
  }
  text +=
      fmt::format("speed       {:.0f} tokens a second over {:.1f} s in {} sitting{}\n",
                  run.seconds > 0 ? tokens / run.seconds : 0, run.seconds, run.sittings, run.sittings == 1 ? "" : "s");
  if (run.end == RunEnd::unfinished) text += fmt::format("go on with  mxcheck parity run --resume -o {}\n", output);
  return text;
}

Json outcome_json(const RunRecord& run, const std::string& output) {
  Json json{{"output", output},
            {"end", to_text(run.end)},
            {"steps", run.steps.size()},
            {"seconds", run.seconds},
            {"sittings", run.sittings}};
  if (!run.steps.empty()) json["loss"] = json_number(std::bit_cast<float>(run.steps.back().loss));
  if (!run.evaluations.empty()) {
    json["validation_loss_bf16"] = json_number(std::bit_cast<float>(run.evaluations.back().loss_bf16));
    json["validation_loss_own"] = json_number(std::bit_cast<float>(run.evaluations.back().loss_own));
  }
  return json;
}

std::unique_ptr<TrainingEngine> engine_of(const ParityRunOptions& o, const RunRequest& r) {
  if (o.engine == "cpu") return cpu_engine(r.config, o.threads);
  // "sm90": libmxcheck_sm90_train.so, where the gate's libraries are.
  const bool is_path = o.engine.find('/') != std::string::npos || o.engine.ends_with(".so");
  const std::string library = find_candidate_library(is_path ? o.engine : o.engine + "_train", own_executable());
  return device_engine(r.config, library, std::min(r.plan.validation_sequences, kSequencesAtOnce), o.threads);
}

// The runs under way as one line: the step of the one that is furthest behind, and the speed of all.
class Display {
 public:
  explicit Display(const std::vector<RunInCompany>& runs) : runs_(runs), last_(runs.size()) {
    for (std::size_t i = 0; i < runs.size(); ++i) last_[i].steps = runs[i].request.config.steps;
  }

  bool operator()(std::size_t i, const RunProgress& p) {
    last_[i] = p;
    const auto behind = std::min_element(last_.begin(), last_.end(), [](const RunProgress& a, const RunProgress& b) {
      return a.step * b.steps < b.step * a.steps;
    });
    double speed = 0;
    for (const RunProgress& run : last_) speed += run.seconds > 0 ? static_cast<double>(run.tokens) / run.seconds : 0;
    const RunRequest& of = runs_[static_cast<std::size_t>(behind - last_.begin())].request;
    const std::string others = runs_.size() == 1 ? "" : fmt::format(" and {} more", runs_.size() - 1);
    line_.now(fmt::format("{}{}: step {} of {}, loss {:.4f}, {:.0f} tokens a second", run_title(of.config), others,
                          behind->step, of.config.steps, behind->loss, speed),
              static_cast<double>(behind->step) / static_cast<double>(of.config.steps));
    return StopOnSignal::asked() == 0;
  }

 private:
  const std::vector<RunInCompany>& runs_;
  std::vector<RunProgress> last_;
  Progress line_{"training"};
};

// Of runs that did not end by an error.
void print_outcomes(const ParityRunOptions& o, const std::vector<RunInCompany>& runs,
                    const std::vector<RunInCompanyEnd>& ends) {
  std::vector<Json> all;
  std::string text;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].error) continue;
    text += (text.empty() ? "" : "\n") + outcome_text(ends[i].record, runs[i].request.out);
    all.push_back(outcome_json(ends[i].record, runs[i].request.out));
  }
  if (o.json && !o.seeds.empty()) {
    print_json(Json(all));
  } else if (o.json && !all.empty()) {
    print_json(all.front());
  } else if (!o.json) {
    print(ends.empty() ? "every run of these seeds has ended\n" : text);
  }
}

// The first one, with how many others there are; each run's own says which file it is of.
void throw_first_error(const std::vector<RunInCompanyEnd>& ends) {
  const auto failed = [](const RunInCompanyEnd& end) { return end.error != nullptr; };
  const auto first = std::find_if(ends.begin(), ends.end(), failed);
  if (first == ends.end()) return;
  const auto others = std::count_if(first + 1, ends.end(), failed);
  if (others == 0) std::rethrow_exception(first->error);
  try {
    std::rethrow_exception(first->error);
  } catch (const Error& e) {
    throw Error(e.kind(), fmt::format("{} ({} of the other runs failed, too)", e.what(), others));
  }
}

int run(const ParityRunOptions& o) {
  // Options are refused before 131 MB are read.
  const Corpus none;
  std::vector<RunInCompany> runs;
  for (RunRequest& request : requests_of(o, none)) runs.push_back({std::move(request), nullptr});
  const Corpus corpus = runs.empty() ? none : corpus_of(o.data);
  for (RunInCompany& r : runs) r.request.corpus = &corpus, r.engine = engine_of(o, r.request);
  std::vector<RunInCompanyEnd> ends;
  {
    const StopOnSignal stop;
    Display display(runs);
    ends = run_together(runs, std::ref(display));
  }
  print_outcomes(o, runs, ends);
  throw_first_error(ends);
  const auto has = [&](RunEnd end) {
    return std::any_of(ends.begin(), ends.end(), [&](const RunInCompanyEnd& e) { return e.record.end == end; });
  };
  if (StopOnSignal::asked() != 0 && has(RunEnd::unfinished)) return 128 + StopOnSignal::asked();
  return has(RunEnd::diverged) ? 1 : 0;
}

}  // namespace

void add_parity_run(Command& parity) {
  auto o = std::make_shared<ParityRunOptions>();
  Command sub = parity.subcommand("run", "Train a language model with MoE layers under a recipe, every step recorded");
  add_options(sub, *o);
  sub.footer(
      "Ctrl-C ends the run after the step it is at, a second one at once; --resume goes on, and gives the bits of a "
      "run\n"
      "that was never stopped. Exit codes: 0 finished; 1 diverged (recorded as such); 130 stopped by Ctrl-C.");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
