#pragma once
// A candidate of which only its limits are asked, to make cases for.

#include <string>
#include <utility>

#include "properties/core/candidate.h"

namespace mxcheck::test {

class LimitsOnly final : public CandidateRunner {
 public:
  explicit LimitsOnly(OperationInfo operation) { info_.operations.push_back(std::move(operation)); }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call&) override { return {}; }
  void restart() override {}

 private:
  CandidateInfo info_;
};

}  // namespace mxcheck::test
