#pragma once
// The reference's answer to a call of the candidate interface, read from the call's own tensors.

#include <memory>

#include "properties/core/operation.h"

namespace mxcheck {

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
