#pragma once
// The reference behind the candidate interface, inside the program: the operations that a layer over ranks calls. On
// the host, right by definition, and slow.

#include "kernels/candidate.h"

namespace mxcheck {

const mxcheck_candidate_table& reference_library();

}  // namespace mxcheck
