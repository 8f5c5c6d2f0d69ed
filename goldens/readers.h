#pragma once
// Private to goldens/ and its tests: the readers behind read_tensor, one a file format.

#include <string>

#include "goldens/byte_source.h"
#include "goldens/tensor_file.h"

namespace mxcheck {

Tensor read_npy(const ByteSource& source);

// The named tensor, or the only one when the name is empty.
Tensor read_safetensors_tensor(const ByteSource& source, const std::string& name);
SafetensorsFile read_safetensors(const ByteSource& source);

// In a child process with limits on memory and time: the HDF5 library does not promise to survive hostile files.
Tensor read_hdf5(const std::string& path, const std::string& dataset);
// The same without the child.
Tensor read_hdf5_in_this_process(const std::string& path, const std::string& dataset);

// Error{usage} unless data holds exactly what dtype and shape call for.
void check_tensor(const Tensor& tensor, const std::string& where);

}  // namespace mxcheck
