#include "goldens/io/tensor_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "goldens/hdf5/child.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/readers.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

enum class Kind { npy, safetensors, hdf5 };

struct Location {
  Kind kind;
  std::string file;
  std::string inside;  // after the colon
};

// File names may hold colons and the extensions: of all ways to cut, the first whose file exists, else the first.
std::optional<Location> locate(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, Kind>, 4> kExtensions{
      {{".npy", Kind::npy}, {".safetensors", Kind::safetensors}, {".h5", Kind::hdf5}, {".hdf5", Kind::hdf5}}};
  std::optional<Location> first;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const auto& [extension, kind] : kExtensions) {
      if (text.compare(at, extension.size(), extension) != 0) continue;
      const std::size_t end = at + extension.size();
      if (end != text.size() && (text[end] != ':' || kind == Kind::npy)) continue;
      Location location{kind, text.substr(0, end), end == text.size() ? "" : text.substr(end + 1)};
      std::error_code error;
      if (std::filesystem::exists(location.file, error)) return location;
      if (!first) first = location;
    }
  }
  return first;
}

Location located(const std::string& location) {
  std::optional<Location> at = locate(location);
  if (!at) {
    throw Error(ErrorKind::input, location +
                                      ": not a known kind of file; give FILE.npy, FILE.safetensors:TENSOR or "
                                      "FILE.h5:/DATASET");
  }
  if (at->kind == Kind::hdf5 && at->inside.empty()) {
    throw Error(ErrorKind::input, location + ": which dataset? give " + at->file + ":/DATASET");
  }
  return *std::move(at);
}

}  // namespace

namespace {

struct SafetensorsName {
  Format format;
  const char* name;
};
constexpr SafetensorsName kSafetensorsNames[] = {
    {Format::uint8, "U8"},     {Format::int8, "I8"},   {Format::uint16, "U16"},   {Format::uint32, "U32"},
    {Format::int32, "I32"},    {Format::int64, "I64"}, {Format::fp16, "F16"},     {Format::bf16, "BF16"},
    {Format::fp32, "F32"},     {Format::fp64, "F64"},  {Format::e4m3, "F8_E4M3"}, {Format::e5m2, "F8_E5M2"},
    {Format::e8m0, "F8_E8M0"}, {Format::e2m1, "F4"},
};

}  // namespace

const char* safetensors_name(Format format) {
  for (const SafetensorsName& one : kSafetensorsNames) {
    if (one.format == format) return one.name;
  }
  throw Error(ErrorKind::internal, "tensors of " + std::string(spec(format).name) + " are not held in files as such");
}

std::optional<Format> find_safetensors_format(std::string_view name) {
  for (const SafetensorsName& one : kSafetensorsNames) {
    if (one.name == name) return one.format;
  }
  return std::nullopt;
}

std::string shape_to_text(std::span<const std::int64_t> shape) {
  return join(shape, " x ", [](std::int64_t extent) { return std::to_string(extent); });
}

void check_tensor(const Tensor& tensor, const std::string& where) {
  if (checked_bytes(tensor.shape, size_of(tensor.format), where) != tensor.data.size()) {
    throw Error(ErrorKind::usage, where + ": tensor '" + tensor.name + "' has " + std::to_string(tensor.data.size()) +
                                      " bytes of data, which its shape and dtype do not call for");
  }
  if (tensor.shape.size() > kMaxRank) throw Error(ErrorKind::usage, where + ": more than 32 dimensions");
}

Tensor read_tensor(const std::string& location) {
  const Location at = located(location);
  if (at.kind == Kind::hdf5) return read_whole(*open_hdf5(at.file, at.inside), location);
  const FileSource source(at.file);
  return load(source, at.kind == Kind::npy ? find_npy(source) : find_safetensors(source, at.inside));
}

std::unique_ptr<RowReader> open_rows(const std::string& location) {
  const Location at = located(location);
  if (at.kind == Kind::hdf5) return open_hdf5(at.file, at.inside);
  auto source = std::make_unique<FileSource>(at.file);
  const TensorRegion region = at.kind == Kind::npy ? find_npy(*source) : find_safetensors(*source, at.inside);
  return open_region(std::move(source), region);
}

// HDF5 datasets, row by row, from a child process (goldens/hdf5/child.h). The child sends dtype, rank and extents
// first, then pieces of the data until all of it is sent.

namespace {

constexpr char kHead = 'T';
constexpr char kData = 'D';

bool send_head(int fd, const TensorHead& head) {
  std::vector<std::int64_t> content{static_cast<std::int64_t>(head.dtype)};
  content.insert(content.end(), head.shape.begin(), head.shape.end());
  return send_message(fd, kHead, std::as_bytes(std::span(content)));
}

// False when the other end is closed.
bool send_rows(int fd, RowReader& rows) {
  const TensorHead& head = rows.head();
  if (!send_head(fd, head)) return false;
  std::uint64_t left = checked_bytes(head.shape, size_of(head.dtype), "the tensor");
  std::vector<std::byte> piece(std::min<std::uint64_t>(left, kChildPiece));
  while (left > 0) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(left, kChildPiece));
    rows.read(part);
    if (!send_message(fd, kData, part)) return false;
    left -= part.size();
  }
  return true;
}

class ChildRows final : public RowReader {
 public:
  ChildRows(const std::string& path, const std::string& dataset)
      : path_(path), child_(path, [&](int fd) { return send_rows(fd, *open_hdf5_in_this_process(path, dataset)); }) {
    receive_head();
  }

  [[nodiscard]] const TensorHead& head() const override { return head_; }

  void read(std::span<std::byte> to) override {
    if (to.empty()) return;
    position_.advance(to.size(), path_);
    while (!to.empty()) {
      if (piece_left_ == 0) piece_left_ = child_.next_message(kData, kChildPiece);
      const std::size_t part = std::min<std::uint64_t>(piece_left_, to.size());
      child_.read(to.first(part));
      piece_left_ -= static_cast<std::uint32_t>(part);
      to = to.subspan(part);
    }
    if (position_.left() == 0) child_.stop();
  }

 private:
  void receive_head() {
    std::vector<std::int64_t> content(kMaxRank + 1);
    const std::size_t bytes =
        child_.next_message(kHead, static_cast<std::uint32_t>(content.size() * sizeof(content[0])));
    content.resize(bytes / sizeof(content[0]));
    const auto target = std::as_writable_bytes(std::span(content));
    if (target.size() != bytes) child_.damaged("the reader lost its way");
    child_.read(target);
    if (content[0] < 0 || content[0] >= static_cast<std::int64_t>(kFormatSpecs.size()))
      child_.damaged("the reader lost its way");
    head_.dtype = static_cast<Format>(content[0]);
    head_.shape.assign(content.begin() + 1, content.end());
    const std::uint64_t all = checked_bytes(head_.shape, size_of(head_.dtype), path_ + ": the reader's shape");
    if (all / kMaxExpansion > child_.file_bytes()) child_.damaged("the reader lost its way");
    position_ = ReadPosition(all);
    if (all == 0) child_.stop();
  }

  std::string path_;
  Hdf5Child child_;
  TensorHead head_;
  ReadPosition position_{0};
  std::uint32_t piece_left_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_hdf5(const std::string& path, const std::string& dataset) {
  return std::make_unique<ChildRows>(path, dataset);
}

}  // namespace mxcheck
