#pragma once
// The subcommands of mxcheck golden, one file each.

#include "tools/subcommands.h"

namespace mxcheck {

void add_golden_make(CLI::App& golden, Context& context);
void add_golden_suites(CLI::App& golden, Context& context);
void add_golden_show(CLI::App& golden, Context& context);
void add_golden_verify(CLI::App& golden, Context& context);  // where properties/ is built

}  // namespace mxcheck
