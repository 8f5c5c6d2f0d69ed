#include "trainer/record/sealed_file.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>

#include "goldens/format/writer.h"
#include "goldens/io/sha256.h"
#include "numerics/byte_stream.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/one_line.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr const char* kVersionKey = "file_version";
constexpr const char* kHashKey = "content_sha256";

template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return Dtype::u8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return Dtype::u16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Dtype::u32;
  if constexpr (std::is_same_v<T, std::int32_t>) return Dtype::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Dtype::i64;
}

// libhdf5 as Debian builds it has no locks of its own, and a child that reads is forked: one thread at a time.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Whatever order they are in.
template <class List, class Name>
std::vector<std::size_t> by_name(const List& list, Name name) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return name(list[a]) < name(list[b]); });
  return order;
}

}  // namespace

std::string content_sha256(const UnverifiedGolden& contents) {
  const Attributes& attributes = contents.info.attributes;
  const std::vector<DatasetInfo>& sets = contents.info.datasets;
  ByteWriter head;
  head.text(contents.kind);
  for (const std::size_t i : by_name(attributes, [](const auto& a) { return a.first; })) {
    if (attributes[i].first != kHashKey) head.text(attributes[i].first), head.text(attributes[i].second);
  }
  Sha256 hash;
  hash.update(head.bytes());
  for (const std::size_t i : by_name(sets, [](const DatasetInfo& set) { return set.name; })) {
    ByteWriter to;
    to.text(sets[i].name), to.text(sets[i].format), to.text(safetensors_name(sets[i].dtype));
    to.text(shape_to_text(sets[i].shape));
    to.number<std::uint64_t>(contents.data[i].size());
    hash.update(to.bytes());
    hash.update(contents.data[i]);
  }
  return hash.hex();
}

SealedWriter::SealedWriter(std::string path, std::string kind) : path_(std::move(path)) {
  contents_.kind = std::move(kind);
  attribute(kVersionKey, kSealedVersion);
}

void SealedWriter::attribute(const std::string& key, const std::string& value) {
  contents_.info.attributes.emplace_back(key, value);
}

template <class T>
void SealedWriter::add(const std::string& name, const char* format, std::vector<std::int64_t> shape,
                       std::span<const T> values) {
  contents_.info.datasets.push_back({name, Role::output, format, dtype_of<T>(), std::move(shape), {}});
  contents_.data.push_back(to_bytes(values));
}

UnverifiedGolden SealedWriter::contents() const {
  UnverifiedGolden sealed = contents_;
  sealed.info.attributes.emplace_back(kHashKey, content_sha256(contents_));
  return sealed;
}

void SealedWriter::commit(int compression) {
  attribute(kHashKey, content_sha256(contents_));
  const std::lock_guard lock(hdf5_mutex());
  GoldenWriter writer(path_, contents_.info, {.compression = compression, .file_kind = contents_.kind.c_str()});
  for (std::size_t i = 0; i < contents_.data.size(); ++i) {
    if (!contents_.data[i].empty()) writer.append(i, contents_.data[i]);
  }
  writer.commit();
}

SealedReader::SealedReader(std::string path, const std::string& kind)
    : SealedReader(path, kind, [&] {
        const std::lock_guard lock(hdf5_mutex());
        return read_unverified(path);
      }()) {}

SealedReader::SealedReader(std::string path, const std::string& kind, UnverifiedGolden contents)
    : path_(std::move(path)), contents_(std::move(contents)) {
  if (contents_.kind != kind) refuse("is of kind '" + contents_.kind + "', not '" + kind + "'");
  if (text(kVersionKey) != kSealedVersion) {
    refuse("has file version '" + text(kVersionKey) + "'; this build reads version " + kSealedVersion);
  }
  for (const DatasetInfo& set : contents_.info.datasets) {  // what the hash is not of
    if (set.role != Role::output || !set.attributes.empty()) refuse(set.name + " has attributes of its own");
  }
  if (const std::string hash = content_sha256(contents_); hash != text(kHashKey)) {
    refuse("was altered: its contents have SHA-256 " + hash + ", but " + text(kHashKey) + " is in it");
  }
}

void SealedReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::input, path_ + ": " + one_line(what));
}

const std::string& SealedReader::text(const std::string& key) const {
  for (const auto& [name, value] : contents_.info.attributes) {
    if (name == key) return value;
  }
  refuse("has no attribute '" + key + "'");
}

std::int64_t SealedReader::integer(const std::string& key) const {
  const auto value = parse_number<std::int64_t>(text(key));
  if (!value) refuse("attribute '" + key + "' is '" + text(key) + "', no decimal integer of 64 bits");
  return *value;
}

double SealedReader::number(const std::string& key) const {
  const auto value = parse_number<double>(text(key));
  if (!value) refuse("attribute '" + key + "' is '" + text(key) + "', no decimal number");
  return *value;
}

std::size_t SealedReader::find(const std::string& name, const char* format, std::size_t rank) const {
  for (std::size_t i = 0; i < contents_.data.size(); ++i) {
    const DatasetInfo& set = contents_.info.datasets[i];
    if (set.name != name) continue;
    if (set.format == format && set.shape.size() == rank) return i;
    refuse(name + " has format '" + set.format + "' and shape " + shape_to_text(set.shape) + "; wanted are '" + format +
           "' and rank " + std::to_string(rank));
  }
  refuse("has no dataset '" + name + "'");
}

template <class T>
std::vector<T> SealedReader::list(const std::string& name, const char* format) const {
  const std::size_t at = find(name, format, 1);
  if (contents_.info.datasets[at].dtype != dtype_of<T>()) refuse(name + " has elements of another type");
  return values_in<T>(contents_.data[at]);
}

template <class T>
std::vector<T> SealedReader::table(const std::string& name, const char* format, std::int64_t rows,
                                   std::int64_t cols) const {
  const std::size_t at = find(name, format, 2);
  const DatasetInfo& set = contents_.info.datasets[at];
  if (set.dtype != dtype_of<T>()) refuse(name + " has elements of another type");
  if (set.shape[0] != rows || set.shape[1] != cols) {
    refuse(name + " is " + shape_to_text(set.shape) + ", but " + std::to_string(rows) + " x " + std::to_string(cols) +
           " by the rest of the file");
  }
  return values_in<T>(contents_.data[at]);
}

#define MXCHECK_SEALED_ELEMENT(T)                                                                                     \
  template void SealedWriter::add<T>(const std::string&, const char*, std::vector<std::int64_t>, std::span<const T>); \
  template std::vector<T> SealedReader::list<T>(const std::string&, const char*) const;                               \
  template std::vector<T> SealedReader::table<T>(const std::string&, const char*, std::int64_t, std::int64_t) const;
MXCHECK_SEALED_ELEMENT(std::uint8_t)
MXCHECK_SEALED_ELEMENT(std::uint16_t)
MXCHECK_SEALED_ELEMENT(std::uint32_t)
MXCHECK_SEALED_ELEMENT(std::int32_t)
MXCHECK_SEALED_ELEMENT(std::int64_t)
#undef MXCHECK_SEALED_ELEMENT

}  // namespace mxcheck
