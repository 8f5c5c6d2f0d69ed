// Nothing is wrong with it: the gate must say so, or what it says of the others is worth nothing.
#include "tests/adversaries/honest.h"

MXCHECK_ADVERSARY(honest::run)
