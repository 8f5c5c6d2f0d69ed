#include "trainer/audit/audit.h"
#include "tests/testing.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/record/checkpoint.h"

namespace mxcheck {
namespace {

using namespace test;

class Audit : public testing::Test {
 protected:
  Audit() : corpus_(small_corpus()) {
    const RunRequest request = small_request(dir_ / "run.h5", corpus_);
    const std::unique_ptr<TrainingEngine> engine = cpu_engine(request.config, 1);
    run_ = run_training(request, *engine, {});
  }

  AuditResult audit(std::int64_t step, bool from_checkpoint = false, bool evaluates = false) {
    AuditRequest request{.run = &run_, .corpus = &corpus_, .step = step, .evaluates = evaluates};
    if (from_checkpoint) request.checkpoint = read_checkpoint(dir_ / "run.step6.h5").state;
    const std::unique_ptr<TrainingEngine> engine = cpu_engine(run_.config, 1);
    return audit_step(std::move(request), *engine, {});
  }

  // The facts that differ, with the step before those of another.
  static std::vector<std::string> different(const AuditResult& result) {
    std::vector<std::string> names;
    for (const AuditLine& line : result.lines) {
      if (!line.equal()) names.push_back((line.step == result.step ? "" : std::to_string(line.step) + " ") + line.what);
    }
    return names;
  }

  TemporaryDirectory dir_;
  Corpus corpus_;
  RunRecord run_;
};

TEST_F(Audit, every_step_of_a_run_is_computed_again) {
  for (std::int64_t step = 0; step < 12; ++step) {
    const AuditResult result = audit(step);
    EXPECT_TRUE(result.passed()) << step;
    EXPECT_EQ(result.first, 0);
    EXPECT_EQ(result.has_witness, step <= 1 || step == 5 || step == 6 || step >= 10) << step;
    const std::size_t observed = step % 5 == 0 ? 2U * (1 + 12) : 0U;  // loads and 12 operands a layer
    EXPECT_EQ(result.lines.size(), (result.has_witness ? 6U + 17 + 2 : 6U) + observed);
  }
  for (std::int64_t step = 6; step < 12; ++step) {
    const AuditResult result = audit(step, true);
    EXPECT_TRUE(result.passed()) << step;
    EXPECT_EQ(result.first, 6);
  }
}

TEST_F(Audit, a_step_of_several_microbatches_is_computed_again) {
  RunRequest request = small_request(dir_ / "cut.h5", corpus_);
  request.config.microbatches = 2;
  const RunRecord whole = std::exchange(run_, computed(request));
  EXPECT_NE(run_.steps[0].weights, whole.steps[0].weights);
  for (const std::int64_t step : {0, 5, 11}) EXPECT_TRUE(audit(step).passed()) << step;
  run_.config.microbatches = 1;
  EXPECT_FALSE(audit(0).passed());
}

TEST_F(Audit, each_altered_fact_is_named) {
  using Names = std::vector<std::string>;
  const RunRecord whole = run_;
  run_.steps[5].loss ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"loss"});
  EXPECT_FALSE(audit(5).passed());
  EXPECT_EQ(different(audit(7)), Names{"5 loss"});
  EXPECT_TRUE(audit(4).passed());
  run_ = whole, run_.steps[5].gradient_norm ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"gradient norm"});
  run_ = whole, run_.steps[5].balance_loss ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"balance loss"});
  run_ = whole, run_.steps[5].rate ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"learning rate"});
  run_ = whole, run_.steps[5].weights ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"all weights"});
  run_ = whole, run_.steps[5].skipped = 1;
  EXPECT_EQ(different(audit(5)), Names{"elements not updated"});
  run_ = whole, run_.witnesses[2].parameters[2] ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"layers.0.qkv"});
  run_ = whole, run_.witnesses[2].layers[1] ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"output of layer 1"});
  ASSERT_EQ(run_.observations[1].step, 5);
  run_ = whole, run_.observations[1].layers[1].expert_loads[2] ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"layer 1, expert loads"});
  for (std::int64_t OperandFacts::*count :
       {&OperandFacts::elements, &OperandFacts::saturated, &OperandFacts::flushed, &OperandFacts::scales}) {
    run_ = whole, run_.observations[1].layers[0].operands[4].*count ^= 1;
    EXPECT_EQ(different(audit(5)), Names{"layer 0, d_down.a"});
  }
  run_ = whole, run_.observations[1].layers[0].operands[3].least_exponent ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"layer 0, down.b"});
  run_ = whole, run_.observations[1].layers[0].operands[3].largest_exponent ^= 1;
  EXPECT_EQ(different(audit(5)), Names{"layer 0, down.b"});
  run_ = whole,
  std::swap(run_.observations[1].layers[0].operands[0].name, run_.observations[1].layers[0].operands[1].name);
  EXPECT_EQ(different(audit(5)), (Names{"layer 0, up.b", "layer 0, up.a"}));
  run_ = whole, run_.observations[1].layers[0].operands.pop_back();
  EXPECT_EQ(different(audit(5)), Names{"layer 0, d_w1.b"});
}

TEST_F(Audit, evaluations_are_made_again) {
  using Names = std::vector<std::string>;
  for (const std::int64_t step : {0, 4, 8}) {
    const AuditResult result = audit(step, false, true);
    EXPECT_TRUE(result.passed()) << step;
    EXPECT_EQ(result.lines.size(), audit(step).lines.size() + 3) << step;
  }
  EXPECT_EQ(audit(11, true, true).lines.back().what, "routes as in bf16 after 12 steps");
  const RunRecord whole = run_;
  ASSERT_EQ(run_.evaluations[1].step, 4);
  run_.evaluations[1].loss_bf16 ^= 1;
  EXPECT_EQ(different(audit(4, false, true)), Names{"validation loss after 4 steps"});
  EXPECT_TRUE(audit(4).passed());
  run_ = whole, run_.evaluations[1].loss_own ^= 1;
  EXPECT_EQ(different(audit(4, false, true)), Names{"own recipe's after 4 steps"});
  run_ = whole, run_.evaluations[1].equal_routes[1] ^= 1;
  EXPECT_EQ(different(audit(4, false, true)), Names{"routes as in bf16 after 4 steps"});
  run_ = whole, run_.evaluations.back().loss_bf16 ^= 1;
  EXPECT_EQ(different(audit(11, false, true)), Names{"validation loss after 12 steps"});
  run_ = whole;
  EXPECT_THROW(audit(5, false, true), Error);  // no evaluation before it
  corpus_.validation_sha256.front() ^= 1;
  EXPECT_TRUE(audit(4).passed());
  EXPECT_THROW(audit(4, false, true), Error);
}

// A seed, a rate or a recipe that is not the one that was run shows in the first step that it reaches.
TEST_F(Audit, a_configuration_that_was_not_run_does_not_pass) {
  const RunRecord whole = run_;
  run_.config.seed ^= 1;
  EXPECT_FALSE(audit(0).passed());
  run_ = whole, run_.config.recipe = layer_recipe_named("mxfp8_floor");
  EXPECT_FALSE(audit(1).passed());
  run_ = whole, run_.config.optimizer.beta2 = 0.951F;
  EXPECT_EQ(different(audit(0)).front(), "all weights");
}

TEST_F(Audit, what_cannot_be_audited_is_refused) {
  EXPECT_THROW(audit(-1), Error);
  EXPECT_THROW(audit(12), Error);
  EXPECT_THROW(audit(5, true), Error);  // the checkpoint is of step 6
  corpus_ = small_corpus(2);
  EXPECT_THROW(audit(1), Error);
}

}  // namespace
}  // namespace mxcheck
