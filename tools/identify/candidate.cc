// A library behind the candidate interface, in a process of its own.

#include <unistd.h>

#include <chrono>

#include "numerics/error.h"
#include "properties/identify/library/library.h"
#include "tools/common/text.h"
#include "tools/identify/identify.h"

namespace mxcheck {
namespace {

std::chrono::milliseconds seconds(double value, const char* flag) {
  if (!(value >= 0.1 && value <= 86'400))
    throw Error(ErrorKind::usage, std::string(flag) + " must be from 0.1 to 86400 seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

int code_of(const LibraryReport& report) {
  if (report.ended() != 0) return 6;
  if (report.policies.empty()) return 4;
  return report.holding() == report.policies.size() ? 0 : 1;
}

}  // namespace

int identify_candidate(const IdentifyOptions& o) {
  TimeLimits limits(seconds(o.time_limit, "--time-limit"));
  limits.first_call = seconds(o.first_call_limit, "--first-call-limit");
  const std::string tool = own_executable();
  LibraryQuestion question;
  question.op = o.op, question.only = o.only;
  question.always_tree = o.order || !o.svg.empty();
  check_operation(question);
  CandidateProcess process(tool, find_candidate_library(o.candidate, tool), limits);
  if (!o.json) print(header_text(process.info()));
  const SumTree* tree = nullptr;
  std::string title;
  const LibraryReport report = identify_library(process, question, [&](const PolicyReport& p) {
    if (!o.json) print(to_text(p));
  });
  if (o.json) {
    print_json(to_json(report));
  } else {
    print(summary_text(report));
  }
  if (o.svg.empty()) return code_of(report);
  for (const PolicyReport& p : report.policies) {
    if (tree != nullptr || !p.order || !p.order->tree) continue;
    tree = &*p.order->tree;
    title = p.policy;
  }
  if (tree == nullptr) throw Error(ErrorKind::usage, "there is no picture for " + o.svg + ": no product has a tree");
  write_picture(o, *tree, title);
  return code_of(report);
}

}  // namespace mxcheck
