#pragma once
// The list of a folder's goldens, kept in git: size and SHA-256 of each, checked before a golden is parsed.
//
//   mxcheck manifest 1, schema 1, mxcheck 0.1.0
//   SHA256  SIZE  NAME                          one line a file, sorted by name; two spaces between
//
// Errors: Error{golden} with file and line for a manifest that is missing, of another version or malformed: a name with
// '/' or twice, invalid digits, lines out of order, no newline at the end.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

inline constexpr const char* kManifestName = "manifest.txt";

struct ManifestEntry {
  std::string sha256;
  std::uint64_t size = 0;
  std::string name;
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

struct Manifest {
  std::string generator;  // "mxcheck 0.1.0"
  std::vector<ManifestEntry> entries;
  [[nodiscard]] const ManifestEntry* find(std::string_view name) const;
};

Manifest parse_manifest(std::string_view text, const std::string& where);
std::string to_text(Manifest manifest);  // sorts

Manifest read_manifest(const std::string& path);

// Error{golden}: the manifest of this path has no entry for the golden; the text names goldens that it does list.
[[noreturn]] void refuse_foreign(const std::string& golden, const std::string& path, const Manifest& manifest);

// The entry of a golden in the manifest.txt beside it; Error{golden} when there is no manifest, or no entry in it.
ManifestEntry entry_beside(const std::string& golden_path);

}  // namespace mxcheck
