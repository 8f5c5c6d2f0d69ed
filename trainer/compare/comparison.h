#pragma once
// Runs in, verdicts out: every arm against BF16, with all that is reported beside it. docs/parity_rule.md has the rule.
//
//   const ParityComparison c = compare_runs(runs, {});
//   return exit_code(c);   // 0, 1 or 4
//
// Errors: those of arms_of; Error{usage} for margins that are not 0 < inner margin <= margin <= outer margin < 1, for
// probabilities outside of (0, 1), and for a graded control that no judged arm is.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/compare/arm.h"
#include "trainer/compare/interval.h"
#include "trainer/compare/trajectory.h"

namespace mxcheck {

struct ComparisonOptions {
  double margin = 0.0010;  // relative loss; decides
  // A verdict beside the first, on what branches with little noise can tell. Not given: 0.0005, or the margin where
  // that is less; a comparison's own options have it.
  std::optional<double> inner_margin;
  double outer_margin = 0.0025;  // the largest gap that DeepSeek-V3 reports as noise; another verdict beside the first
  double alpha = 0.05;           // of each one-sided limit
  double power = 0.9;
  double spike = 5;  // z: of normal values one in 3.5 million is above it
  // Recipes of arms that are graded controls: they are compared as the judged ones are, and decide nothing.
  std::vector<std::string> graded;
};

struct SeedPair {
  std::uint64_t seed = 0;
  double baseline = 0;    // endpoints: mean loss of the last three evaluations; NaN for a run that diverged
  double arm = 0;         // both of weights under BF16
  double own = 0;         // under the arm's own recipe
  double difference = 0;  // (arm - baseline) / baseline
  double training = 0;    // the same of training_endpoint_of
};

// The cost of a recipe beside what it loses: the speed that its runs were recorded at, and the memory that follows from
// the recipe alone. Bits are those of an element's code and its share of the scale of its block; 16 where it is BF16.
struct RecipeCost {
  // Tokens of a run's own steps over their seconds, mean over the runs: of as many at once as there were, with their
  // observations and without evaluations. NaN where no run has any seconds.
  double tokens_a_second = std::numeric_limits<double>::quiet_NaN();
  double x_bits = 16;  // of the operands of the GEMM `up`, the first of the forward pass
  double w1_bits = 16;
  double dy_bits = 16;  // of those of `d_down`, the first of the backward pass
  double w2_bits = 16;
  double kept_x_bits = 16;  // of what is kept of the forward pass for the backward one
  double kept_h_bits = 16;
  int optimizer_bytes = 12;  // a parameter: the weight in FP32 and AdamW's two moments
};
RecipeCost cost_of(const Arm& arm);

struct ArmResult {
  std::string name;
  std::string recipe;  // these four as of an Arm
  ArmRole role = ArmRole::judged;
  std::int64_t branch_step = 0;
  LayerRecipe layers;           // the recipe itself
  std::string scales;           // of the recipe's first GEMM: "e4m3, scales rceil"; empty where it is not quantized
  std::vector<SeedPair> pairs;  // of the baseline: each run with itself
  ArmEvidence evidence;
  PairedInterval own;       // of (own - baseline) / baseline
  PairedInterval training;  // of the pairs' training losses: reported, not decisive
  Judgement judgement;
  Judgement inner;
  Judgement outer;
  RecipeCost cost;
  double correlation = 0;                    // of the pairs' endpoints
  std::optional<double> token_equivalents;   // of the mean difference
  std::optional<std::int64_t> pairs_needed;  // to see the margin with the power asked for; kLeastPairs or more
  double visible_gap = 0;                    // the distance from the margin that these pairs see with it
  SpikeCount spikes;
  std::vector<CheckpointInterval> checkpoints;
  std::vector<CheckpointInterval> differences;
  TrainingCurves training_curves;
  ObservedArm observed;
  std::vector<RunCurve> curves;
};

// Another experiment, of another model, more tokens or other seeds: its gaps beside those of a comparison, of each
// recipe and share of training that both have.
struct GapBeside {
  std::string recipe;
  double share_of_training = 0;
  PairedInterval gap;  // of the other experiment, and its verdict
  ArmVerdict verdict = ArmVerdict::inconclusive;
  UnpairedInterval above;  // its mean less this one's
};
struct ExperimentBeside {
  std::string name;
  std::string corpus;
  std::int64_t parameters = 0;
  std::int64_t tokens = 0;  // of a run's training
  std::vector<GapBeside> gaps;
};

struct ListedRun {
  std::string file, arm, started, device, engine, mxcheck;
  std::uint64_t seed = 0;
  RunEnd end = RunEnd::finished;
  double endpoint = 0;
  double hours = 0;
};

struct ParityComparison {
  ComparisonOptions options;
  TrainingConfig config;  // of the first BF16 run; what all share counts
  std::string corpus;
  std::int64_t parameters = 0;
  std::int64_t tokens = 0;             // of a run's training
  std::int64_t validation_tokens = 0;  // of an evaluation
  double baseline_mean = 0;            // of the endpoints of BF16
  double baseline_deviation = 0;       // of one, relative to the mean
  std::vector<ArmResult> arms;         // the baseline first, then A/A, control, judged
  // At the margin, of the arms that branch off after the same step: A/A and the control of one branch point say nothing
  // of another.
  std::map<std::int64_t, Sensitivity> sensitivities;
  std::vector<ListedRun> runs;           // by the time at which they started
  std::vector<ExperimentBeside> beside;  // added by whoever has other experiments
};

ParityComparison compare_runs(std::span<const NamedRun> runs, const ComparisonOptions& options);

// Indices into `arms` of those that are judged and of graded controls, by branch point, at each by mean d, ascending;
// without one last.
bool is_ranked(const ArmResult& arm);
std::vector<std::size_t> ranking(const ParityComparison& comparison);

// The share of a run's training that an arm had its recipe for: 1 from scratch, 0.25 from 75 %.
double share_of_training(const ParityComparison& comparison, const ArmResult& arm);

// A judged recipe at several branch points, indices into `arms`: by branch point, from scratch first.
struct RecipeByBranchPoint {
  std::string recipe;
  std::vector<std::size_t> arms;
};
std::vector<RecipeByBranchPoint> by_branch_point(const ParityComparison& comparison);

// The interval of d of `a` less d of `b`, by seeds of both: how much more gap one branch point leaves than another.
PairedInterval gap_between(const ArmResult& a, const ArmResult& b, double alpha);

// Errors: Error{input} for a recipe that is another one under the same name, and for a run that both have.
ExperimentBeside beside(const ParityComparison& comparison, const ParityComparison& other, const std::string& name);

// 0: every judged arm is non-inferior or equivalent; 1: one is inferior, diverged, or better by more than the margin;
// 4: inconclusive, as where nothing is judged. 1 goes before 4.
int exit_code(const ParityComparison& comparison);

}  // namespace mxcheck
