#include "goldens/format/writer.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "goldens/format/described_file.h"
#include "goldens/format/schema.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/atomic_file.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/chunk_writer.h"
#include "goldens/io/readers.h"
#include "goldens/io/sha256.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr std::size_t kWriterPiece = 1 << 20;

// The file's own properties: nothing in them depends on the date or on defaults of the library.
Hdf5Handle create_file(const std::string& name, const Hdf5Place& place) {
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.id(), 0);
  H5Pset_link_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  const Hdf5Handle access = hdf5_access(Hdf5Locks::none);  // no other process has the file
  H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  Hdf5Handle file(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose);
  if (!file) place.refuse("could not be created" + hdf5_says());
  return file;
}

template <class Take>
void in_pieces(std::uint64_t bytes, std::size_t piece, Take take) {
  for (std::uint64_t at = 0; at < bytes; at += piece) {
    take(at, static_cast<std::size_t>(std::min<std::uint64_t>(piece, bytes - at)));
  }
}

bool same(const GoldenInfo& a, const GoldenInfo& b) {
  return a.attributes == b.attributes && std::equal(a.datasets.begin(), a.datasets.end(), b.datasets.begin(),
                                                    b.datasets.end(), [](const DatasetInfo& x, const DatasetInfo& y) {
                                                      return x.name == y.name && x.role == y.role &&
                                                             x.format == y.format && x.dtype == y.dtype &&
                                                             x.shape == y.shape && x.attributes == y.attributes;
                                                    });
}

GoldenInfo checked(const std::string& path, const GoldenInfo& info, const GoldenWriter::Options& options) {
  std::string wrong = objection(info, options.file_kind);
  if (options.compression < 0 || options.compression > 9) wrong = "compression goes from 0 to 9";
  if (!wrong.empty()) throw Error(ErrorKind::usage, path + ": " + wrong);
  return info;
}

// XXH3 with 128 bits: detects accidental differences between what was written and what was given.
class Digest {
 public:
  Digest() { XXH3_128bits_reset(state_.get()); }
  void update(std::span<const std::byte> bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }
  [[nodiscard]] XXH128_hash_t value() const { return XXH3_128bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

struct Part {
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t given = 0;
  Digest given_digest;
  std::unique_ptr<ChunkWriter> writer;
  std::unique_ptr<SpillBuffer> early;
};

}  // namespace

struct GoldenWriter::State {
  std::string path;
  GoldenInfo info;
  std::string file_kind;
  Hdf5Place place;
  AtomicFile target;
  Hdf5Handle file;
  std::vector<Part> parts;
  std::optional<ManifestEntry> completed;
  bool committed = false;
  std::size_t current = 0;  // chunks lie in the file in the order of the datasets, whatever the order of append

  State(const std::string& p, const GoldenInfo& i, const Options& options)
      : path(p),
        info(checked(p, i, options)),
        file_kind(options.file_kind),
        place{p, ErrorKind::environment, 0},
        target(p, AtomicFile::Naming::early) {  // HDF5 opens no file without a name
    quiet_hdf5();
    file = create_file(target.name(), place);
    const Hdf5Handle root(H5Gopen2(file.id(), "/", H5P_DEFAULT), H5Gclose);
    write_attribute(root.id(), kFileKindKey, file_kind, place);
    write_attribute(root.id(), kVersionKey, kGoldenSchema, place);
    for (const auto& [key, value] : info.attributes) write_attribute(root.id(), key, value, place);
    parts = std::vector<Part>(info.datasets.size());
    for (std::size_t d = 0; d < parts.size(); ++d) create_dataset(d, options.compression);
    finish_complete();
  }

  [[nodiscard]] Hdf5Place place_of(std::size_t dataset) const {
    return {path + ":/" + info.datasets[dataset].name, place.kind, place.file_bytes};
  }

  void create_dataset(std::size_t d, int compression) {
    const DatasetInfo& set = info.datasets[d];
    Part& part = parts[d];
    const std::size_t element = size_of(set.dtype);
    try {
      part.bytes = checked_bytes(set.shape, element, path + ":/" + set.name);
    } catch (const Error& e) {
      throw Error(ErrorKind::usage, e.what());
    }
    part.row_bytes = element * (set.shape.size() == 2 ? static_cast<std::uint64_t>(set.shape[1]) : 1);
    part.writer = std::make_unique<ChunkWriter>(file.id(), set, compression, place_of(d));
  }

  void append(std::size_t dataset, std::span<const std::byte> rows) {
    if (dataset >= parts.size()) throw Error(ErrorKind::usage, path + ": no dataset " + std::to_string(dataset));
    Part& part = parts[dataset];
    const std::string where = path + ":/" + info.datasets[dataset].name;
    if (rows.size() > part.bytes - part.given) throw Error(ErrorKind::usage, where + ": more rows than declared");
    if (rows.empty()) return;
    if (rows.size() % part.row_bytes != 0) throw Error(ErrorKind::usage, where + ": a part of a row");
    quiet_hdf5();
    part.given_digest.update(rows);
    part.given += rows.size();
    if (dataset == current) {
      part.writer->write(rows);
      finish_complete();
    } else {
      if (!part.early) part.early = std::make_unique<SpillBuffer>(directory());
      part.early->append(rows);
    }
  }

  [[nodiscard]] std::string directory() const {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
  }

  // Closes the datasets that have all their rows, in order, and gives the next one what came for it before.
  void finish_complete() {
    while (current < parts.size() && parts[current].given == parts[current].bytes) {
      parts[current].writer->close();
      if (++current == parts.size()) return;
      Part& next = parts[current];
      if (!next.early) continue;
      next.early->drain([&](std::span<const std::byte> bytes) { next.writer->write(bytes); });
      next.early.reset();
    }
  }

