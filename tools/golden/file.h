#pragma once
// Why a golden is believed: its manifest, or a hash from the command line.

#include <string>

#include "goldens/format/manifest.h"
#include "tools/common/command_line.h"

namespace mxcheck {

struct Trust {
  std::string manifest;  // empty: manifest.txt beside the golden
  std::string sha256;    // instead of a manifest
};

void add_trust_options(Command& sub, Trust& trust);

// Error{golden} for a golden that nothing vouches for.
ManifestEntry trusted_entry(const std::string& golden, const Trust& trust);

}  // namespace mxcheck
