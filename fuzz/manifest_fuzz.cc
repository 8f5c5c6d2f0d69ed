// The bytes are a manifest. What is read is written back as it was: there is one way to say a thing.

#include "fuzz/check.h"
#include "goldens/format/manifest.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck;
  const std::string text(data, data + size);
  Manifest manifest;
  if (!fuzz::accepted(ErrorKind::golden, [&] { manifest = parse_manifest(text, "manifest.txt"); })) return 0;
  fuzz::require(to_text(manifest) == text, "a manifest is written as it was read");
  for (const ManifestEntry& entry : manifest.entries) {
    fuzz::require(manifest.find(entry.name) == &entry, "an entry is found by its name");
  }
  return 0;
}
