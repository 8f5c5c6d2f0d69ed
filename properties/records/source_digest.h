#pragma once
// Digests of source files that do not change with comments and formatting: what a record says its kernels were.

#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

// The tokens of C++ or CUDA, one a line: comments are gone, literals as they stand, a preprocessor line is one token.
std::string canonical_cpp(std::string_view text);
// A CMakeLists.txt without its line comments, with runs of blanks as one blank. Bracket comments stay.
std::string canonical_cmake(std::string_view text);

// 32 hexadecimal digits of the file's canonical text. Error{input} for a file that cannot be read.
std::string source_digest(const std::string& path);

// "digest  path" for each, sorted by path; paths are relative to root.
std::string source_manifest(const std::string& root, std::vector<std::string> paths);

// The differences from the manifest, a line each: sources changed, missing, or beside them and not listed. A header
// that none of them includes, nor a new source, is none of theirs: it may change, and may be new.
std::vector<std::string> source_changes(const std::string& root, const std::string& manifest);

}  // namespace mxcheck
