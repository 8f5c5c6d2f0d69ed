#pragma once
// The reference as a candidate in this process, and the same with one thing spoilt: a law must hold for the first and
// name what is wrong with the second.
//
//   EXPECT_EQ(found("the_sign_changes_codes_and_nothing_else", c), "");
//   EXPECT_EQ(found("the_sign_changes_codes_and_nothing_else", c, [](const Call&, int, Outcome& o) { ... }), "codes of
//   -x ...");

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "properties/records/replay.h"
#include "tests/properties/drawn.h"

namespace mxcheck::test {

// number: of the call, from 1.
using Spoil = std::function<void(const Call& call, int number, Outcome& outcome)>;

class SpoiltRunner final : public CandidateRunner {
 public:
  explicit SpoiltRunner(Spoil spoil) : spoil_(std::move(spoil)) {}
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call& call) override {
    Outcome outcome = reference_.run(call);
    ++calls_;
    if (spoil_) spoil_(call, calls_, outcome);
    return outcome;
  }
  void restart() override {}
  [[nodiscard]] int calls() const { return calls_; }

 private:
  CandidateInfo info_;  // no operations: no limits
  ReferenceRunner reference_{info_};
  Spoil spoil_;
  int calls_ = 0;
};

// The finding of a statement; empty where it holds, "nothing" where it has nothing to say.
inline std::string found_in(CandidateRunner& runner, std::string_view statement, const Case& c) {
  CheckContext context{runner, {}};
  const std::optional<Finding> finding = statement_named(statement).check(context, c);
  if (finding) return finding->summary;
  return context.not_applicable || context.not_offered ? "nothing" : "";
}
inline std::string found(std::string_view statement, const Case& c, Spoil spoil = {}) {
  SpoiltRunner runner(std::move(spoil));
  return found_in(runner, statement, c);
}

}  // namespace mxcheck::test
