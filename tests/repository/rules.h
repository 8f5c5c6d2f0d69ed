#pragma once
// The rules of the sources that a machine can check, as functions of a path and a text, so that each rule can itself be
// tested on a planted violation.
//
// Does not parse C++: comments and string literals are blanked, the rest is words.
//
// Then the rules of who may include whom, those by which each header stands alone, and the sources to run them on.

#include <filesystem>
#include <functional>
#include <map>
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

// ---- Who may include whom, as two tables, and functions of a path and a text that read them, so
// that the rules can be tested on planted violations. docs/design.md draws the arrows.

struct Arrow {
  std::string_view from;             // prefix of a source's path; the longest that fits counts
  std::vector<std::string_view> to;  // prefixes of what it may include
  // A source in a folder of `from` (kernels/cpu/a.cc) may include that folder (kernels/cpu/) and not its neighbours.
  bool own_folder = false;
};

// Between the folders of the tree. A folder that is not listed may include anything.
const std::vector<Arrow>& folder_arrows();
// Between the groups of properties/; includes of other folders are not checked.
const std::vector<Arrow>& property_arrows();

// Includes that the arrows do not allow. path is relative to the repository's root.
std::vector<Finding> forbidden_includes(std::string_view path, std::string_view text);        // folder_arrows()
std::vector<Finding> forbidden_group_includes(std::string_view path, std::string_view text);  // property_arrows()

// ---- Rules by which each header stands alone. They read text: no header is compiled for them. Public
// headers are compiled alone besides (consumer/CMakeLists.txt).
//
// Does not know the project's own names: a header that uses one of our types without its include is found by the
// compiler, since a source includes its own header first.

// A source whose folder has a header of the same stem (`headers`: the paths of all headers) includes it first.
// Not checked in kernels/sm90, whose sources cannot change without new records of GPU runs.
std::vector<Finding> own_header_first(std::string_view path, std::string_view text,
                                      std::span<const std::string> headers);

// The texts of headers by their path.
using HeaderTexts = std::map<std::string, std::string, std::less<>>;

// Names std::x in a header for which neither it nor a header of ours that it includes has the standard header, and
// names that the table of rules.cc lacks. One finding a name: the first line that has it.
std::vector<Finding> missing_std_includes(std::string_view text, const HeaderTexts& headers);

// ---- The sources of this repository, for rules to be run on.

const std::filesystem::path& root();

// The bytes of a file; a failure of the test when there is none.
std::string contents(const std::filesystem::path& path);

struct Source {
  std::string path;  // relative to the root
  std::string text;
};

// Every C and C++ file of the tree's folders.
const std::vector<Source>& sources();

// A line for each finding of the rule, which is called with each source; empty where there are none.
template <class Rule>
std::string report(Rule rule) {
  std::string lines;
  for (const Source& source : sources()) {
    for (const Finding& finding : rule(source))
      lines += source.path + ":" + std::to_string(finding.line) + ": " + finding.what + "\n";
  }
  return lines;
}

}  // namespace mxcheck::repository
