#pragma once
// A file of the goldens' schema that no manifest vouches for, read whole: attributes and all datasets. The HDF5 library
// runs in a child process with limits on memory and time (goldens/hdf5/child.h); anything that GoldenWriter would not
// write is refused, as by GoldenReader.
//
//   const UnverifiedGolden file = read_unverified("run.h5");
//   file.kind == "parity"; file.info.datasets[0].name; file.data[0]
//
// Does not promise that the contents are what somebody wrote: only a hash can say so.
//
// Errors: Error{input}, one line that begins with the path; Error{environment} without memory.

#include <cstddef>
#include <string>
#include <vector>

#include "goldens/format/golden.h"

namespace mxcheck {

struct UnverifiedGolden {
  std::string kind;  // attribute mxcheck_file
  GoldenInfo info;
  std::vector<std::vector<std::byte>> data;  // by dataset: as many bytes as its shape and type call for
};

UnverifiedGolden read_unverified(const std::string& path);

}  // namespace mxcheck
