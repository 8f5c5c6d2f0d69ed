#include "goldens/format/reader.h"

#include <memory>
#include <new>
#include <span>
#include <utility>

#include "goldens/format/schema.h"
#include "goldens/hdf5/image.h"
#include "goldens/hdf5/rows.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "numerics/error.h"
#include "numerics/one_line.h"

namespace mxcheck {
namespace {

// Errors about files are errors about goldens here.
template <class Action>
auto as_golden(Action action) {
  try {
    return action();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input) throw;
    throw Error(ErrorKind::golden, e.what());
  }
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::golden, path + ": " + one_line(what));
}

}  // namespace

struct GoldenReader::State {
  std::string path;
  FileSource source;
  std::unique_ptr<std::byte[]> image;  // the file, when it is small enough
  Hdf5Handle file;                     // of the image or of the source's descriptor, and closed before them
  GoldenSchema schema;

  State(const std::string& p, const ManifestEntry& expected, std::uint64_t most_in_memory,
        std::atomic<std::uint64_t>* hashed)
      : path(p), source(p) {
    if (source.size() != expected.size) {
      refuse(path, "has " + std::to_string(source.size()) + " bytes, but " + std::to_string(expected.size) +
                       " in the manifest");
    }
    const bool small = source.size() <= most_in_memory;
    const std::string hash = small ? load(hashed) : sha256(source, hashed);
    if (hash != expected.sha256) refuse(path, "has SHA-256 " + hash + ", but " + expected.sha256 + " in the manifest");
    quiet_hdf5();
    file = small ? open_image({image.get(), source.size()}, place()) : open_file();
    schema = read_schema(file.id(), place());
  }

  [[nodiscard]] Hdf5Place place() const { return {path, ErrorKind::golden, source.size()}; }

  [[nodiscard]] Hdf5Handle open_file() const {
    const Hdf5Handle access = hdf5_access(Hdf5Locks::best_effort);
    Hdf5Handle opened(H5Fopen(source.open_name().c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
    if (!opened) refuse(path, "not an HDF5 file" + hdf5_says());
    return opened;
  }

  std::string load(std::atomic<std::uint64_t>* hashed) {
    try {
      image = std::make_unique_for_overwrite<std::byte[]>(source.size());
    } catch (const std::bad_alloc&) {
      throw Error(ErrorKind::environment, path + ": no memory for " + std::to_string(source.size()) + " bytes");
    }
    return sha256(source, {image.get(), source.size()}, hashed);
  }

  std::unique_ptr<RowReader> rows(const std::string& dataset) const {
    const DatasetInfo* set = schema.info.find(dataset);
    if (set == nullptr) refuse(path, "has no dataset '" + dataset + "'");
    quiet_hdf5();
    Hdf5Place at = place();
    at.where += ":/" + dataset;
    return std::make_unique<Hdf5Rows>(open_dataset(file.id(), dataset, at), TensorHead{set->dtype, set->shape}, at);
  }
};

namespace {

// Keeps the file, which may be in memory, open for as long as it is read.
class KeptRows final : public RowReader {
 public:
  KeptRows(std::shared_ptr<const void> file, std::unique_ptr<RowReader> rows)
      : file_(std::move(file)), rows_(std::move(rows)) {}
  [[nodiscard]] const TensorHead& head() const override { return rows_->head(); }
  void read(std::span<std::byte> to) override { rows_->read(to); }

 private:
  std::shared_ptr<const void> file_;
  std::unique_ptr<RowReader> rows_;
};

}  // namespace

GoldenReader::GoldenReader(const std::string& path, const ManifestEntry& expected, std::uint64_t most_in_memory,
                           std::atomic<std::uint64_t>* hashed)
    : state_(as_golden([&] { return std::make_shared<const State>(path, expected, most_in_memory, hashed); })) {}

GoldenReader::~GoldenReader() { quiet_hdf5(); }

const GoldenInfo& GoldenReader::info() const { return state_->schema.info; }

const std::string& GoldenReader::file_kind() const { return state_->schema.file_kind; }

std::unique_ptr<RowReader> GoldenReader::rows(const std::string& dataset) const {
  return std::make_unique<KeptRows>(state_, state_->rows(dataset));
}

Tensor GoldenReader::read(const std::string& dataset) const {
  Tensor tensor = read_whole(*rows(dataset), state_->path + ":/" + dataset);
  tensor.name = dataset;
  return tensor;
}

}  // namespace mxcheck
