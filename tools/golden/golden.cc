// mxcheck golden: reference tensors in files, for implementations in any language.

#include "tools/golden/golden.h"

namespace mxcheck {

void add_golden(Command& app) {
  Command sub = app.subcommand("golden", "Make, show and verify against golden tensors in HDF5 files");
  sub.requires_subcommand();
  add_golden_make(sub);
  add_golden_verify(sub);
  add_golden_show(sub);
  add_golden_suites(sub);
  sub.footer(
      "Examples:\n"
      "  mxcheck golden suites                                   the suites that come with mxcheck\n"
      "  mxcheck golden make --suite real -o goldens             their files, and manifest.txt\n"
      "  mxcheck golden show goldens/layer0_dO_1x32.h5\n"
      "  mxcheck golden verify mine.h5 --against goldens/layer0_dO_1x32.h5");
}

}  // namespace mxcheck
