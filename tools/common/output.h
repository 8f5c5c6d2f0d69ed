#pragma once
// Where a subcommand's answer may go.

#include <string>
#include <vector>

namespace mxcheck {

enum class OutputKinds { safetensors_or_hdf5, npy_or_safetensors };

// Error{usage} for another extension, and for an output that is one of the inputs: files, or tensors in files
// ("x.safetensors:w"), or empty texts.
void check_output(const std::string& output, OutputKinds kinds, const std::vector<std::string>& inputs);

}  // namespace mxcheck
