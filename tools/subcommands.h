#pragma once
// The subcommands of mxcheck. add_NAME declares one's options and says what to do when it is the chosen one; main turns
// what that throws into one line and an exit code.

#include "tools/common/command_line.h"

namespace mxcheck {

void add_quantize(Command& app);
void add_dequantize(Command& app);
void add_scale(Command& app);
void add_formats(Command& app);
void add_recipes(Command& app);
void add_mma(Command& app);
void add_matmul(Command& app);
void add_identify(Command& app);
void add_route(Command& app);
void add_layer(Command& app);
void add_cost(Command& app);
void add_golden(Command& app);
void add_parallel(Command& app);
void add_parity(Command& app);
void add_gate(Command& app);
void add_merge(Command& app);
void add_replay(Command& app);
void add_terminal(Command& app);  // completion and man, of all subcommands that app has when one of them runs

// Adds the subcommands that this program has, with examples: all_commands.cc is mxcheck's, gate_only.cc mxcheck-gate's.
void add_commands(Command& app);

}  // namespace mxcheck
