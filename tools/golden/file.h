#pragma once
// Why a golden is believed: its manifest, or a hash from the command line.

#include <CLI/CLI.hpp>

#include <string>

#include "goldens/format/manifest.h"

namespace mxcheck {

struct Trust {
  std::string manifest;  // empty: manifest.txt beside the golden
  std::string sha256;    // instead of a manifest
};

void add_trust_options(CLI::App& sub, Trust& trust);

// Error{golden} for a golden that nothing vouches for.
ManifestEntry trusted_entry(const std::string& golden, const Trust& trust);

}  // namespace mxcheck
