#include "properties/records/replay.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/limits.h"
#include "properties/core/statement.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostDifferences = 5;

std::string hex(const OutputDigest& d) { return fmt::format("{:08x}{:08x}{:08x}{:08x}", d[0], d[1], d[2], d[3]); }

// Outputs from so many bytes on are those of the statement, which asked the reference for the same call: computing them
// twice was half of a replay. Smaller ones are computed from the call's own tensors, so that these are looked at too.
constexpr std::size_t kLargeAnswer = std::size_t{1} << 16;

std::vector<ExpectedTensor> answer_to(const Call& call) {
  if (call.answered_as != nullptr) return answer_to(*call.answered_as);
  if (call.answer != nullptr) {
    std::size_t bytes = 0;
    for (const ExpectedTensor& t : *call.answer) bytes += t.bytes.size();
    if (bytes >= kLargeAnswer) return *call.answer;
  }
  return problem_of(call)->answer();
}

// Answers with the reference and compares with the record. One case at a time.
class ReplayRunner final : public CandidateRunner {
 public:
  ReplayRunner(const CandidateInfo& info, const std::map<std::uint32_t, const KeptOutput*>& kept)
      : info_(info), kept_(kept) {}

  void begin(const RecordedCase& c, std::uint32_t first_output) {
    case_ = &c, next_ = 0, output_ = first_output, difference_.clear(), outputs_ = 0;
  }
  // The first difference of the case from the record, or nothing.
  [[nodiscard]] std::string end() const {
    if (!difference_.empty()) return difference_;
    if (next_ == case_->calls.size()) return "";
    return fmt::format("{} calls are recorded, and the statement makes {}", case_->calls.size(), next_);
  }
  [[nodiscard]] std::int64_t outputs() const { return outputs_; }

  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  void restart() override {}

  Outcome run(const Call& call) override {
    Outcome outcome;
    if (next_ == case_->calls.size()) {
      note(fmt::format("{} calls are recorded, and the statement makes more", next_));
      outcome.status = MXCHECK_FAILED;
      return outcome;
    }
    const RecordedCall& recorded = case_->calls[next_++];
    outcome.status = recorded.status;
    if (recorded.status != MXCHECK_OK) {
      outcome.message = "as recorded";
      outcome.outputs_untouched = true;
      for (const CallTensor& t : call.outputs) outcome.outputs.emplace_back(t.bytes, std::byte{call.poison});
      return outcome;
    }
    std::vector<ExpectedTensor> answer = answer_to(call);
    if (answer.size() != recorded.outputs.size()) note(fmt::format("call {} has another number of outputs", next_));
    for (std::size_t i = 0; i < answer.size(); ++i) {
      if (nans_are_equal(call.operation)) make_nans_equal(answer[i].bytes, call.outputs[i]);
      if (i < recorded.outputs.size()) compare(i, answer[i], recorded.outputs[i]);
      outcome.outputs.push_back(std::move(answer[i].bytes));
    }
    output_ += static_cast<std::uint32_t>(recorded.outputs.size());
    return outcome;
  }

 private:
  void compare(std::size_t i, const ExpectedTensor& answer, const OutputDigest& recorded) {
    ++outputs_;
    const auto kept = kept_.find(output_ + static_cast<std::uint32_t>(i));
    if (kept != kept_.end() && kept->second->bytes != answer.bytes) {
      const auto& bytes = kept->second->bytes;
      const auto [mine, theirs] = std::mismatch(answer.bytes.begin(), answer.bytes.end(), bytes.begin(), bytes.end());
      const bool cut = mine == answer.bytes.end() || theirs == bytes.end();
      return note(fmt::format("call {}, {}: {} of byte {}", next_, answer.info.name,
                              cut ? "another size; differs from"
                                  : fmt::format("the device returned {:#04x}, the reference {:#04x},",
                                                std::to_integer<int>(*theirs), std::to_integer<int>(*mine)),
                              mine - answer.bytes.begin()));
    }
    const OutputDigest own = digest_of(answer.bytes);
    if (own == recorded) return;
    note(fmt::format("call {}, {}: the device's bytes have digest {}, the reference's {}", next_, answer.info.name,
                     hex(recorded), hex(own)));
  }
  void note(const std::string& what) {
    if (difference_.empty()) difference_ = what;
  }

  const CandidateInfo& info_;
  const std::map<std::uint32_t, const KeptOutput*>& kept_;
  const RecordedCase* case_ = nullptr;
  std::size_t next_ = 0;
  std::uint32_t output_ = 0;
  std::int64_t outputs_ = 0;
  std::string difference_;
};

struct CaseResult {
  std::int64_t outputs = 0;
  std::string difference;
};

