#pragma once
// A candidate that is written down as it answers: the gate asks this one, and says where cases begin and end.

#include <string>
#include <utility>
#include <vector>

#include "properties/process/candidate_process.h"
#include "properties/records/record.h"

namespace mxcheck {

class RecordingRunner final : public CandidateRunner {
 public:
  explicit RecordingRunner(CandidateRunner& candidate) : candidate_(candidate) {}

  [[nodiscard]] const CandidateInfo& info() const override { return candidate_.info(); }
  Outcome run(const Call& call) override;
  void restart() override { candidate_.restart(); }
  std::string end_in_order() override { return candidate_.end_in_order(); }
  [[nodiscard]] std::string why_no_model() const override { return candidate_.why_no_model(); }

  void begin_case() { calls_.clear(), small_.clear(); }
  // The calls since begin_case, as those of this case.
  void keep_case(const std::string& statement, const Case& c);

  // Cases and outputs so far; suite, seed and variants are the caller's.
  Record take();

 private:
  CandidateRunner& candidate_;
  Record record_;
  std::vector<RecordedCall> calls_;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> small_;  // output's number in the case, and its bytes
  std::uint32_t outputs_ = 0;                                          // of all cases
  std::size_t kept_of_statement_ = 0;
};

}  // namespace mxcheck
