#include "goldens/format/unverified.h"

#include <algorithm>
#include <new>
#include <utility>

#include "goldens/format/schema.h"
#include "goldens/hdf5/child.h"
#include "goldens/hdf5/rows.h"
#include "goldens/io/byte_source.h"
#include "numerics/byte_stream.h"

namespace mxcheck {
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
    if (dtype > static_cast<std::uint8_t>(Dtype::f64)) from.refuse("no such type");
    set.dtype = static_cast<Dtype>(dtype);
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