  ManifestEntry complete() {
    if (completed) return *completed;
    if (current < parts.size()) {
      const Part& part = parts[current];
      throw Error(ErrorKind::usage, path + ":/" + info.datasets[current].name + ": " +
                                        std::to_string(part.given / part.row_bytes) + " rows of " +
                                        std::to_string(part.bytes / part.row_bytes) + " came");
    }
    quiet_hdf5();
    if (H5Fflush(file.id(), H5F_SCOPE_GLOBAL) < 0 || !file.close()) place.refuse("writing failed" + hdf5_says());
    ManifestEntry entry = verify();
    target.complete();
    parts = std::vector<Part>();  // buffers that nobody needs until the commit
    completed = entry;
    return entry;
  }

  ManifestEntry commit(const std::function<void()>& before_it_appears) {
    if (committed) throw Error(ErrorKind::usage, path + ": committed before");
    ManifestEntry entry = complete();
    committed = true;
    target.commit(before_it_appears);
    return entry;
  }

  // Reads everything back, through the reader's own checks.
  ManifestEntry verify() {
    const FileSource source(target.name());
    place.file_bytes = source.size();
    std::future<std::string> whole = std::async(std::launch::async, [&] { return hash_of(source); });
    const Hdf5Handle access = hdf5_access(Hdf5Locks::none);
    const Hdf5Handle written(H5Fopen(target.name().c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
    if (!written) place.refuse("what was written cannot be opened" + hdf5_says());
    const GoldenSchema schema = read_schema(written.id(), place);
    if (schema.file_kind != file_kind || !same(schema.info, info)) place.refuse("the header reads other than written");
    for (std::size_t d = 0; d < parts.size(); ++d) {
      if (XXH128_isEqual(digest_of(written.id(), d), parts[d].given_digest.value()) == 0)
        place_of(d).refuse("the data reads other than written");
    }
    return {whole.get(), source.size(), std::filesystem::path(path).filename().string()};
  }

  static std::string hash_of(const FileSource& source) {
    Sha256 whole;
    std::vector<std::byte> piece(kWriterPiece);
    in_pieces(source.size(), piece.size(), [&](std::uint64_t at, std::size_t count) {
      source.read(at, std::span(piece).first(count));
      whole.update(std::span(piece).first(count));
    });
    return whole.hex();
  }

  XXH128_hash_t digest_of(hid_t written, std::size_t d) const {
    const DatasetInfo& set = info.datasets[d];
    Hdf5Rows rows(open_dataset(written, set.name, place_of(d)), {set.dtype, set.shape}, place_of(d));
    Digest hash;
    std::vector<std::byte> piece(kWriterPiece);
    in_pieces(parts[d].bytes, piece.size(), [&](std::uint64_t, std::size_t count) {
      rows.read(std::span(piece).first(count));
      hash.update(std::span(piece).first(count));
    });
    return hash.value();
  }
};

GoldenWriter::GoldenWriter(const std::string& path, const GoldenInfo& info, Options options)
    : state_(std::make_unique<State>(path, info, options)) {}

GoldenWriter::~GoldenWriter() { quiet_hdf5(); }

void GoldenWriter::append(std::size_t dataset, std::span<const std::byte> rows) { state_->append(dataset, rows); }

ManifestEntry GoldenWriter::complete() { return state_->complete(); }

ManifestEntry GoldenWriter::commit(const std::function<void()>& before_it_appears) {
  return state_->commit(before_it_appears);
}

bool is_hdf5_path(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return extension == ".h5" || extension == ".hdf5";
}

bool is_described_path(const std::string& path) {
  return is_hdf5_path(path) || std::filesystem::path(path).extension() == ".safetensors";
}

struct DescribedWriter::Files {  // one of the two
  std::optional<SafetensorsWriter> safetensors;
  std::optional<GoldenWriter> hdf5;
};

DescribedWriter::DescribedWriter(const std::string& path, const std::vector<NamedHead>& tensors,
                                 const std::map<std::string, std::string>& metadata, const FormatOf& format_of)
    : files_(std::make_unique<Files>()) {
  if (!is_hdf5_path(path)) {
    files_->safetensors.emplace(path, tensors, metadata);
    return;
  }
  GoldenInfo info;
  for (const auto& [key, value] : metadata) {
    if (key != kFileKindKey) info.attributes.emplace_back(key, value);  // the writer's own
  }
  for (const NamedHead& t : tensors) {
    const Format dtype = t.head.dtype == Format::fp32 ? Format::uint32 : t.head.dtype;
    info.datasets.push_back({t.name, Role::output, std::string(format_of(t)), dtype, t.head.shape, {}});
  }
  files_->hdf5.emplace(path, info, GoldenWriter::Options{0, metadata.at(kFileKindKey).c_str()});
}

DescribedWriter::~DescribedWriter() = default;

void DescribedWriter::append(std::size_t tensor, std::span<const std::byte> rows) {
  files_->hdf5 ? files_->hdf5->append(tensor, rows) : files_->safetensors->append(tensor, rows);
}

void DescribedWriter::commit(const std::function<void()>& before_it_appears) {
  files_->hdf5 ? void(files_->hdf5->commit(before_it_appears)) : files_->safetensors->commit(before_it_appears);
}

void write_described(const std::string& path, const SafetensorsFile& file, const FormatOf& format_of,
                     const std::function<void()>& before_it_appears) {
  std::vector<NamedHead> heads;
  for (const Tensor& t : file.tensors) {
    check_tensor(t, path);
    heads.push_back({t.name, {t.format, t.shape}});
  }
  DescribedWriter writer(path, heads, file.metadata, format_of);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit(before_it_appears);
}

}  // namespace mxcheck
