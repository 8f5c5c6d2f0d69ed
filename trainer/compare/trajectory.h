#pragma once
// The course of training from the first step to the endpoint: spikes, differences over training, and how many tokens of
// BF16 a difference of loss is worth. Reported beside the verdict; none of it decides.
//
// Errors: none. What cannot be computed is NaN or absent.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/compare/arm.h"
#include "trainer/compare/interval.h"

namespace mxcheck {

struct StepValue {
  std::int64_t step = 0;
  double value = 0;
};
using StepCurve = std::vector<StepValue>;  // by step, ascending

// One run's losses, for charts.
struct RunCurve {
  std::string file;
  std::uint64_t seed = 0;
  StepCurve validation;  // under BF16, at every evaluation
  StepCurve training;    // means over the steps of kCurveBins bins of equal ratio
};
inline constexpr int kCurveBins = 64;
RunCurve curve_of(const NamedRun& run);

// Values more than `z` standard deviations above the mean of the window of kSpikeWindow finite values that ends with
// them, and values that are no finite numbers. llm.c has the same z-score and window; the window includes the value,
// so z is at most sqrt(kSpikeWindow - 1) = 11.3. The first kSpikeWindow values fill the window, and are not judged.
inline constexpr std::size_t kSpikeWindow = 128;
std::int64_t spikes(std::span<const double> values, double z);

struct SpikeCount {
  std::int64_t loss = 0;
  std::int64_t gradient_norm = 0;
};
SpikeCount spikes_of(const RunRecord& run, double z);

// Relative differences after `step` steps, one evaluation each; one-sided limits at 1 - alpha / kCheckpoints, which
// bounds by alpha the chance that any of the upper ones is wrong (Bonferroni).
struct CheckpointInterval {
  std::int64_t step = 0;
  PairedInterval interval;
};
inline constexpr int kCheckpoints = 10;
// Pairs are those runs of both arms that share a seed and did not diverge. Steps are the evaluations nearest to
// kCheckpoints points of equal ratio; fewer where evaluations are fewer.
std::vector<CheckpointInterval> checkpoints_of(const Arm& baseline, const Arm& arm, double alpha);

// The same at every evaluation, a branch's from its branch point on; one-sided limits at 1 - alpha, each for itself.
std::vector<CheckpointInterval> differences_of(const Arm& baseline, const Arm& arm, double alpha);

// Training losses of the same pairs, means over kTrainingBins bins of steps, all about as wide: two curves, and the
// interval of d in each bin, of which the two runs of a pair read the same data. The baseline's curve begins at step 0,
// a branch's at its branch point.
struct TrainingCurves {
  StepCurve baseline;
  StepCurve arm;
  std::vector<CheckpointInterval> difference;
};
inline constexpr std::int64_t kTrainingBins = 64;
TrainingCurves training_curves_of(const Arm& baseline, const Arm& arm, double alpha);

// The tokens that BF16 trains for between the loss (1 + gap) * endpoint and its endpoint, from the mean over its runs
// of its validation curve, each point the mean of three evaluations as the endpoint is; linear between evaluations.
// Nothing for a gap below 0, which is beyond the curve, and for one above its beginning.
std::optional<double> token_equivalents(const Arm& baseline, double gap);

// --- observations
//
// Observations of an arm's mixture-of-experts layers by its runs: routes that agree with BF16's, how evenly experts are
// loaded, and how much quantization saturates and flushes. Means over the arm's runs, at the steps that were observed.
//
// Errors: none. What no run observed is absent.

// Shares of an operand's elements, over all layers: set to the largest number, and non-zero ones that became zero.
struct OperandShares {
  std::string operand;  // "up.a", ...
  StepCurve saturated;
  StepCurve flushed;
};

struct ObservedArm {
  // Share of routes that the run's own recipe and BF16 choose alike, on the validation set with the same weights.
  StepCurve equal_routes;                     // at every evaluation, over all layers
  std::vector<double> equal_routes_by_layer;  // at the last
  // Entropy of the loads over log(experts): 1 is even, 0 is all rows to one expert. Mean over the layers.
  StepCurve load_entropy;
  std::vector<std::vector<double>> loads;  // at the last observation, by layer: shares of rows, the largest first
  std::vector<OperandShares> operands;     // by name
};

ObservedArm observed_of(const Arm& arm);

}  // namespace mxcheck
