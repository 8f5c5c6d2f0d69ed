#pragma once
// Runs grouped into arms: the same configuration but for the seed. Arms differ in the recipe, in token rounding and in
// the type of the moments; an arm's name says all that differs from the baseline: "mxfp8", "bf16 + nr-f",
// "bf16 + moments bf16". Whatever else differs makes runs that cannot be compared. Branches of the baseline's runs are
// arms of their own for each step that they branch off after, and have it in their name: "mxfp8 from 50 %".
//
//   for (const Arm& arm : arms_of(runs)) ...   // the baseline first, then A/A, the negative control, and the others
//
// Errors: Error{input} for runs that cannot be compared, naming the files and the field: another model, batch, number
// of steps, optimizer, training or validation data, evaluations at other steps, two recipes of one name; an unfinished
// run; an arm's seed twice; a seed that the baseline lacks; a branch whose trunk is not the baseline's run of its seed;
// no baseline.

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "trainer/record/run_record.h"

namespace mxcheck {

struct NamedRun {
  std::string file;  // for messages
  RunRecord record;
};

enum class ArmRole : std::uint8_t {
  baseline,  // recipe bf16, token choice, FP32 moments
  repeat,    // A/A: the baseline with a weight that starts one ulp up: an independent draw of the noise between runs
  control,   // recipe `broken`: what the experiment must be able to reject
  graded,    // a control whose gap is known roughly: whoever compares says which arms are such
  judged,    // all else
};
inline constexpr std::array<Named<ArmRole>, 5> kArmRoles{{{"baseline", ArmRole::baseline},
                                                          {"A/A", ArmRole::repeat},
                                                          {"negative control", ArmRole::control},
                                                          {"graded control", ArmRole::graded},
                                                          {"judged", ArmRole::judged}}};
inline std::string_view to_text(ArmRole role) { return name_in(kArmRoles, role); }

struct Arm {
  std::string name;
  std::string recipe;  // the name without the branch point: arms of several branch points share it
  ArmRole role = ArmRole::judged;
  std::int64_t branch_step = 0;       // its runs branched off after so many steps; 0: they are from scratch
  std::vector<const NamedRun*> runs;  // by seed, ascending; they point into what arms_of was given
};

// kEndpointEvaluations of them are the endpoint: their mean is less noisy than the last alone.
inline constexpr std::size_t kEndpointEvaluations = 3;

// "50 %": the share of a run's steps before its branch point; "scratch" for a step of 0.
std::string branch_point(std::int64_t step, std::int64_t steps);

std::string arm_recipe(const TrainingConfig& config);
std::string arm_name(const RunRecord& run);
std::vector<Arm> arms_of(std::span<const NamedRun> runs);

// True if a run diverged: it says so, or one of the evaluations of its endpoint is no finite number.
bool has_diverged(const RunRecord& run);

// Mean of the last three evaluations under BF16, or under the run's own recipe. NaN for a run that diverged.
double endpoint_of(const RunRecord& run);
double own_endpoint_of(const RunRecord& run);

// Mean of the training losses of the last tenth of the configuration's steps, or of the run's last `most` where those
// are fewer, left to right in FP64: data that both runs of a pair read.
double training_endpoint_of(const RunRecord& run, std::size_t most = std::numeric_limits<std::size_t>::max());

double value_of(std::uint32_t fp32_bits);

// Runs that are compared must share everything but seed, recipe, token rounding, the type of the moments, and the
// weight that starts one ulp up. Engine, machine and version may differ: a step is defined to the bit.
//
// Errors: Error{input}, naming the files, the field and both values.

// A run by itself: it finished with as many steps as it was to have and at least three evaluations, or diverged.
void check_whole(const NamedRun& run);

void check_same_experiment(std::span<const NamedRun> runs);

}  // namespace mxcheck
