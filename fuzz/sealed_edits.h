#pragma once
// Changes to what a run's file or a checkpoint holds, as somebody makes them who knows the format: each byte decides
// something, and the hash is right again unless a byte says otherwise.

#include <string>

#include "fuzz/hdf5_builder.h"
#include "goldens/format/unverified.h"

namespace mxcheck::fuzz {

// Always what read_unverified could give.
UnverifiedGolden edited(UnverifiedGolden contents, Choices choices);

// The data of a dataset that is there.
const std::vector<std::byte>& data_of(const UnverifiedGolden& contents, const std::string& name);

}  // namespace mxcheck::fuzz
