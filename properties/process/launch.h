#pragma once
// The program that a candidate's process is: the tool's own worker for a shared library, a Python interpreter for
// functions in Python ("python:MODULE:NAME", "python:FILE.py:NAME").

#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

inline constexpr std::string_view kPythonPrefix = "python:";
inline bool is_python(std::string_view candidate) { return candidate.starts_with(kPythonPrefix); }

struct Launch {
  std::string program;  // looked for in PATH if it has no slash
  std::vector<std::string> arguments;
  // This process's without the variables that name mxcheck: a candidate sees an ordinary process. In Python PYTHONPATH
  // has the package's folder too.
  std::vector<std::string> environment;
};

// Error{usage} where there is no libmxcheck_worker.so for Python beside the tool. The interpreter is MXCHECK_PYTHON,
// else python3.
Launch launch_of(const std::string& tool, const std::string& candidate, int socket, int shared,
                 const std::string& gpu_model);

// Why a process ended before it said anything: in words, of a wait status.
std::string early_end(const Launch& launch, const std::string& candidate, int status);

}  // namespace mxcheck
