#pragma once
// Private to goldens/: an HDF5 file that is already in memory.

#include <cstddef>
#include <span>

#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/storage.h"

namespace mxcheck {

// Opens the bytes in place, read-only; they must outlive the handle. Error{place.kind} when they are no HDF5 file.
Hdf5Handle open_image(std::span<const std::byte> bytes, const Hdf5Place& place);

}  // namespace mxcheck
