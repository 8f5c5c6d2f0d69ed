#pragma once
// Whether an emulated kernel did nothing that Blackwell forbids.

#include <algorithm>
#include <string>

#include "emulation/sm100/launch.h"
#include "kernels/common/refusal.h"

namespace mxcheck_kernels::sm100 {

// DEVICE_ERROR with the first finding, where there is one: what Blackwell forbids makes a result worth nothing, right
// as its bits may be.
inline void require_clean(const char* kernel, const mxcheck::emulation::sm100::LaunchResult& result) {
  if (result.completed && result.findings.empty()) return;
  std::string text = std::string("emulation of ") + kernel + ": ";
  text += result.findings.empty() ? "it did not come to its end"
                                  : mxcheck::emulation::sm100::text_of(result.findings.front());
  if (result.findings.size() > 1) text += " (and " + std::to_string(result.findings.size() - 1) + " more)";
  std::ranges::replace(text, '\n', ' ');
  throw Refusal(MXCHECK_DEVICE_ERROR, text);
}

}  // namespace mxcheck_kernels::sm100
