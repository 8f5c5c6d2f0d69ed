#include "goldens/format/reader.h"

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "goldens/format/schema.h"
#include "goldens/format/unverified.h"
#include "goldens/hdf5/child.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "numerics/byte_stream.h"
#include "numerics/error.h"
#include "numerics/text.h"

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

[[noreturn]] void reader_refuse(const std::string& path, const std::string& what) {
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
      reader_refuse(path, "has " + std::to_string(source.size()) + " bytes, but " + std::to_string(expected.size) +
                              " in the manifest");
    }
    const bool small = source.size() <= most_in_memory;
    const std::string hash = small ? load(hashed) : sha256(source, hashed);
    if (hash != expected.sha256)
      reader_refuse(path, "has SHA-256 " + hash + ", but " + expected.sha256 + " in the manifest");
    quiet_hdf5();
    file = small ? open_image({image.get(), source.size()}, place()) : open_file();
    schema = read_schema(file.id(), place());
  }

  [[nodiscard]] Hdf5Place place() const { return {path, ErrorKind::golden, source.size()}; }

  [[nodiscard]] Hdf5Handle open_file() const {
    const Hdf5Handle access = hdf5_access(Hdf5Locks::best_effort);
    Hdf5Handle opened(H5Fopen(source.open_name().c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
    if (!opened) reader_refuse(path, "not an HDF5 file" + hdf5_says());
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
    if (set == nullptr) reader_refuse(path, "has no dataset '" + dataset + "'");
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

namespace {

constexpr char kHead = 'T';
constexpr char kData = 'D';
constexpr std::uint32_t kMostHead = 16 << 20;  // bytes of all that is no data

void put(ByteWriter& to, const Attributes& attributes) {
  to.number<std::uint64_t>(attributes.size());
  for (const auto& [key, value] : attributes) to.text(key), to.text(value);
}

Attributes take_attributes(ByteReader& from) {
  Attributes attributes;
  for (std::uint64_t left = from.length(1); left > 0; --left) {
    std::string key = from.text();
    attributes.emplace_back(std::move(key), from.text());
  }
  return attributes;
}

std::vector<std::byte> head_of(const GoldenSchema& schema) {
  ByteWriter to;
  to.text(schema.file_kind);
  put(to, schema.info.attributes);
  to.number<std::uint64_t>(schema.info.datasets.size());
  for (const DatasetInfo& set : schema.info.datasets) {
    to.text(set.name), to.text(set.format);
    to.number(static_cast<std::uint8_t>(set.role)), to.number(static_cast<std::uint8_t>(set.dtype));
    to.list(set.shape);
    put(to, set.attributes);
  }
  return to.bytes();
}

// The child's word for it: checked as if it were a file's.
UnverifiedGolden parse_head(std::span<const std::byte> bytes, const std::string& path) {
  ByteReader from(bytes, path + ": damaged: the reader lost its way");
  UnverifiedGolden file;
  file.kind = from.text();
  file.info.attributes = take_attributes(from);
  for (std::uint64_t left = from.length(1); left > 0; --left) {
    DatasetInfo set;
    set.name = from.text(), set.format = from.text();
    set.role = from.number<std::uint8_t>() == 0 ? Role::input : Role::output;
    const auto dtype = from.number<std::uint8_t>();
    if (dtype >= kFormatSpecs.size()) from.refuse("no such type");
    set.dtype = static_cast<Format>(dtype);
    set.shape = from.list<std::int64_t>();
    set.attributes = take_attributes(from);
    file.info.datasets.push_back(std::move(set));
  }
  from.finish();
  if (const std::string wrong = objection(file.info, file.kind); !wrong.empty()) from.refuse(wrong);
  return file;
}

// In the child. False when the reader is gone.
bool send_all(int fd, const std::string& path) {
  quiet_hdf5();
  const Hdf5Place place{path, ErrorKind::input, FileSource(path).size()};
  const Hdf5Handle access = hdf5_access(Hdf5Locks::best_effort);
  const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file) place.refuse("not an HDF5 file, damaged or truncated" + hdf5_says());
  const GoldenSchema schema = read_schema(file.id(), place);
  const std::vector<std::byte> head = head_of(schema);
  if (head.size() > kMostHead) place.refuse("its attributes have over 16 MiB");
  if (!send_message(fd, kHead, head)) return false;
  std::vector<std::byte> piece(kChildPiece);
  for (const DatasetInfo& set : schema.info.datasets) {
    const Hdf5Place at{path + ":/" + set.name, place.kind, place.file_bytes};
    std::uint64_t left = checked_bytes(set.shape, size_of(set.dtype), at.where);
    Hdf5Rows rows(open_dataset(file.id(), set.name, at), {set.dtype, set.shape}, at);
    while (left > 0) {
      const auto part = std::span(piece).first(std::min<std::uint64_t>(left, piece.size()));
      rows.read(part);
      if (!send_message(fd, kData, part)) return false;
      left -= part.size();
    }
  }
  return true;
}

std::vector<std::byte> receive_data(Hdf5Child& child, std::uint64_t bytes, const std::string& where) {
  if (bytes / kMaxExpansion > child.file_bytes()) child.damaged("the reader lost its way");
  std::vector<std::byte> data = room_for(bytes, where);
  for (auto left = std::span(data); !left.empty();) {
    const std::uint32_t part = child.next_message(kData, kChildPiece);
    if (part > left.size()) child.damaged("the reader lost its way");
    child.read(left.first(part));
    left = left.subspan(part);
  }
  return data;
}

}  // namespace

UnverifiedGolden read_unverified(const std::string& path) {
  try {
    Hdf5Child child(path, [&](int fd) { return send_all(fd, path); });
    std::vector<std::byte> head(child.next_message(kHead, kMostHead));
    child.read(head);
    UnverifiedGolden file = parse_head(head, path);
    for (const DatasetInfo& set : file.info.datasets) {
      const std::string where = path + ":/" + set.name;
      file.data.push_back(receive_data(child, checked_bytes(set.shape, size_of(set.dtype), where), where));
    }
    return file;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::environment, path + ": no memory to read it");
  }
}

}  // namespace mxcheck
