// mxcheck parity audit: one step of a recorded run, computed again.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "numerics/error.h"
#include "tools/common/json.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/parity/parity.h"
#include "trainer/audit/audit.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/run_file.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

struct Options {
  std::string file, checkpoint, data;
  std::int64_t step = 0;
  int threads = 0;
  bool evaluates = false, json = false;
};

// The checkpoint that is given, or the nearest kept one at or before the step that lies beside the run; none: the
// initial state.
std::string checkpoint_for(const Options& o, const RunRecord& run) {
  if (!o.checkpoint.empty()) return o.checkpoint;
  std::string nearest;
  for (const std::int64_t step : run.plan.kept) {
    const std::string path = kept_checkpoint_of(o.file, step);
    if (step <= o.step && std::filesystem::exists(path)) nearest = path;
  }
  return nearest;
}

std::string result_text(const Options& o, const RunRecord& run, const AuditResult& result, const std::string& from) {
  std::string text = fmt::format("{}: {}, step {}, computed from {}\n", o.file, run_title(run.config), o.step,
                                 from.empty() ? "the initial state" : from);
  std::size_t width = 0, differ = 0;
  for (const AuditLine& line : result.lines) {
    width = std::max(width, line.what.size());
    differ += line.equal() ? 0 : 1;
  }
  for (const AuditLine& line : result.lines) {
    const std::string place = line.step == o.step ? "" : fmt::format("step {}: ", line.step);
    text += fmt::format("  {:<{}}  {}\n", place + line.what, width,
                        line.equal() ? line.recorded + "  equal"
                                     : fmt::format("recorded {}, computed {}  DIFFERS", line.recorded, line.computed));
  }
  if (!result.has_witness) text += "  no digests of tensors and layers were recorded for this step\n";
  text += fmt::format("{}: {} of {} recorded facts are computed again, {} step{} in {:.1f} s\n",
                      result.passed() ? "equal" : "DIFFERENT", result.lines.size() - differ, result.lines.size(),
                      o.step - result.first + 1, o.step == result.first ? "" : "s", result.seconds);
  return text;
}

Json result_json(const Options& o, const AuditResult& result, const std::string& from) {
  Json json{{"file", o.file},
            {"step", o.step},
            {"from", from},
            {"first_step", result.first},
            {"equal", result.passed()},
            {"has_witness", result.has_witness},
            {"seconds", result.seconds}};
  json["facts"] = Json::array();
  for (const AuditLine& line : result.lines) {
    json["facts"].push_back({{"step", line.step},
                             {"what", line.what},
                             {"recorded", line.recorded},
                             {"computed", line.computed},
                             {"equal", line.equal()}});
  }
  return json;
}

int run(const Options& o) {
  const RunRecord run = read_run(o.file);
  const std::string from = checkpoint_for(o, run);
  AuditRequest request;
  request.run = &run;
  request.step = o.step;
  request.evaluates = o.evaluates;
  if (!from.empty()) {
    Checkpoint checkpoint = read_checkpoint(from);
    check_belongs(checkpoint, run, from);
    request.checkpoint = std::move(checkpoint.state);
  }
  const Corpus corpus = corpus_of(o.data);
  request.corpus = &corpus;
  const std::unique_ptr<TrainingEngine> engine = cpu_engine(run.config, o.threads);
  AuditResult result;
  {
    Progress progress("auditing");
    in_place(o.file, [&] {
      result = audit_step(std::move(request), *engine, [&](std::int64_t step) {
        progress.now(fmt::format("computing step {} of {}", step, o.step));
      });
    });
  }
  if (o.json) {
    print_json(result_json(o, result, from));
  } else {
    print(result_text(o, run, result, from));
  }
  return result.passed() ? 0 : 1;
}

}  // namespace

void add_parity_audit(Command& parity) {
  auto o = std::make_shared<Options>();
  Command sub = parity.subcommand("audit", "Compute a recorded step again on the CPU: every bit must agree");
  sub.option("RUN", o->file, "The run's file").required();
  sub.option("--step", o->step, "Which step, from 0").required().between(0, std::int64_t{1} << 40);
  sub.option("--checkpoint", o->checkpoint,
             "State to begin with (default: the nearest kept one beside RUN, or the start)");
  sub.option("--data", o->data, "What the run was trained on (default: the headers of Boost 1.74)");
  sub.option("--threads", o->threads, "0: all; they change no bit").between(0, 1024);
  sub.flag("--evaluations", o->evaluates, "Compute the evaluation before the step, too, and the one after the last");
  sub.flag("--json", o->json, "As JSON");
  sub.footer("Exit codes: 0 every recorded fact of the step is computed again; 1 one is not.");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
