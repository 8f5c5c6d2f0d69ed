// A candidate that does nothing at all: no ground for success.
#include "tests/adversaries/honest.h"

MXCHECK_ADVERSARY_TABLE(MXCHECK_CANDIDATE_VERSION, honest::supports, honest::run, 0)
