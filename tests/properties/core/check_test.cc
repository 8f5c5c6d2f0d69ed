#include "properties/core/check.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "kernels/candidate.h"

namespace mxcheck {
namespace {

// Answers calls as the function says, in this process.
class Scripted final : public CandidateRunner {
 public:
  explicit Scripted(std::function<Outcome(const Call&)> answer) : answer_(std::move(answer)) {
    info_.operations = {{"quantize", "exact", 100, 100, 1, 1}};
  }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call& call) override { return ++calls, answer_(call); }
  void restart() override {}
  int calls = 0;

 private:
  CandidateInfo info_;
  std::function<Outcome(const Call&)> answer_;
};

const Case& plain() {
  static const Case c = parse_case("op=quantize block=1x32 rows=3 cols=40 data=normal seed=1");
  return c;
}

Outcome right(const Call& call) {
  Outcome outcome;
  for (ExpectedTensor& t : operation_named(call.operation).problem_of(call)->answer())
    outcome.outputs.push_back(std::move(t.bytes));
  return outcome;
}

Ran ran(const Outcome& outcome, const Case& c = plain()) {
  Scripted runner([&](const Call&) { return outcome; });
  return run_checked(runner, Call{}, c);
}

TEST(Check, whatever_a_call_may_not_do_is_a_finding) {
  Outcome o;
  EXPECT_TRUE(ran(o).outcome);
  EXPECT_FALSE(ran(o).finding);
  o.out_of_bounds = "past the last output";
  EXPECT_EQ(ran(o).finding->kind, FindingKind::out_of_bounds);
  o = {}, o.conduct = "it waited";
  EXPECT_EQ(ran(o).finding->summary, "it waited");
  o = {}, o.status = MXCHECK_INVALID, o.message = "no";
  EXPECT_EQ(ran(o).finding->kind, FindingKind::refused);
  EXPECT_NE(ran(o).finding->summary.find("status 2, \"no\""), std::string::npos);
  o = {}, o.kind = OutcomeKind::timed_out;
  EXPECT_EQ(ran(o).finding->kind, FindingKind::fault);
  o = {}, o.kind = OutcomeKind::crashed, o.signal = 11;
  EXPECT_NE(ran(o).finding->summary.find("died (signal 11"), std::string::npos);
}

TEST(Check, a_crash_is_tried_again_and_the_summary_says_how_that_went) {
  for (const bool confirmed : {false, true}) {
    int calls = 0;
    Scripted runner([&](const Call&) {
      Outcome o;
      if (++calls == 1 || confirmed) o.kind = OutcomeKind::crashed, o.signal = 6;
      return o;
    });
    const Ran r = run_checked(runner, Call{}, plain());
    EXPECT_EQ(runner.calls, 2);
    EXPECT_EQ(r.finding->summary.find("not in a fresh process") == std::string::npos, confirmed);
  }
}

TEST(Check, unsupported_is_an_answer_to_an_option_alone) {
  Outcome o;
  o.status = MXCHECK_UNSUPPORTED, o.outputs_untouched = true;
  EXPECT_TRUE(ran(o).finding);
  Case option = plain();
  option.experts = {0, 3};
  const Ran r = ran(o, option);
  EXPECT_FALSE(r.finding || r.outcome);
  o.outputs_untouched = false;  // it wrote before it refused
  EXPECT_TRUE(ran(o, option).finding);
}

TEST(Check, a_shape_beyond_the_limits_is_not_asked_for) {
  Scripted runner(right);
  CheckContext context{runner, {}};
  Case large = plain();
  large.cols = 101;
  const Got got = run_problem(context, *make_problem(large));
  EXPECT_EQ(runner.calls, 0);
  EXPECT_TRUE(got.outside_limits);
  EXPECT_FALSE(got.usable());
  EXPECT_FALSE(pass_on(context, got));
  EXPECT_TRUE(context.nothing_claimed);
  EXPECT_FALSE(context.not_offered);
}

TEST(Check, an_answer_is_compared_over_each_poison_and_a_difference_is_explained) {
  Scripted good(right);
  CheckContext context{good, {}};
  const std::unique_ptr<Problem> p = make_problem(plain());
  EXPECT_FALSE(equals_answer(context, *p, p->answer(), {}));
  EXPECT_EQ(good.calls, 2);
  EqualityOptions once;
  once.one_poison_above = 1;
  EXPECT_FALSE(equals_answer(context, *p, p->answer(), once));
  EXPECT_EQ(good.calls, 3);

  Scripted bad([](const Call& call) {
    Outcome o = right(call);
    if (call.poison == kPoisons[1]) o.outputs[0][7] ^= std::byte{1};  // the second run alone
    return o;
  });
  CheckContext thorough{bad, {}};
  thorough.thorough = true;
  EqualityOptions options;
  options.matches = [](const Problem&, const auto&) { return std::vector<std::string>{"recipe te"}; };
  const auto finding = equals_answer(thorough, *p, p->answer(), options);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->summary, "codes differ from the reference");
  EXPECT_EQ(finding->difference->first.col, 7);
  EXPECT_FALSE(finding->element.empty());
  EXPECT_FALSE(finding->relevant.empty());
  EXPECT_EQ(finding->matches, std::vector<std::string>{"recipe te"});
}

TEST(Check, a_case_chooses_what_its_workspace_holds) {
  std::set<int> met;  // a byte, or -1 for what the last call left
  Case c = plain();
  for (c.seed = 0; c.seed < 100; ++c.seed) {
    for (const std::uint8_t poison : kPoisons) {
      const WorkspaceFill fill = workspace_of(c, poison);
      EXPECT_EQ(fill.poison, workspace_of(c, poison).poison);
      met.insert(fill.keep != 0 ? -1 : fill.poison);
    }
  }
  EXPECT_EQ(met, (std::set<int>{-1, 0x00, 0x3F, 0x7F, 0xC7, 0xFF}));
}

TEST(Check, the_cpu_library_is_asked_where_there_is_one) {
  Scripted candidate(right), cpu(right);
  CheckContext context{candidate, {}};
  EXPECT_FALSE(equals_cpu_library(context, plain()));
  EXPECT_TRUE(context.not_offered);
  EXPECT_EQ(candidate.calls, 0);
  context.not_offered = false, context.cpu = &cpu;
  EXPECT_FALSE(equals_cpu_library(context, plain()));
  EXPECT_FALSE(context.not_offered);
  EXPECT_EQ(cpu.calls, 1);
  Scripted other([](const Call& call) {
    Outcome o = right(call);
    o.outputs[1][0] ^= std::byte{1};
    return o;
  });
  context.cpu = &other;
  EXPECT_EQ(equals_cpu_library(context, plain())->summary, "scales differ from the CPU library's");
}

}  // namespace
}  // namespace mxcheck
