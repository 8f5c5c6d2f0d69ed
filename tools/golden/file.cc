#include "tools/golden/file.h"

#include <filesystem>

#include "goldens/io/byte_source.h"
#include "numerics/error.h"

namespace mxcheck {

void add_trust_options(Command& sub, Trust& trust) {
  const auto manifest =
      sub.option("--manifest", trust.manifest, "Manifest of the golden (default: manifest.txt beside it)");
  sub.option("--sha256", trust.sha256, "The golden's SHA-256, where there is no manifest").excludes(manifest);
}

ManifestEntry trusted_entry(const std::string& golden, const Trust& trust) {
  const std::string name = std::filesystem::path(golden).filename().string();
  std::uint64_t size = 0;
  try {
    size = FileSource(golden).size();
  } catch (const Error& e) {
    throw Error(ErrorKind::golden, e.what());
  }
  if (!trust.sha256.empty()) {
    if (trust.sha256.size() != 64 || trust.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw Error(ErrorKind::usage, "--sha256 takes 64 lower-case hexadecimal digits");
    }
    return {trust.sha256, size, name};
  }
  if (trust.manifest.empty()) return entry_beside(golden);
  const Manifest manifest = read_manifest(trust.manifest);
  const ManifestEntry* entry = manifest.find(name);
  if (entry == nullptr) throw Error(ErrorKind::golden, golden + ": " + trust.manifest + " has no entry for " + name);
  return *entry;
}

}  // namespace mxcheck
