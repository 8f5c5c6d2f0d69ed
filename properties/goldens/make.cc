#include "properties/goldens/suite.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "goldens/format/writer.h"
#include "goldens/io/atomic_file.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

std::unique_ptr<GoldenWriter> written_in(const std::string& directory, const GoldenSpec& golden,
                                         const MakeOptions& options) {
  try {
    return golden.kind->write(golden, (std::filesystem::path(directory) / (golden.name + ".h5")).string(), options);
  } catch (const Error& e) {
    throw Error(e.kind(), "golden " + golden.name + ": " + e.what());
  }
}

// A directory and those above it, made if they are not there, and removed again unless they are kept.
class MadeDirectory {
 public:
  explicit MadeDirectory(const std::string& path) {
    std::error_code failed;
    for (std::filesystem::path at = std::filesystem::absolute(path, failed).lexically_normal();
         !failed && !at.empty() && !std::filesystem::exists(at, failed); at = at.parent_path()) {
      made_.push_back(at);
    }
    const SignalBlocker now;
    std::filesystem::create_directories(path, failed);
    for (const std::filesystem::path& at : made_) remember_temporary(at.string());
    if (failed) throw Error(ErrorKind::usage, path + ": cannot be made a directory (" + failed.message() + ")");
  }
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;
  ~MadeDirectory() {
    std::error_code not_empty;  // somebody else's files have come meanwhile
    for (const std::filesystem::path& at : made_) std::filesystem::remove(at, not_empty);
    keep();
  }
  void keep() {
    for (const std::filesystem::path& at : made_) forget_temporary(at.string());
    made_.clear();
  }

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace

ManifestEntry make_golden(const GoldenSpec& golden, const std::string& directory, const MakeOptions& options) {
  return written_in(directory, golden, options)->commit();
}

Manifest make_suite(const GoldenSuite& suite, const std::string& directory, const MakeOptions& options,
                    const std::function<void(const ManifestEntry&)>& made) {
  MadeDirectory made_directory(directory);
  const std::string path = (std::filesystem::path(directory) / kManifestName).string();
  Manifest manifest;
  std::error_code failed;
  if (std::filesystem::exists(path, failed)) manifest = read_manifest(path);
  manifest.generator = options.generator;
  std::vector<std::unique_ptr<GoldenWriter>>
      goldens;  // none appears before all of them and the manifest are on the disk
  for (const GoldenSpec& golden : suite.goldens) {
    goldens.push_back(written_in(directory, golden, options));
    const ManifestEntry entry = goldens.back()->complete();
    std::erase_if(manifest.entries, [&](const ManifestEntry& old) { return old.name == entry.name; });
    manifest.entries.push_back(entry);
    if (made) made(entry);
  }
  std::sort(manifest.entries.begin(), manifest.entries.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.name < b.name; });
  AtomicFile file(path);
  file.write(to_text(manifest));
  file.complete();
  if (options.before_they_appear) options.before_they_appear();
  const SignalBlocker until_all_are_there;  // a signal finds none of them at its path, or all
  for (const auto& golden : goldens) golden->commit();
  file.commit();
  made_directory.keep();
  return manifest;
}

MadeGolden GoldenKind::make(const GoldenSpec& golden, const MakeOptions& options) const {
  if (!make_)
    throw Error(ErrorKind::internal, "goldens of the kind " + std::string(name_) + " are written panel by panel");
  return make_(golden, options);
}

std::unique_ptr<GoldenWriter> GoldenKind::write(const GoldenSpec& golden, const std::string& path,
                                                const MakeOptions& options) const {
  if (write_ != nullptr) return write_(golden, path, options);
  const MadeGolden made = make(golden, options);
  auto writer = std::make_unique<GoldenWriter>(path, made.info, GoldenWriter::Options{options.compression, "golden"});
  for (std::size_t i = 0; i < made.data.size(); ++i) writer->append(i, made.data[i]);
  writer->complete();
  return writer;
}

}  // namespace mxcheck
