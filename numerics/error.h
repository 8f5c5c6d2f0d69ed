#pragma once
// The one exception type that mxcheck's libraries throw for bad input, and what its kinds are called elsewhere: the
// table that exit codes, results of the C interface and Python's exceptions come from. Libraries never print and never
// exit: the tool turns the kind into an exit code and what() into one line.

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mxcheck {

enum class ErrorKind { usage, input, environment, golden, internal };

struct ErrorKindSpec {
  ErrorKind kind;
  std::string_view name;
  int c_result;   // of bindings/mxcheck_c.h, where 0 is success; a program built before knows it: never changed
  int exit_code;  // of the program, documented in docs/ci.md; 0, 1, 4 and 6 are answers and no errors
  std::string_view python;  // the exception of python/mxcheck/_errors.py
  std::string_view meaning;
};

inline constexpr std::array<ErrorKindSpec, 5> kErrorKinds{{
    {ErrorKind::usage, "usage", 1, 2, "UsageError", "an invalid request: unknown name, wrong shape, overflow"},
    {ErrorKind::input, "input", 2, 2, "InputError",
     "a file or tensor that is not what it should be: truncated, wrong dtype or rank"},
    {ErrorKind::environment, "environment", 3, 3, "EnvironmentError_",
     "the machine lacks something: no GPU, no memory, library cannot be loaded"},
    {ErrorKind::golden, "golden", 4, 5, "GoldenError", "a golden that is missing, corrupt or of another version"},
    {ErrorKind::internal, "internal", 5, 70, "InternalError", "a bug in mxcheck"},
}};

constexpr const ErrorKindSpec& spec(ErrorKind kind) { return kErrorKinds[static_cast<std::size_t>(kind)]; }

static_assert(
    [] {
      for (const ErrorKindSpec& row : kErrorKinds) {
        if (&spec(row.kind) != &row) return false;
      }
      return true;
    }(),
    "the rows are in the order of the kinds");

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