// The result of the check, as one line.
std::string check(const Statement& s, CheckContext& context, ReplayRunner& runner, const RecordedCase& c) {
  // A forged record may hold cases that no gate would have drawn.
  if (!s.applies(c.c.variant, context.variants) || !is_within_limits(c.c, *runner.operation(c.c.variant.operation))) {
    return "the statement is not about this case";
  }
  try {
    const std::optional<Finding> finding = s.check(context, c.c);
    std::string difference = runner.end();
    if (difference.empty() && finding) difference = finding->summary;
    return difference;
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

bool ReplayReport::equal() const {
  return unknown.empty() &&
         std::all_of(statements.begin(), statements.end(), [](const auto& s) { return s.different == 0; });
}

std::int64_t ReplayReport::cases() const {
  return std::accumulate(statements.begin(), statements.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& s) { return sum + s.cases; });
}

namespace {

using KeptOutputs = std::map<std::uint32_t, const KeptOutput*>;

// The cases `mine` of one statement, shared out among threads.
void replay_cases(const Record& record, const Statement& statement, const std::vector<std::size_t>& mine,
                  const KeptOutputs& kept, const std::vector<std::uint32_t>& first_output, std::size_t workers,
                  std::vector<CaseResult>& results) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(workers);
  const auto replay_some = [&] {
    ReplayRunner runner(record.candidate, kept);
    ReferenceRunner other(record.candidate);  // what the CPU library answered is not in a record
    CheckContext context{runner, record.variants, &other};
    for (std::size_t i = next++; i < mine.size(); i = next++) {
      const RecordedCase& c = record.cases[mine[i]];
      runner.begin(c, first_output[mine[i]]);
      results[mine[i]].difference = check(statement, context, runner, c);
      results[mine[i]].outputs = runner.outputs();
    }
  };
  const auto work = [&](std::size_t worker) {  // out of memory, say, must not end the process
    try {
      replay_some();
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (std::size_t i = 1; i < workers; ++i) pool.emplace_back(work, i);
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

ReplayedStatement told(const Record& record, const std::string& name, const std::vector<std::size_t>& mine,
                       const std::vector<CaseResult>& results) {
  ReplayedStatement done;
  done.name = name;
  for (const std::size_t i : mine) {
    ++done.cases;
    done.calls += static_cast<std::int64_t>(record.cases[i].calls.size());
    done.outputs += results[i].outputs;
    if (results[i].difference.empty()) continue;
    ++done.different;
    if (done.differences.size() < kMostDifferences) {
      done.differences.push_back(to_text(record.cases[i].c) + "\n            " + results[i].difference);
    }
  }
  return done;
}

}  // namespace

ReplayReport replay(const Record& record, int threads, const std::function<void(const ReplayedStatement&)>& finished) {
  const auto start = std::chrono::steady_clock::now();
  ReplayReport report;
  KeptOutputs kept;
  for (const KeptOutput& k : record.kept) kept.emplace(k.number, &k);
  std::vector<std::uint32_t> first_output;
  std::uint32_t outputs = 0;
  for (const RecordedCase& c : record.cases) {
    first_output.push_back(outputs);
    for (const RecordedCall& call : c.calls) outputs += static_cast<std::uint32_t>(call.outputs.size());
  }
  std::vector<CaseResult> results(record.cases.size());
  const std::size_t workers =
      threads > 0 ? static_cast<std::size_t>(threads) : std::max<std::size_t>(1, std::thread::hardware_concurrency());
  for (std::uint32_t number = 0; number < record.statements.size(); ++number) {
    const std::string& name = record.statements[number];
    const auto& all = all_statements();
    const auto s = std::find_if(all.begin(), all.end(), [&](const Statement& one) { return one.name == name; });
    if (s == all.end() || !s->recorded) {
      report.unknown.push_back(name);
      continue;
    }
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < record.cases.size(); ++i) {
      if (record.cases[i].statement == number) mine.push_back(i);
    }
    replay_cases(record, *s, mine, kept, first_output, workers, results);
    ReplayedStatement done = told(record, name, mine, results);
    finished(done);
    report.statements.push_back(std::move(done));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::unique_ptr<Problem> problem_of(const Call& call) {
  if (call.inputs.empty() || call.outputs.empty()) throw Error(ErrorKind::internal, "a call without tensors");
  return operation_named(call.operation).problem_of(call);
}

Outcome ReferenceRunner::run(const Call& call) {
  Outcome outcome;
  const Call& asked = call.answered_as != nullptr ? *call.answered_as : call;
  for (ExpectedTensor& tensor : problem_of(asked)->answer()) outcome.outputs.push_back(std::move(tensor.bytes));
  return outcome;
}

}  // namespace mxcheck
