// A launch that fails silently leaves the outputs of the call before: this one keeps them and hands them out again.
#include <algorithm>
#include <vector>

#include "tests/adversaries/honest.h"

namespace {
std::vector<std::uint8_t> kept;

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  const auto size = static_cast<std::size_t>(honest::elements(call));
  std::vector<std::uint8_t> mine(honest::codes(call), honest::codes(call) + size);
  if (!kept.empty()) std::copy_n(kept.begin(), std::min(kept.size(), size), honest::codes(call));
  kept = std::move(mine);
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
