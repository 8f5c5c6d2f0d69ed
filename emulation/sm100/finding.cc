#include "emulation/sm100/finding.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mxcheck::emulation::sm100 {

std::string_view name_of(Hazard hazard) {
  static constexpr std::array<std::string_view, 20> kNames{
      "allocation", "address",     "uninitialized", "not_complete", "not_ordered", "overwritten", "proxy",
      "descriptor", "swizzle",     "scale_copies",  "live_scales",  "issue",       "collective",  "barrier",
      "phase",      "transaction", "launch",        "exit",         "deadlock",    "unknown"};
  return kNames.at(static_cast<std::size_t>(hazard));
}

std::string text_of(const Finding& finding) {
  std::string text(name_of(finding.hazard));
  text += ": " + finding.who;
  if (!finding.instruction.empty()) text += ", " + finding.instruction;
  text += ": " + finding.what;
  if (!finding.right.empty()) text += "; right: " + finding.right;
  if (finding.times > 1) text += " (" + std::to_string(finding.times) + " times)";
  return text;
}

void Findings::add(Finding finding, std::string_view role) {
  std::string key =
      std::string(name_of(finding.hazard)) + '|' + std::string(role) + '|' + finding.instruction + '|' + finding.right;
  const auto at = std::ranges::find(keys_, key);
  if (at != keys_.end()) {
    ++all_[static_cast<std::size_t>(at - keys_.begin())].times;
    return;
  }
  keys_.push_back(std::move(key));
  all_.push_back(std::move(finding));
}

}  // namespace mxcheck::emulation::sm100
