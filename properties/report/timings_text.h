#pragma once
// Where the time of a gate run went, and whether the machine was free for it: text for --timings and the end of a run.

#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {

// The phases of all jobs, and the statements that took longest, in seconds of wall time and of CPU. The wall column
// adds up to the run's seconds times its jobs, the CPU column to what the gate and the candidate's processes used.
// For a report with timings.
std::string timings_text(const GateReport& report);

// "the machine was busy: ...": a run of at least kLeastToJudge seconds in which no more than a fifth of the cores' time
// was idle, and other processes took at least a tenth of it. Otherwise nothing.
inline constexpr double kLeastToJudge = 5;
std::string busy_text(const MachineUse& use);

}  // namespace mxcheck
