// The subcommands of mxcheck-gate, which ./run gate builds in less than half the time that mxcheck takes.

#include "tools/subcommands.h"

namespace mxcheck {

void add_commands(Command& app) {
  app.footer(
      "Examples:\n"
      "  mxcheck gate --candidate ./libmine.so           is this kernel library right?\n"
      "  mxcheck merge 1.json 2.json                     and of its shards on two machines together?\n"
      "  mxcheck replay h200.h5                          is what a GPU returned still the right answer?\n\n"
      "These are the subcommands that ./run gate needs; mxcheck has all of them: ./run mxcheck --help");
  add_gate(app);
  add_merge(app);
  add_replay(app);
}

}  // namespace mxcheck
