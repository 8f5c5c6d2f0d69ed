#pragma once
// The one exception type that mxcheck's libraries throw for bad input. Libraries never print and never exit: the tool
// turns the kind into an exit code and what() into one line.

#include <stdexcept>
#include <string>

namespace mxcheck {

enum class ErrorKind {
  usage,        // an invalid request: unknown name, wrong shape, overflow                        (tool: exit 2)
  input,        // a file or tensor that is not what it should be: truncated, wrong dtype or rank (tool: exit 2)
  environment,  // the machine lacks something: no GPU, no memory, library cannot be loaded       (tool: exit 3)
  golden,       // a golden that is missing, corrupt or of another version                        (tool: exit 5)
  internal,     // a bug in mxcheck                                                               (tool: exit 70)
};

// The text says what was wrong, where, and what would be right, in one line without a final full stop.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] inline void refuse_usage(const std::string& text) { throw Error(ErrorKind::usage, text); }
[[noreturn]] inline void refuse_input(const std::string& text) { throw Error(ErrorKind::input, text); }

}  // namespace mxcheck
