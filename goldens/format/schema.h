#pragma once
// Private to goldens/: what a golden may hold, as checks for the writer and as the reader's validation of an open file.

#include <string>

#include "goldens/format/golden.h"
#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/storage.h"

namespace mxcheck {

inline constexpr const char* kFileKindKey = "mxcheck_file";
inline constexpr const char* kVersionKey = "schema_version";
inline constexpr const char* kRoleKey = "role";
inline constexpr const char* kFormatKey = "format";

inline constexpr std::size_t kMaxDatasets = 256;
inline constexpr std::size_t kMaxAttributes = 256;   // of one object
inline constexpr std::size_t kMaxText = 64 << 10;    // bytes of an attribute's value
inline constexpr std::uint64_t kMaxChunk = 8 << 20;  // bytes; the writer's have about one MiB

// Why the info is invalid; empty if it is valid.
std::string objection(const GoldenInfo& info, const std::string& file_kind);

struct GoldenSchema {
  std::string file_kind;
  GoldenInfo info;
};

// Reads all but the data; place.where names the file. Refuses whatever GoldenWriter would not have written.
GoldenSchema read_schema(hid_t file, const Hdf5Place& place);

}  // namespace mxcheck
