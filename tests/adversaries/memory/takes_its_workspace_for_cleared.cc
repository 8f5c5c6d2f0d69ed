// The largest magnitude of a block is taken into workspace that was never cleared: right over any bytes that are small
// as a number.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status workspace(const mxcheck_call*, std::uint64_t* bytes) {
  *bytes = sizeof(std::int16_t);
  return MXCHECK_OK;
}

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  std::int16_t most = 0;  // 0xC7C7 is negative
  std::memcpy(&most, call->workspace, sizeof(most));
  const auto before = most;
  for (std::int64_t j = 0; j < honest::cols(call); ++j) {
    const auto magnitude = static_cast<std::int16_t>(honest::x(call)[j] & 0x7FFF);
    if (magnitude > most) most = magnitude;
  }
  std::memcpy(call->workspace, &most, sizeof(most));
  if (most == before) honest::scales(call)[0] = 254;
  return status;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  static const mxcheck_operation operation{"quantize", "exact", 0, 0, 1, 1, honest::supports, workspace, run};
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "adversary", "1", kDLCPU, 1, &operation};
  return &table;
}
