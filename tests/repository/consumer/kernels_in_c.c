/* A kernel library in C that names headers as the source tree does, with mxcheck::candidate and nothing else. */

#include "kernels/candidate.h"
#include "kernels/candidate_matmul.h"
#include "kernels/candidate_route.h"

/* The other name of the same interface: declared once. */
#include <mxcheck/kernels/candidate_route.h>

#if __has_include("numerics/error.h") || __has_include("candidate.h")
  #error "a header of ours that is not the C interface is found without mxcheck/ in front"
#endif

static const mxcheck_candidate_table table = {
    MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "in_c", "1", kDLCPU, 0, 0};

const mxcheck_candidate_table* mxcheck_candidate(void) { return &table; }
