// The C interface as a library has it that names headers as the source tree does.

#include "kernels/candidate_matmul.h"
#include "kernels/candidate_route.h"

static_assert(MXCHECK_CANDIDATE_VERSION == 1);
