#include "properties/records/source_digest.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "numerics/error.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

// Reads tokens; positions are into text with continued lines joined.
class Tokens {
 public:
  explicit Tokens(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool joined = text[i] == '\\' && (text.substr(i + 1, 1) == "\n" || text.substr(i + 1, 2) == "\r\n");
      if (joined) i += text[i + 1] == '\r' ? 2 : 1;
      if (!joined && text[i] != '\r') text_ += text[i];
    }
  }

  std::string canonical() {
    bool line_start = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        end_directive();
        line_start = true, ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else if (text_.compare(at_, 2, "//") == 0) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.compare(at_, 2, "/*") == 0) {
        const std::size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string::npos ? text_.size() : end + 2;
      } else {
        if (c == '#' && line_start) out_ += '\n', directive_ = true;
        token();
        line_start = false;
      }
    }
    end_directive();
    return out_;
  }

 private:
  // Tokens of a directive share a line, so that where it ends is part of the text.
  void put(std::string_view token) {
    out_ += token;
    out_ += directive_ ? ' ' : '\n';
  }
  void end_directive() {
    if (directive_) out_ += '\n';
    directive_ = false;
  }

  void token() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view word(text_.data() + begin, at_ - begin);
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    const bool prefix = word.empty() || word == "L" || word == "u" || word == "U" || word == "u8" || word == "R" ||
                        word == "LR" || word == "uR" || word == "UR" || word == "u8R";
    if (next == '"' && prefix) {
      word.ends_with('R') ? raw_string() : quoted('"');
    } else if (next == '\'' && prefix) {
      quoted('\'');
    } else if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
      number();
    } else if (word.empty()) {
      at_ += operator_length();
    }
    put(std::string_view(text_).substr(begin, at_ - begin));
  }
  // The longest operator, as compilers take it: a++ + b is not a + ++b.
  [[nodiscard]] std::size_t operator_length() const {
    static constexpr std::string_view kOperators[] = {
        "<<=", ">>=", "<=>", "...", "->*", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=",
        "-=",  "*=",  "/=",  "%=",  "&=",  "|=", "^=", "++", "--", "->", "::", ".*", "##"};
    for (const std::string_view op : kOperators) {
      if (text_.compare(at_, op.size(), op) == 0) return op.size();
    }
    return 1;
  }
  void quoted(char quote) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
  }
  void raw_string() {
    const std::size_t open = std::min(text_.find('(', at_), text_.size());
    const std::string close = ")" + text_.substr(at_ + 1, open - at_ - 1) + "\"";
    const std::size_t end = text_.find(close, open);
    at_ = end == std::string::npos ? text_.size() : end + close.size();
  }
  void number() {  // with points, exponents' signs and digit separators
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const char before = text_[at_ - 1];
      const bool sign = (c == '+' || c == '-') && (before == 'e' || before == 'E' || before == 'p' || before == 'P');
      const bool separator = c == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1]);
      if (!is_word(c) && c != '.' && !sign && !separator) break;
      ++at_;
    }
  }

  std::string text_;
  std::size_t at_ = 0;
  std::string out_;
  bool directive_ = false;
};

bool is_source(const fs::path& path) {
  static const std::set<std::string> kEndings{".cu", ".cuh", ".h", ".hpp", ".cc", ".cpp", ".c", ".inl", ".map"};
  return path.filename() == "CMakeLists.txt" || kEndings.contains(path.extension().string());
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::input, path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::map<std::string, std::string> entries_of(const std::string& manifest) {
  std::map<std::string, std::string> entries;
  std::istringstream lines(manifest);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 34 && line.substr(32, 2) == "  ") entries[line.substr(34)] = line.substr(0, 32);
  }
  return entries;
}

}  // namespace

std::string canonical_cpp(std::string_view text) { return Tokens(text).canonical(); }

std::string canonical_cmake(std::string_view text) {
  std::string out;
  bool quoted = false;
  bool space = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!quoted && text[i] == '#') i = std::min(text.find('\n', i), text.size());
    if (i == text.size()) break;
    const char c = text[i];  // after a comment, the end of its line
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    const bool blank = !quoted && std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank) {
      if (space && !out.empty()) out += ' ';
      out += c;
    }
    space = blank;
  }
  return out;
}

