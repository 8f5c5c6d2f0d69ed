#pragma once
// A run of training as an HDF5 file of kind "parity": docs/parity.md has it as a table.
//
//   write_run("run.h5", record);          read_run("run.h5") == record, to the bit
//
// Equal records give equal bytes (under the same zlib: data is deflated). The file appears whole or not at all, and has
// the SHA-256 of its contents in it.
//
// Errors: write_run Error{usage} for a record whose parts do not agree and for a path that cannot be written,
// Error{environment} for a full disk; read_run Error{input}, one line with path and place, for a file that is
// truncated, altered, of another kind or version, or whose parts do not agree.

#include <filesystem>
#include <string>

#include "trainer/record/run_record.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {

inline constexpr const char* kRunKind = "parity";

void write_run(const std::filesystem::path& path, const RunRecord& run);
RunRecord read_run(const std::filesystem::path& path);

// The hash in the run's file, by which branches name their trunk.
std::string sha256_of(const RunRecord& run);

// The same without a file: what write_run writes, and what read_run makes of what was read.
UnverifiedGolden contents_of(const RunRecord& run);
RunRecord run_in(SealedReader file);

}  // namespace mxcheck
