// An interface version that does not exist yet.
#include "tests/adversaries/honest.h"

MXCHECK_ADVERSARY_TABLE(MXCHECK_CANDIDATE_VERSION + 1, honest::supports, honest::run, 1)
