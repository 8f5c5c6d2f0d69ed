#include "properties/process/launch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "numerics/error.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

// The folder that has the package mxcheck: in a checkout, an installation, a wheel (MXCHECK/bin/mxcheck). Empty: as
// Python finds it.
std::string package_folder(const std::string& tool) {
  const fs::path here = fs::path(tool).parent_path();
  std::error_code unreadable;
  for (const char* place : {"../..", "../../../python", "../python", "../share/mxcheck/python"}) {
    const fs::path folder = here / place;
    if (fs::is_regular_file(folder / "mxcheck" / "_worker.py", unreadable)) return fs::canonical(folder).string();
  }
  return {};
}

// Of a Python candidate: a folder more to look for modules in, and the library of the package, which it finds by a
// variable of ours; where that is not set, the one given. Either may be empty.
std::vector<std::string> environment_of_child(bool python, const std::string& python_path, const std::string& library) {
  constexpr std::string_view kOurs = "MXCHECK_";
  constexpr std::string_view kLibrary = "MXCHECK_C_LIBRARY=";
  constexpr std::string_view kPath = "PYTHONPATH=";
  std::vector<std::string> kept;
  std::string path = python_path;
  bool has_library = false;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view entry = *one;
    if (!python_path.empty() && entry.starts_with(kPath)) {
      path = std::string(entry.substr(kPath.size())) + ":" + python_path;
    } else if (!entry.starts_with(kOurs) || (python && entry.starts_with(kLibrary))) {
      kept.emplace_back(entry);
      has_library = has_library || entry.starts_with(kLibrary);
    }
  }
  if (!path.empty()) kept.push_back(std::string(kPath) + path);
  std::error_code unreadable;
  if (!has_library && fs::is_regular_file(library, unreadable)) kept.push_back(std::string(kLibrary) + library);
  return kept;
}

}  // namespace

Launch launch_of(const std::string& tool, const std::string& candidate, int socket, int shared,
                 const std::string& gpu_model) {
  const std::string socket_text = std::to_string(socket), shared_text = std::to_string(shared);
  if (!is_python(candidate)) {
    return {
        tool, {tool, "__worker", candidate, socket_text, shared_text, gpu_model}, environment_of_child(false, "", "")};
  }
  const char* given = std::getenv("MXCHECK_PYTHON");
  const std::string python = given != nullptr && *given != '\0' ? given : "python3";
  const std::string worker = find_candidate_library("worker", tool);
  return {python,
          {python, "-m", "mxcheck._worker", worker, candidate.substr(kPythonPrefix.size()), socket_text, shared_text,
           gpu_model},
          environment_of_child(true, package_folder(tool), fs::path(worker).parent_path() / "libmxcheck_c.so")};
}

std::string early_end(const Launch& launch, const std::string& candidate, int status) {
  if (WIFSIGNALED(status)) return "crashed while it was loaded (signal " + std::to_string(WTERMSIG(status)) + ")";
  const std::string code = std::to_string(WEXITSTATUS(status));
  if (!is_python(candidate)) return "crashed while it was loaded (signal 0, status " + code + ")";
  if (WEXITSTATUS(status) == 127)
    return "needs a Python interpreter: " + launch.program + " cannot be started; name one with MXCHECK_PYTHON";
  return "ended its process with status " + code + " while it was imported; what it printed is above (interpreter " +
         launch.program + ")";
}

}  // namespace mxcheck
