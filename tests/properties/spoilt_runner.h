#pragma once
// The reference as a candidate in this process, and the same with one thing spoilt: a law must hold for the first and
// name what is wrong with the second.
//
//   EXPECT_EQ(found("the_sign_changes_codes_and_nothing_else", c), "");
//   EXPECT_EQ(found("the_sign_changes_codes_and_nothing_else", c, [](const Call&, int, Outcome& o) { ... }), "codes of
//   -x ...");

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/records/replay.h"
#include "tests/properties/drawn.h"

namespace mxcheck::test {

// number: of the call, from 1.
using Spoil = std::function<void(const Call& call, int number, Outcome& outcome)>;

class SpoiltRunner final : public CandidateRunner {
 public:
  // operations: of the candidate's table; those that are not listed have no limits.
  explicit SpoiltRunner(Spoil spoil, std::vector<OperationInfo> operations = {}) : spoil_(std::move(spoil)) {
    info_.operations = std::move(operations);
  }
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
  CandidateInfo info_;
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

// One bit of an output of the calls from this number on, or of that one alone: of the middle, or so many bytes from the
// end.
struct BitOfCalls {
  bool alone = false;
  std::size_t from_end = 0;
};
inline Spoil bit_of(std::size_t output, int from, BitOfCalls which = {}) {
  return [=](const Call&, int number, Outcome& outcome) {
    if (number < from || (which.alone && number != from) || output >= outcome.outputs.size()) return;
    std::vector<std::byte>& bytes = outcome.outputs[output];
    bytes[which.from_end == 0 ? bytes.size() / 2 : bytes.size() - which.from_end] ^= std::byte{0x40};
  };
}

// Every statement of the module of this operation holds for the reference on those of the cases that it is about;
// drawn: whose data it draws.
inline void expect_module_holds(std::string_view operation, std::size_t statements, const std::vector<Case>& cases,
                                bool drawn) {
  for (const OperationModule& module : all_modules()) {
    if (module.operations.front()->name() != operation) continue;
    EXPECT_EQ(module.statements.size(), statements);
    for (const Statement& s : module.statements) {
      for (const Case& c : cases) {
        if (drawn && std::find(s.data.begin(), s.data.end(), c.data) == s.data.end()) continue;
        if (!s.applies(c.variant, operation_named(c.variant.operation).askable(c.variant.operation))) continue;
        const std::string summary = found(s.name, c);
        EXPECT_TRUE(summary.empty() || summary == "nothing") << s.name << ": " << summary << ' ' << to_text(c);
      }
    }
  }
}

}  // namespace mxcheck::test
