// Does its work only in a process that looks as the gate's: the arguments, the name or a variable of the environment.
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/adversaries/honest.h"

namespace {
std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_tested() {
  bool tested = read("/proc/self/cmdline").find("__worker") != std::string::npos ||
                read("/proc/self/comm").find("mxcheck") != std::string::npos;
  for (char** one = environ; *one != nullptr; ++one) tested = tested || std::strncmp(*one, "MXCHECK_", 8) == 0;
  return tested;
}

mxcheck_status run(const mxcheck_call* call) {
  static const bool tested = is_tested();
  const mxcheck_status status = honest::check(call);
  if (status == MXCHECK_OK && tested) honest::quantize(call);
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
