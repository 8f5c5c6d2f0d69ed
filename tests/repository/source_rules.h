#pragma once
// The rules of the sources that a machine can check, as functions of a path and a text, so that each rule can itself be
// tested on a planted violation.
//
// Does not parse C++: comments and string literals are blanked, the rest is words.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck::repository {

struct Finding {
  std::size_t line;  // from 1
  std::string what;
  friend bool operator==(const Finding&, const Finding&) = default;
};

// The text with comments, and with literals unless they are kept, turned into spaces; line breaks stay.
std::string code_only(std::string_view text, bool keep_literals = false);

bool starts_with_any(std::string_view path, std::span<const std::string_view> prefixes);

struct Include {
  std::size_t line;
  std::string name;
  bool quoted;  // "name", not <name>
};
std::vector<Include> includes_of(std::string_view text);

// Words that do not belong where the path says the text is: output and process control in libraries, value conversions
// by reinterpret_cast, RapidCheck's own float generators.
std::vector<Finding> forbidden_words(std::string_view path, std::string_view text);

// Literals that name an operation, in the code of properties/ that all operations share: whoever asks for a name there
// makes the next operation edit it (docs/extending.md).
std::vector<Finding> operation_names(std::string_view path, std::string_view text);

// Bytes beyond ASCII, tabs, carriage returns, white space at line ends.
std::vector<Finding> forbidden_bytes(std::string_view text);

// packages.txt: one name a line, sorted, each once; comments start with '#'.
std::vector<std::string> package_names(std::string_view text);

}  // namespace mxcheck::repository
