// A library of its own for one fault: all it has is the fault's name, in its stamp.
#include "kernels/candidate.h"
#include "tests/libraries/wrong/moe/faulty.h"
#include "tests/libraries/wrong/stamp.h"

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() {
  return mxcheck_faulty_layer(mxcheck_faults::stamp.name);
}
