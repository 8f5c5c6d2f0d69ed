#pragma once
// A command of the shell: what it says on standard output, and how it ends.

#include <sys/wait.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace mxcheck::test {

struct ShellAnswer {
  int code = -1;  // as in a shell: the exit status, or 128 + signal
  std::string out;

  [[nodiscard]] bool says(const std::string& what) const { return out.find(what) != std::string::npos; }
};

inline ShellAnswer run_shell(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  ShellAnswer answer;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) answer.out.append(buffer, n);
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

}  // namespace mxcheck::test
