#pragma once
// A record, replayed on a machine without the device that it was made on: every statement's check runs again on every
// case, the candidate's answers are the reference's, and each must have the digest of what the device returned.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "properties/core/operation.h"
#include "properties/records/record.h"

namespace mxcheck {

struct ReplayedStatement {
  std::string name;
  std::int64_t cases = 0;
  std::int64_t calls = 0;
  std::int64_t outputs = 0;              // compared by their digests
  std::vector<std::string> differences;  // each a line: the case, the call, the output; at most 5 are kept
  std::int64_t different = 0;            // cases
};

struct ReplayReport {
  std::vector<ReplayedStatement> statements;
  std::vector<std::string> unknown;  // statements of the record that this mxcheck does not have
  double seconds = 0;
  [[nodiscard]] bool equal() const;
  [[nodiscard]] std::int64_t cases() const;
};

// Threads (0: the machine's) change nothing but the time. `finished` is called for each statement, in order.
ReplayReport replay(const Record& record, int threads, const std::function<void(const ReplayedStatement&)>& finished);

// The reference's answer to a call of the candidate interface, read from the call's own tensors.

// The problem that a call poses: x is gathered where there is a row index. Error{internal} for a call that no statement
// makes of a good case (wrong types, missing tensors).
std::unique_ptr<Problem> problem_of(const Call& call);

// The reference as a candidate that is always right; of `info`.
class ReferenceRunner final : public CandidateRunner {
 public:
  explicit ReferenceRunner(const CandidateInfo& info) : info_(info) {}
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call& call) override;
  void restart() override {}

 private:
  const CandidateInfo& info_;
};

}  // namespace mxcheck
