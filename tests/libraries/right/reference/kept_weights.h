#pragma once
// Weights that the reference keeps between calls (kernels/candidate_kept_weights.h): a header and copies of w1 and w2.
// A call that uses them becomes the one without the option, which is answered as ever.

#include <cstdint>
#include <functional>

#include "kernels/candidate_kept_weights.h"

namespace mxcheck::candidates {

// Faults, which no right library has: those of the rows moe kept_weights_* of the catalogue.
struct KeptWeightsFaults {
  bool ignores_recipe = false, ignores_order = false, ignores_shape = false, ignores_operation = false;
  bool accepts_any_memory = false;  // that no call has written
  bool never_refreshes = false;     // memory that holds weights of the same layer
  bool keeps_w1_alone = false;
  bool checks_w1_alone = false;
  bool leaves_out_the_last = false;  // word of each matrix, of a digest
  bool digest_commutes = false;      // exchanged words have the same
  bool digest_drops_low_bits = false;
  bool checks_after_writing = false;
  bool writes_past_the_end = false;
  bool refusal_spoils_memory = false;
  bool refused_keep_clears_scales = false;  // the last bytes of what is kept: an amax that is cleared before the checks
  bool writes_before_checks = false;        // half of W1
  bool accepts_any_address = false;
  bool accepts_any_reserved = false;
};

// True if the policy asks for the option.
bool has_kept_weights(const mxcheck_policy* policy);

// workspace() of a call with the mode MXCHECK_WEIGHTS_BYTES; false: the call has another mode.
bool asks_for_bytes(const mxcheck_policy* policy, std::uint64_t* bytes);

// `plain` runs a call without the option. Throws Refusal, as plain does.
void run_with_kept_weights(const mxcheck_call& call, const char* operation, const KeptWeightsFaults& faults,
                           const std::function<void(const mxcheck_call&)>& plain);

}  // namespace mxcheck::candidates
