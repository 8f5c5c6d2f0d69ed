#include "tests/repository/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <span>

namespace mxcheck::repository {
namespace {

template <class F>
void for_each_line(std::string_view text, F f) {
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    f(line, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

constexpr std::array<std::string_view, 12> kFolders{"bindings/", "numerics/",   "reference/",  "goldens/",
                                                    "kernels/",  "properties/", "benchmarks/", "examples/",
                                                    "tools/",    "tests/",      "fuzz/",       "pages/"};

struct WordRule {
  const char* pattern;
  std::vector<std::string_view> words;  // a text without any of them has no match
  std::string_view what;
  std::vector<std::string_view> where;  // prefixes of paths
};

const std::vector<WordRule>& word_rules() {
  static const std::vector<std::string_view> libraries{"bindings/",   "numerics/", "reference/", "goldens/",
                                                       "properties/", "kernels/",  "pages/"};
  static const std::vector<std::string_view> all{kFolders.begin(), kFolders.end()};
  static const std::vector<WordRule> rules{
      {R"(\b(printf|puts|putchar|perror)\s*\(|\bstd::(cout|cerr|clog|print)\b)",
       {"printf", "puts", "putchar", "perror", "cout", "cerr", "clog", "print"},
       "libraries never print",
       libraries},
      {R"(\bfprintf\s*\()", {"fprintf"}, "libraries never print", libraries},
      {R"(\b(exit|abort|quick_exit|terminate)\s*\()",
       {"exit", "abort", "terminate"},
       "libraries never end the process",
       libraries},
      {R"(\breinterpret_cast\s*<\s*(const\s+)?(float|double|std::uint(16|32|64)_t|(unsigned\s+)?(int|long|short))\s*[&*])",
       {"reinterpret_cast"},
       "values change type by std::bit_cast or std::memcpy",
       {"numerics/", "reference/", "properties/"}},
      {R"(\barbitrary\s*<\s*(float|double)\s*>)",
       {"arbitrary"},
       "RapidCheck's float generators miss nearly all of the range",
       all},
      {R"(\busing\s+namespace\s+std\b)", {"using"}, "names of std are written out", all},
      {R"(\b(rand|srand)\s*\()", {"rand"}, "random numbers come from the root seed", all},
      {R"(\brandom_device\b)", {"random_device"}, "the tool alone may draw a root seed", libraries},
      {R"(\bTODO\b(?!\(#\d+\)))", {"TODO"}, "a TODO names its issue: TODO(#12)", all},
      {R"(\bcu(daDevice|Ctx)Synchronize\b)",
       {"Synchronize"},
       "waiting for the whole device ends the capture of a graph by another thread: wait for a stream",
       {"kernels/sm90/", "bindings/"}},
      {R"(\bassert\s*\()", {"assert"}, "a check that a release build leaves out is none: throw Error", libraries},
  };
  return rules;
}

}  // namespace

std::string code_only(std::string_view text, bool keep_literals) {
  std::string out(text);
  enum class In { code, line_comment, block_comment, literal } in = In::code;
  char quote = 0;
  const auto blank = [&](std::size_t i) {
    if (out[i] != '\n') out[i] = ' ';
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (in) {
      case In::code:
        if (c == '/' && (next == '/' || next == '*')) {
          in = next == '/' ? In::line_comment : In::block_comment;
          blank(i), blank(i + 1), ++i;
        } else if (c == '"' || (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
          in = In::literal;  // a quote after a digit separates digits
          quote = c;
        }
        break;
      case In::line_comment:
        if (c == '\n') in = In::code;
        blank(i);
        break;
      case In::block_comment:
        blank(i);
        if (c == '*' && next == '/') {
          blank(++i);
          in = In::code;
        }
        break;
      case In::literal:
        if (c == quote || c == '\n') {
          in = In::code;
        } else if (!keep_literals) {
          blank(i);
          if (c == '\\' && next != '\n' && i + 1 < text.size()) blank(++i);
        } else if (c == '\\') {
          ++i;
        }
        break;
    }
  }
  return out;
}

bool starts_with_any(std::string_view path, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return path.starts_with(prefix); });
}

std::vector<Include> includes_of(std::string_view text) {
  static const std::regex include(R"(^\s*#\s*include\s*(["<])([^">]+)[">].*)");
  std::vector<Include> includes;
  const std::string code = code_only(text, true);
  for_each_line(code, [&](std::size_t number, std::string_view line) {
    if (line.find('#') == std::string_view::npos) return;  // std::regex takes a microsecond a byte
    std::match_results<std::string_view::const_iterator> match;
    if (!std::regex_match(line.begin(), line.end(), match, include)) return;
    includes.push_back({number, match[2], match[1] == "\""});
  });
  return includes;
}

std::vector<Finding> forbidden_words(std::string_view path, std::string_view text) {
  std::vector<Finding> findings;
  const std::string code = code_only(text);
  for (const WordRule& rule : word_rules()) {
    if (!starts_with_any(path, rule.where)) continue;
    // A TODO lives in a comment; every other word counts in code alone.
    const std::string_view searched = rule.what.starts_with("a TODO") ? text : std::string_view(code);
    const auto in_text = [&](std::string_view word) { return searched.find(word) != std::string_view::npos; };
    if (std::ranges::none_of(rule.words, in_text)) continue;
    const std::regex pattern(rule.pattern);
    for_each_line(searched, [&](std::size_t number, std::string_view line) {
      const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
      if (std::ranges::none_of(rule.words, in_line)) return;
      if (std::regex_search(line.begin(), line.end(), pattern)) findings.push_back({number, std::string(rule.what)});
    });
  }
  return findings;
}

std::vector<Finding> operation_names(std::string_view path, std::string_view text) {
  if (!path.starts_with("properties/") || path.starts_with("properties/operations/")) return {};
  if (path.starts_with("properties/diagnosis/")) return {};  // reads goldens, whose kinds have the same names
  // Knows what each operation's answers are compared with; a new operation is not identified until someone says that.
  if (path.starts_with("properties/identify/library/")) return {};
  static constexpr std::array<std::string_view, 10> kNames{
      "quantize", "quantize_dual", "dequantize",  "scale_layout",   "cast",
      "matmul",   "route",         "route_round", "route_metadata", "route_backward"};
  std::vector<Finding> findings;
  std::size_t line = 1;
  const std::string code = code_only(text, true);
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '\n') ++line;
    if (code[at] != '"') continue;
    const std::string_view rest = std::string_view(code).substr(at + 1);
    for (const std::string_view name : kNames) {
      const bool ends =
          rest.starts_with(name) && rest.size() > name.size() && (rest[name.size()] == '"' || rest[name.size()] == ':');
      if (ends) findings.push_back({line, "names the operation " + std::string(name)});
    }
  }
  return findings;
}

std::vector<Finding> forbidden_bytes(std::string_view text) {
  std::vector<Finding> findings;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == '\t' || byte == '\r' || byte < 0x20 || byte > 0x7E) {
        findings.push_back({number, "byte " + std::to_string(byte) + " is not printable ASCII"});
        break;
      }
    }
    if (line.ends_with(' ')) findings.push_back({number, "white space at the end of the line"});
  });
  if (!text.empty() && !text.ends_with('\n')) findings.push_back({0, "no line break at the end of the file"});
  return findings;
}

std::vector<std::string> package_names(std::string_view text) {
  std::vector<std::string> names;
  for_each_line(text, [&](std::size_t, std::string_view line) {
    line = line.substr(0, line.find('#'));
    while (line.ends_with(' ')) line.remove_suffix(1);
    if (!line.empty()) names.emplace_back(line);
  });
  return names;
}

}  // namespace mxcheck::repository
