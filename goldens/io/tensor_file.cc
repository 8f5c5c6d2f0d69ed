#include "goldens/io/tensor_file.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

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

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8:
    case Dtype::i8: return 1;
    case Dtype::u16:
    case Dtype::f16:
    case Dtype::bf16: return 2;
    case Dtype::u32:
    case Dtype::i32:
    case Dtype::f32: return 4;
    case Dtype::i64:
    case Dtype::f64: return 8;
  }
  throw Error(ErrorKind::internal, "a dtype that is not in the list");
}

const char* safetensors_name(Dtype dtype) {
  constexpr std::array kNames{"U8", "I8", "U16", "U32", "I32", "I64", "F16", "BF16", "F32", "F64"};
  return kNames.at(static_cast<std::size_t>(dtype));
}

std::string shape_to_text(std::span<const std::int64_t> shape) {
  return join(shape, " x ", [](std::int64_t extent) { return std::to_string(extent); });
}

void check_tensor(const Tensor& tensor, const std::string& where) {
  if (checked_bytes(tensor.shape, size_of(tensor.dtype), where) != tensor.data.size()) {
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

}  // namespace mxcheck
