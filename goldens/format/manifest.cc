#include "goldens/format/manifest.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "goldens/format/golden.h"
#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMaxText = 16 << 20;  // some 100000 goldens
constexpr std::size_t kMaxName = 255;         // of a file, in every file system of Linux
constexpr std::size_t kHashDigits = 64;

std::string first_line_start() { return std::string("mxcheck manifest 1, schema ") + kGoldenSchema + ", "; }

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7F; });
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  Manifest parse() {
    if (rest_.size() > kMaxText) refuse("the manifest has over 16 MiB");
    Manifest manifest;
    const std::string start = first_line_start();
    std::string_view line = next_line();
    if (!line.starts_with(start)) refuse("the first line must begin with '" + start + "'");
    line.remove_prefix(start.size());
    if (line.empty() || line.size() > kMaxName || !printable(line)) refuse("the first line must name its generator");
    manifest.generator = line;
    while (!rest_.empty()) {
      ManifestEntry entry = parse_entry(next_line());
      if (!manifest.entries.empty() && manifest.entries.back().name >= entry.name) {
        refuse("'" + entry.name + "' is there twice or not in order");
      }
      manifest.entries.push_back(std::move(entry));
    }
    return manifest;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::golden, where_ + ":" + std::to_string(line_) + ": " + what);
  }

  std::string_view next_line() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("the line does not end: is the manifest cut short?");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  ManifestEntry parse_entry(std::string_view line) const {
    ManifestEntry entry;
    entry.sha256 = line.substr(0, kHashDigits);
    const bool hex = std::all_of(entry.sha256.begin(), entry.sha256.end(),
                                 [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (entry.sha256.size() != kHashDigits || !hex) refuse("a line begins with 64 lower-case hexadecimal digits");
    line.remove_prefix(kHashDigits);
    skip_gap(line);
    const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    const auto size = parse_number<std::uint64_t>(line.substr(0, digits));
    const bool padded = digits > 1 && line[0] == '0';
    if (!size || padded || *size > std::numeric_limits<std::int64_t>::max()) {
      refuse("the size must be a decimal number below 2^63, without zeros before it");
    }
    entry.size = *size;
    line.remove_prefix(digits);
    skip_gap(line);
    const bool plain = !line.empty() && line.size() <= kMaxName && printable(line) && line.front() != ' ' &&
                       line.back() != ' ' && line != "." && line != ".." && line.find('/') == std::string_view::npos;
    if (!plain) refuse("the name must be that of a file beside the manifest");
    entry.name = line;
    return entry;
  }

  void skip_gap(std::string_view& line) const {
    if (!line.starts_with("  ")) refuse("two spaces belong between hash, size and name");
    line.remove_prefix(2);
  }

  std::string_view rest_;
  const std::string& where_;
  std::size_t line_ = 0;
};

}  // namespace

const ManifestEntry* Manifest::find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

Manifest parse_manifest(std::string_view text, const std::string& where) { return Parser(text, where).parse(); }

std::string to_text(Manifest manifest) {
  std::sort(manifest.entries.begin(), manifest.entries.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.name < b.name; });
  std::string text = first_line_start() + manifest.generator + "\n";
  for (const ManifestEntry& entry : manifest.entries) {
    text += entry.sha256 + "  " + std::to_string(entry.size) + "  " + entry.name + "\n";
  }
  try {
    parse_manifest(text, kManifestName);
  } catch (const Error& e) {
    throw Error(ErrorKind::usage, std::string("a manifest that nobody could read: ") + e.what());
  }
  return text;
}

Manifest read_manifest(const std::string& path) {
  std::string text;
  try {
    const FileSource file(path);
    if (file.size() > kMaxText) throw Error(ErrorKind::input, path + ": over 16 MiB; not a manifest?");
    text = file.text();
  } catch (const Error& e) {
    throw Error(ErrorKind::golden, std::string("no manifest: ") + e.what());
  }
  return parse_manifest(text, path);
}

ManifestEntry entry_beside(const std::string& golden_path) {
  const std::filesystem::path golden(golden_path);
  const std::string manifest_path = (golden.parent_path() / kManifestName).string();
  const Manifest manifest = read_manifest(manifest_path);
  const ManifestEntry* entry = manifest.find(golden.filename().string());
  if (entry == nullptr) {
    throw Error(ErrorKind::golden, golden_path + ": " + manifest_path + " has no entry for it");
  }
  return *entry;
}

}  // namespace mxcheck
