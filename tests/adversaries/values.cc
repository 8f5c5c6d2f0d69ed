// Adversaries whose outputs are wrong, in the same way in every call.

#include "tests/adversaries/honest.h"

namespace {

// The empty kernel: success is returned and nothing done.
mxcheck_status writes_nothing(const mxcheck_call* call) { return honest::check(call); }

// Reports success for large shapes without having run.
mxcheck_status does_nothing_when_large(const mxcheck_call* call) {
  const mxcheck_status status = honest::check(call);
  if (status == MXCHECK_OK && honest::elements(call) <= 16384) honest::quantize(call);
  return status;
}

// Every code is one step off; a tolerance of one step would let it pass.
mxcheck_status codes_off_by_one(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  for (std::int64_t i = 0; i < honest::elements(call); ++i) honest::codes(call)[i] ^= 1;
  return status;
}

// NaN in every place: passes every comparison that is written the wrong way round.
mxcheck_status nan_everywhere(const mxcheck_call* call) {
  const mxcheck_status status = honest::check(call);
  if (status != MXCHECK_OK) return status;
  std::memset(honest::codes(call), 0x7F, static_cast<std::size_t>(honest::elements(call)));
  std::memset(honest::scales(call), 0xFF, static_cast<std::size_t>(honest::rows(call) * honest::blocks(call)));
  return status;
}

// No code for the tail: columns after the last whole block are zero.
mxcheck_status right_for_multiples_of_32(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  for (std::int64_t i = 0; i < honest::rows(call); ++i) {
    for (std::int64_t j = honest::cols(call) / 32 * 32; j < honest::cols(call); ++j) {
      honest::codes(call)[i * honest::cols(call) + j] = 0;
    }
  }
  return status;
}

}  // namespace

std::span<const Adversary> value_adversaries() {
  static constexpr Adversary kAll[]{
      {"writes_nothing", writes_nothing},
      {"does_nothing_when_large", does_nothing_when_large},
      {"codes_off_by_one", codes_off_by_one},
      {"nan_everywhere", nan_everywhere},
      {"right_for_multiples_of_32", right_for_multiples_of_32},
  };
  return kAll;
}
