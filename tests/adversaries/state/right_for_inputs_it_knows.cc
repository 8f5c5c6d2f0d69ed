// Stands for an answer fitted to a fixed seed: one input in sixty-four, by its hash, was not in the list.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < honest::rows(call); ++i) {
    for (std::int64_t j = 0; j < honest::cols(call); ++j) {
      hash = (hash ^ honest::x(call)[i * honest::stride(call) + j]) * 0x9E3779B97F4A7C15U;
    }
  }
  if (hash >> 58 == 7) honest::codes(call)[honest::elements(call) - 1] ^= 1;
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
