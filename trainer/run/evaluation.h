#pragma once
// An evaluation as a run records it: losses over the validation set under the recipe `bf16` and under the run's own,
// and the routes that both choose.
//
// Sequences are computed in parts of kSequencesAtOnce, the last of those that are left. The loss is
// RN32(sum over the parts of sequences x loss / all sequences), FP32 losses in FP64, part after part: one part's own
// loss where there is one.
//
// Errors: those of TrainingEngine::evaluate.

#include <cstdint>
#include <span>

#include "trainer/config/config.h"  // kSequencesAtOnce
#include "trainer/record/run_record.h"
#include "trainer/run/engine.h"

namespace mxcheck {

// The evaluation of the engine's weights. validation: sequences x (length + 1) bytes.
RecordedEvaluation evaluation_of(TrainingEngine& engine, const TrainingConfig& config,
                                 std::span<const std::uint8_t> validation);

}  // namespace mxcheck
