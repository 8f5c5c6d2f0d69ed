// Where libraries are looked for (properties/process/candidate_process.h).

#include <filesystem>
#include <optional>

#include "numerics/error.h"
#include "properties/process/candidate_process.h"
#include "properties/process/launch.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

// libmxcheck_<name>.so beside the tool or where an installation or a build has it; tried lists the places.
std::optional<std::string> find_by_name(const std::string& name, const std::string& tool, std::string& tried) {
  const fs::path here = fs::path(tool).parent_path();
  std::error_code unreadable;  // a folder without permission has no library
  for (const char* place : {".", "../lib", "../lib/mxcheck", "../lib/x86_64-linux-gnu", "../kernels/cpu",
                            "../kernels/sm90", "../kernels/sm100"}) {
    const fs::path path = here / place / ("libmxcheck_" + name + ".so");
    if (fs::is_regular_file(path, unreadable)) return fs::canonical(path).string();
    tried += (tried.empty() ? "" : ", ") + path.lexically_normal().string();
  }
  return std::nullopt;
}

}  // namespace

std::string own_executable() { return fs::read_symlink("/proc/self/exe").string(); }

std::string find_candidate_library(const std::string& name, const std::string& tool) {
  std::error_code unreadable;
  if (is_python(name)) return name;
  if (name.find('/') != std::string::npos || name.ends_with(".so")) {
    if (fs::is_regular_file(name, unreadable)) return fs::absolute(name).lexically_normal().string();
    throw Error(ErrorKind::usage, "candidate " + name + " does not exist or is no file");
  }
  std::string tried;
  if (const auto path = find_by_name(name, tool, tried)) return *path;
  throw Error(ErrorKind::usage,
              "no candidate named '" + name + "'; looked for " + tried + "; give the path of a shared library instead");
}

std::pair<std::string, std::string> find_gpu_model(const std::string& given, const std::string& tool) {
  std::error_code unreadable;
  std::string tried = given;
  if (!given.empty() && fs::is_regular_file(given, unreadable)) return {given, ""};
  if (given.empty()) {
    if (const auto path = find_by_name("gpu_model", tool, tried)) return {*path, ""};
  }
  return {"", "there is no library of the GPU model; looked for " + tried};
}

}  // namespace mxcheck
