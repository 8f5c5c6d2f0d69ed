#pragma once
// The subcommands of mxcheck golden, one file each.

#include <string>

#include "goldens/format/manifest.h"
#include "tools/common/command_line.h"
#include "tools/subcommands.h"

namespace mxcheck {

void add_golden_make(Command& golden);
void add_golden_suites(Command& golden);
void add_golden_show(Command& golden);
void add_golden_verify(Command& golden);  // where properties/ is built

// Why a golden is believed: its manifest, or a hash from the command line.

struct Trust {
  std::string manifest;  // empty: manifest.txt beside the golden
  std::string sha256;    // instead of a manifest
};

void add_trust_options(Command& sub, Trust& trust);

// Error{golden} for a golden that nothing vouches for.
ManifestEntry trusted_entry(const std::string& golden, const Trust& trust);

}  // namespace mxcheck
