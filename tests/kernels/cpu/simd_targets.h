#pragma once
// Each Highway target that was compiled in and that this machine has, one after the other.

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mxcheck {

inline std::vector<std::int64_t> simd_targets() {
  hwy::SetSupportedTargetsForTest(0);
  const std::int64_t all = (hwy::SupportedTargets() & HWY_TARGETS) | HWY_STATIC_TARGET;
  std::vector<std::int64_t> targets;
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
  return targets;
}

inline std::string simd_target_name(std::int64_t target) { return hwy::TargetName(target); }

// While it lives, dispatched functions run this target's code.
class UseSimdTarget {
 public:
  explicit UseSimdTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
  ~UseSimdTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  UseSimdTarget(const UseSimdTarget&) = delete;
  UseSimdTarget& operator=(const UseSimdTarget&) = delete;
};

}  // namespace mxcheck
