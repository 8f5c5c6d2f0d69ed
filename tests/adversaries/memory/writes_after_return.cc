// Returns at once; the right output is written by another thread a little later.
#include <chrono>
#include <thread>
#include <vector>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const auto size = static_cast<std::size_t>(honest::check(call) == MXCHECK_OK ? honest::elements(call) : 0);
  std::vector<std::uint8_t> before(honest::codes(call), honest::codes(call) + size);
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || size == 0) return status;
  std::vector<std::uint8_t> after(honest::codes(call), honest::codes(call) + size);
  std::memcpy(honest::codes(call), before.data(), size);
  std::thread([to = honest::codes(call), after = std::move(after)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::memcpy(to, after.data(), after.size());
  }).detach();
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
