#pragma once
// The subcommands of mxcheck golden, one file each.

#include "tools/subcommands.h"

namespace mxcheck {

void add_golden_make(Command& golden);
void add_golden_suites(Command& golden);
void add_golden_show(Command& golden);
void add_golden_verify(Command& golden);  // where properties/ is built

}  // namespace mxcheck
