#include "tools/common/output.h"

#include <filesystem>

#include "goldens/format/described_file.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

// A file's name may hold colons, and one precedes the tensor's name.
bool is_in(const std::string& input, const std::filesystem::path& output) {
  std::error_code error;
  for (std::size_t end = input.size(); end != std::string::npos && end > 0; end = input.rfind(':', end - 1)) {
    if (std::filesystem::equivalent(input.substr(0, end), output, error) && !error) return true;
  }
  return false;
}

}  // namespace

void check_output(const std::string& output, OutputKinds kinds, const std::vector<std::string>& inputs) {
  const std::filesystem::path path(output);
  if (kinds == OutputKinds::safetensors_or_hdf5 && !is_described_path(output)) {
    throw Error(ErrorKind::usage, output + ": name the output OUT.safetensors or OUT.h5");
  }
  if (kinds == OutputKinds::npy_or_safetensors && path.extension() != ".npy" && path.extension() != ".safetensors") {
    throw Error(ErrorKind::usage, output + ": name the output OUT.npy or OUT.safetensors");
  }
  for (const std::string& input : inputs) {
    if (!is_in(input, path)) continue;
    throw Error(ErrorKind::usage,
                output + ": is " + (inputs.size() == 1 ? "the" : "an") + " input file; choose another output");
  }
}

}  // namespace mxcheck
