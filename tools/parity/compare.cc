// mxcheck parity compare: the verdict on recipes from runs with several seeds.

#include <memory>
#include <optional>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/parity/parity.h"
#include "trainer/compare/comparison.h"
#include "trainer/record/run_file.h"
#include "trainer/report/html.h"
#include "trainer/report/json.h"
#include "trainer/report/text.h"

namespace mxcheck {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string html;
  ComparisonOptions rule;
  bool json = false;
};

void check_html(const Options& o) {
  const bool is_html = o.html.ends_with(".html") || o.html.ends_with(".htm");
  if (!o.html.empty() && !is_html) throw Error(ErrorKind::usage, "--html " + o.html + ": name the page FILE.html");
}

int run(const Options& o) {
  check_html(o);
  std::optional<AtomicFile> page;
  if (!o.html.empty()) page.emplace(o.html);
  std::vector<NamedRun> runs;
  {
    Progress progress("reading runs");
    for (const std::string& file : o.files) {
      progress.now("reading " + file);
      runs.push_back({file, read_run(file)});
    }
  }
  const ParityComparison comparison = compare_runs(runs, o.rule);
  if (page) {
    page->write(comparison_html(comparison));
    page->complete();
  }
  print_at_once(o.json ? comparison_json(comparison) : comparison_text(comparison));
  if (page) page->commit();
  return exit_code(comparison);
}

}  // namespace

void add_parity_compare(Command& parity) {
  auto o = std::make_shared<Options>();
  Command sub =
      parity.subcommand("compare", "Is training under a recipe as good as under BF16? From runs with several seeds");
  sub.option("RUNS", o->files, "Files of runs: bf16, bf16 with --perturb (A/A), broken (negative control), and others")
      .required();
  sub.option("--margin", o->rule.margin, "Relative loss that decides").shows_default();
  sub.option("--outer-margin", o->rule.outer_margin, "Of a second verdict beside the first").shows_default();
  sub.option("--html", o->html, "Also write FILE.html: one page with charts that needs nothing else").not_empty();
  sub.flag("--json", o->json, "Every number as JSON");
  sub.footer(
      "docs/parity_rule.md has the rule. Exit codes: 0 every judged arm is non-inferior or equivalent; 1 one is\n"
      "inferior, diverged, or better by more than the margin; 4 inconclusive, which is no success.");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