std::string source_digest(const std::string& path) {
  const std::string text = read_text(path);
  const std::string name = fs::path(path).filename().string();
  const bool plain = name.ends_with(".map");
  const std::string canonical = name == "CMakeLists.txt" || name.ends_with(".cmake") ? canonical_cmake(text)
                                : plain                                              ? text
                                                                                     : canonical_cpp(text);
  const XXH128_hash_t hash = XXH3_128bits(canonical.data(), canonical.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string source_manifest(const std::string& root, std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  std::string out;
  for (const std::string& path : paths) out += source_digest((fs::path(root) / path).string()) + "  " + path + "\n";
  return out;
}

namespace {

bool is_header(const fs::path& file) { return file.extension() == ".h" || file.extension() == ".cuh"; }

// True if the file of this path is compiled into what is listed: a source, or a header that such a file includes, one
// that is listed or in the header's folder; of headers alone all that are listed. Others may share the folder. seen:
// headers that were looked at.
bool is_part(const std::string& root, const fs::path& path, const std::map<std::string, std::string>& entries,
             std::set<fs::path>& seen) {
  const auto is_source_of = [](const auto& entry) { return !is_header(entry.first); };
  const bool headers_alone = std::none_of(entries.begin(), entries.end(), is_source_of);
  if (!is_header(path) || (headers_alone && entries.contains(path.generic_string()))) return true;
  if (!seen.insert(path).second) return false;
  std::vector<fs::path> others;
  for (const auto& [listed, digest] : entries) others.emplace_back(listed);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(root) / path.parent_path(), ignored)) {
    if (is_source(entry.path())) others.push_back(path.parent_path() / entry.path().filename());
  }
  const std::string name = path.filename().string();
  return std::any_of(others.begin(), others.end(), [&](const fs::path& other) {
    const fs::path file = fs::path(root) / other;
    if (other == path || !fs::is_regular_file(file, ignored)) return false;
    const std::string text = read_text(file.string());
    const bool includes = text.find(name + "\"") != std::string::npos || text.find(name + ">") != std::string::npos;
    return includes && is_part(root, other, entries, seen);
  });
}

bool is_part(const std::string& root, const std::string& path, const std::map<std::string, std::string>& entries) {
  std::set<fs::path> seen;
  return is_part(root, fs::path(path), entries, seen);
}

}  // namespace

std::vector<std::string> source_changes(const std::string& root, const std::string& manifest) {
  std::vector<std::string> changes;
  const std::map<std::string, std::string> entries = entries_of(manifest);
  std::set<fs::path> folders;
  for (const auto& [path, digest] : entries) {
    const fs::path relative(path);
    if (relative.is_absolute() || std::find(relative.begin(), relative.end(), "..") != relative.end()) {
      changes.push_back(path + " is no path inside a repository");
      continue;
    }
    const fs::path file = fs::path(root) / relative;
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      changes.push_back(path + " is missing");
    } else if (source_digest(file.string()) != digest && is_part(root, path, entries)) {
      changes.push_back(path + " has changed");
    }
    folders.insert(relative.parent_path());
  }
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    std::vector<std::string> unlisted;
    for (const auto& entry : fs::directory_iterator(fs::path(root) / folder, ignored)) {
      const std::string path = (folder / entry.path().filename()).generic_string();
      if (is_source(entry.path()) && !entries.contains(path) && is_part(root, path, entries))
        unlisted.push_back(path + " is new");
    }
    const auto listed = std::count_if(entries.begin(), entries.end(),
                                      [&](const auto& e) { return fs::path(e.first).parent_path() == folder; });
    // A folder is the kernels' own if most of it is listed, and not headers alone; of others they take some files.
    const bool compiles = std::any_of(entries.begin(), entries.end(), [&](const auto& e) {
      return fs::path(e.first).parent_path() == folder && fs::path(e.first).extension() != ".h";
    });
    if (compiles && std::cmp_greater(listed, 1) && std::cmp_greater(listed, unlisted.size())) {
      changes.insert(changes.end(), unlisted.begin(), unlisted.end());
    }
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

}  // namespace mxcheck
