#pragma once
// The options of commands that run a candidate: how long a call and how much memory its process may take.
//
//   add_process_limits(sub, o->limits, "A library");
//   CandidateProcess process(tool, library, time_limits(o->limits));
//
// Errors: Error{usage} of time_limits for what no option may be, NaN among it.

#include <chrono>
#include <cstdint>
#include <string>

#include "numerics/error.h"
#include "properties/process/first_calls.h"
#include "tools/common/command_line.h"

namespace mxcheck {

struct ProcessLimits {
  double time = 20;
  double first_call = 300;
  double memory = 0;
};

// group: the heading in the help; empty: none of its own.
inline void add_process_limits(Command& sub, ProcessLimits& limits, const std::string& group) {
  const auto add = [&](const char* flag, double& to, const char* help) {
    CommandOption option = sub.option(flag, to, help).shows_default();
    if (!group.empty()) option.in_group(group);
  };
  add("--time-limit", limits.time, "seconds that one call may take, plus 1 for every 20 MB");
  add("--first-call-limit", limits.first_call,
      "of functions in Python: seconds that importing them, and a call that may compile, may take");
  add("--memory-limit", limits.memory,
      "GB that a process of the candidate may take on the host; 0: three quarters of the machine's");
}

inline TimeLimits time_limits(const ProcessLimits& limits) {
  const auto milliseconds = [](double value, const char* flag) {
    if (!(value >= 0.1 && value <= 86'400))
      throw Error(ErrorKind::usage, std::string(flag) + " must be from 0.1 to 86400 seconds");
    return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
  };
  if (!(limits.memory == 0 || (limits.memory >= 0.1 && limits.memory <= 1e6)))
    throw Error(ErrorKind::usage, "--memory-limit must be 0 or from 0.1 to 1000000 GB");
  TimeLimits checked(milliseconds(limits.time, "--time-limit"));
  checked.first_call = milliseconds(limits.first_call, "--first-call-limit");
  checked.memory = static_cast<std::uint64_t>(limits.memory * 1e9);
  return checked;
}

}  // namespace mxcheck
