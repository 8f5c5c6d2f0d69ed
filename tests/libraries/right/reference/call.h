#pragma once
// A call of the C interface as the gate's own Call, for a library that answers with the reference. Refusals are
// Refusal, as in kernels/common: what is read from here on lies within the tensors.

#include <stdexcept>
#include <string>

#include "kernels/candidate.h"
#include "properties/core/operation.h"

namespace mxcheck::candidates {

class Refusal : public std::runtime_error {
 public:
  Refusal(mxcheck_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  [[nodiscard]] mxcheck_status status() const noexcept { return status_; }

 private:
  mxcheck_status status_;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw Refusal(MXCHECK_INVALID, what);
}

// The policy as bytes and texts; `like` is a policy of the same operation, which knows where the struct has texts.
Policy policy_of(const mxcheck_policy* from, const Policy& like);

// Two policies, whatever the thread counts.
bool asks_for_the_same(const Policy& a, const Policy& b);

// Pointers into the caller's tensors. `like`: as above.
Call call_of(const mxcheck_call& from, const std::string& operation, const Policy& like);

// The problem of a call that is right in all that can be seen without computing: its shapes, types, policy, offsets and
// row index.
std::unique_ptr<Problem> checked_problem_of(const Call& call);

}  // namespace mxcheck::candidates
