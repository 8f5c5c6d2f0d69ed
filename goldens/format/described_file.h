#pragma once
// Tensors with the metadata that explains them, in either of two files that say the same:
//
//   FILE.safetensors   tensors, and the metadata as __metadata__
//   FILE.h5, .hdf5     the tensors as datasets of the root group (floats as their bits in unsigned integers), the
//   metadata
//                      as its attributes, in the format of goldens (goldens/format/writer.h)
//
// The metadata's mxcheck_file names the kind of file: "quantized", "routes". Errors are those of write_safetensors and
// GoldenWriter; a write that fails leaves no file.

#include <functional>
#include <string>
#include <string_view>

#include "goldens/io/tensor_file.h"

namespace mxcheck {

bool is_hdf5_path(const std::string& path);       // by its extension, as all three
bool is_described_path(const std::string& path);  // .safetensors, .h5, .hdf5

// format_of: what the elements are, by the names of the attribute `format` ("float8_e4m3fn", "int32"); of HDF5 alone.
void write_described(const std::string& path, const SafetensorsFile& file,
                     const std::function<std::string_view(const Tensor&)>& format_of);

}  // namespace mxcheck
