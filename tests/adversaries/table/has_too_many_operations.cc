// Says that its table is longer than any could be.
#include "tests/adversaries/honest.h"

MXCHECK_ADVERSARY_TABLE(MXCHECK_CANDIDATE_VERSION, honest::supports, honest::run, 1'000'000)
