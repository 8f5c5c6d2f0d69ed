#pragma once
// Computes a golden with the reference and writes it.
//
// The bytes depend on the spec and the input alone: not on the number of threads, the machine or the date. A tensor
// from a file is read, quantized and written panel by panel (32 MiB of it at a time); only its scales are held whole.
//
// Errors: those of the input's reader, of quantize and of GoldenWriter, with the golden's name in front.

#include <cstdint>
#include <functional>
#include <string>

#include "goldens/format/manifest.h"
#include "goldens/make/suite.h"

namespace mxcheck {

struct MakeOptions {
  std::string input_directory = ".";                                   // where relative files of a spec are
  int compression = 0;                                                 // deflate, 0 to 9
  std::string generator = "mxcheck";                                   // for the manifest
  int threads = 0;                                                     // 0: the machine's
  std::function<void(std::int64_t done, std::int64_t rows)> progress;  // may be empty; may throw to stop
  std::function<void()> before_they_appear;  // when all of a suite is on the disk; may throw, and then none appears
};

// Writes DIRECTORY/NAME.h5.
ManifestEntry make_golden(const GoldenSpec& golden, const std::string& directory, const MakeOptions& options);

// Makes the directory if there is none, every golden of the suite, and then the manifest, which keeps the entries of
// other goldens already there. All of them appear, or none: until the last is complete they have temporary names, and a
// failure leaves the directory as it was, or none where there was none. Error{golden} when there is a manifest that
// cannot be read.
Manifest make_suite(const GoldenSuite& suite, const std::string& directory, const MakeOptions& options,
                    const std::function<void(const ManifestEntry&)>& made = {});

}  // namespace mxcheck
