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
#include "properties/goldens/suite.h"

namespace mxcheck {

// Writes DIRECTORY/NAME.h5.
ManifestEntry make_golden(const GoldenSpec& golden, const std::string& directory, const MakeOptions& options);

// Makes the directory if there is none, every golden of the suite, and then the manifest, which keeps the entries of
// other goldens already there. All of them appear, or none: until the last is complete they have temporary names, and a
// failure leaves the directory as it was, or none where there was none. Error{golden} when there is a manifest that
// cannot be read.
Manifest make_suite(const GoldenSuite& suite, const std::string& directory, const MakeOptions& options,
                    const std::function<void(const ManifestEntry&)>& made = {});

}  // namespace mxcheck
