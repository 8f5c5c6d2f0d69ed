// The bytes decide what an HDF5 file holds, whose hash the manifest knows. What the reader takes, its data is as it was
// written, and the writer would have written the same.

#include <memory>
#include <vector>

#include "fuzz/check.h"
#include "fuzz/hdf5_builder.h"
#include "goldens/format/reader.h"
#include "goldens/format/writer.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"

namespace mxcheck::fuzz {
namespace {

void write_again(const GoldenReader& reader) {
  const std::string path = scratch() + "/again.h5";
  GoldenWriter writer(path, reader.info(), {0, reader.file_kind().c_str()});
  for (std::size_t d = 0; d < reader.info().datasets.size(); ++d) {
    writer.append(d, reader.read(reader.info().datasets[d].name).data);
  }
  const ManifestEntry entry = writer.commit();
  const GoldenReader again(path, entry);
  require(again.info().attributes == reader.info().attributes, "attributes come back");
  for (const DatasetInfo& set : reader.info().datasets) {
    require(again.read(set.name).data == reader.read(set.name).data, "data comes back");
  }
}

ManifestEntry entry_of(const std::string& path) {
  const FileSource source(path);
  std::vector<std::byte> bytes(source.size());
  source.read(0, bytes);
  const ManifestEntry entry{sha256(bytes), bytes.size(), "golden"};
  const Manifest manifest = parse_manifest(to_text({"fuzz", {entry}}), "manifest");
  const ManifestEntry* known = manifest.find("golden");
  require(known != nullptr && *known == entry, "the manifest knows the file");
  return entry;
}

void read(const std::string& path, const BuiltData& built) {
  const ManifestEntry entry = entry_of(path);
  std::unique_ptr<GoldenReader> reader;
  if (!accepted(ErrorKind::golden, [&] { reader = std::make_unique<GoldenReader>(path, entry); })) return;
  for (const DatasetInfo& set : reader->info().datasets) {
    const Tensor tensor = reader->read(set.name);
    const auto written = built.find(set.name);
    require(tensor.data.empty() || (written != built.end() && tensor.data == written->second),
            "the data is what was written");
  }
  write_again(*reader);
}

}  // namespace
}  // namespace mxcheck::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck::fuzz;
  const std::string path = scratch() + "/built.h5";
  read(path, build_hdf5(path, Choices(bytes_of(data, size))));
  return 0;
}
