#pragma once
// Private to goldens/: checks of a dataset before the HDF5 library reads it: external storage and links, plugins, and
// sizes beyond what the file can hold are rejected.

#include <cstdint>
#include <string>
#include <vector>

#include "goldens/hdf5/handle.h"
#include "numerics/error.h"
#include "numerics/one_line.h"

namespace mxcheck {

// deflate cannot expand by more than 1032 : 1 (258 bytes from two bits), so neither can a dataset of its file.
inline constexpr std::uint64_t kMaxExpansion = 1032;

// Where a reader is, for its errors and bounds.
struct Hdf5Place {
  std::string where;  // "x.h5:/a"
  ErrorKind kind = ErrorKind::input;
  std::uint64_t file_bytes = 0;
  [[noreturn]] void refuse(const std::string& what) const { throw Error(kind, one_line(where + ": " + what)); }
};

// The extents of a dataset; empty for a scalar. Rejects a missing shape, more than 32 dimensions, and sizes beyond 63
// bits.
std::vector<std::int64_t> shape_of(hid_t set, const Hdf5Place& place);

// Only deflate, shuffle and Fletcher-32, only data inside this file, only chunks that were written, and no more than
// `bytes` of data, which the file can hold.
void check_storage(hid_t set, std::uint64_t bytes, const Hdf5Place& place);

// Opens the dataset, a hard link, with a chunk cache in which no chunk is decoded twice by a sequential reader (up to
// 256 MiB of chunks side by side, and one chunk of any size).
Hdf5Handle open_dataset(hid_t file, const std::string& name, const Hdf5Place& place);

}  // namespace mxcheck
