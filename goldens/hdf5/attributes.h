#pragma once
// Private to goldens/: text attributes of an HDF5 object, fixed-length, null-padded UTF-8 scalars.

#include <cstddef>
#include <string>

#include "goldens/format/golden.h"
#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/storage.h"

namespace mxcheck {

// Error{place.kind} when the library fails. An empty value is stored as one zero byte: HDF5 has no empty strings.
void write_attribute(hid_t object, const std::string& key, const std::string& value, const Hdf5Place& place);

// All attributes in the order of their creation; refuses other types, more than `most`, and values over `longest`.
Attributes read_attributes(hid_t object, std::size_t most, std::size_t longest, const Hdf5Place& place);

}  // namespace mxcheck
