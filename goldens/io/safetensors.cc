// safetensors: a 64-bit little-endian header length, a JSON header, then the tensors' bytes without holes.
// Source: the format section of the safetensors README; the limits and refusals are those of its own reader.

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "goldens/io/readers.h"
#include "goldens/io/safetensors_writer.h"
#include "goldens/json/strict_json.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference reader's own limit
constexpr int kMaxDepth = 4;                       // header, tensor, list: three are used

struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // from the start of the data
  std::uint64_t end = 0;
};

struct Index {
  std::vector<Entry> entries;  // by position in the file
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;
};

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::input, text); }

std::optional<Dtype> known_dtype(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Dtype::f64); ++i) {
    if (name == safetensors_name(static_cast<Dtype>(i))) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> size_in(const Json& value) {
  const auto* size = value.get_if<std::uint64_t>();
  return size != nullptr && *size >> 63 == 0 ? std::optional(*size) : std::nullopt;
}

// The sizes of a list of at most `most`; nothing for anything else.
std::optional<std::vector<std::uint64_t>> sizes_in(const Json& value, std::size_t most) {
  const auto* list = value.get_if<Json::Array>();
  if (list == nullptr || list->size() > most) return std::nullopt;
  std::vector<std::uint64_t> sizes;
  for (const Json& element : *list) {
    const std::optional<std::uint64_t> size = size_in(element);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

Entry parse_entry(const std::string& name, const Json& value, const std::string& where) {
  const Json* dtype = value.find("dtype");
  const Json* shape = value.find("shape");
  const Json* offsets = value.find("data_offsets");
  if (dtype == nullptr || shape == nullptr || offsets == nullptr || value.size() != 3) {
    refuse(where + ": it must give dtype, shape and data_offsets, and nothing else");
  }
  const auto* dtype_name = dtype->get_if<std::string>();
  if (dtype_name == nullptr) refuse(where + ": dtype must be a string");
  const auto extents = sizes_in(*shape, kMaxRank);
  if (!extents) refuse(where + ": shape must be a list of at most 32 sizes");
  const auto positions = sizes_in(*offsets, 2);
  if (!positions || positions->size() != 2) refuse(where + ": data_offsets must be two positions");
  return {name, *dtype_name, {extents->begin(), extents->end()}, (*positions)[0], (*positions)[1]};
}

// Every byte of the data belongs to exactly one tensor, and each tensor has the bytes that its shape calls for.
void check_layout(Index& index, std::uint64_t data_bytes, const std::string& file) {
  std::sort(index.entries.begin(), index.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const Entry& e : index.entries) {
    const std::string where = file + ": tensor '" + e.name + "'";
    if (e.end < e.begin) refuse(where + " ends before it begins");
    if (e.begin != at) refuse(where + (e.begin < at ? " overlaps another tensor" : " follows a hole in the data"));
    if (e.end > data_bytes) {
      refuse(where + " ends at byte " + std::to_string(e.end) + " of the data, which has " +
             std::to_string(data_bytes) + " (truncated?)");
    }
    at = e.end;
    const std::optional<Dtype> dtype = known_dtype(e.dtype);
    if (dtype && checked_bytes(e.shape, size_of(*dtype), where) != e.end - e.begin) {
      refuse(where + " has data_offsets that its shape and dtype do not call for");
    }
  }
  if (at != data_bytes) refuse(file + ": " + std::to_string(data_bytes - at) + " bytes after the last tensor");
}

Index parse_index(const ByteSource& source) {
  const std::string& file = source.name();
  std::array<std::byte, 8> start{};
  if (source.size() < start.size()) refuse(file + ": truncated: a safetensors file has at least 8 bytes");
  source.read(0, start);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | std::to_integer<std::uint64_t>(start[static_cast<std::size_t>(i)]);
  if (length > kMaxHeader) refuse(file + ": safetensors header of over 100 MB; not a safetensors file?");
  if (length > source.size() - start.size()) refuse(file + ": truncated: the safetensors header is cut short");
  std::string text(length, ' ');
  source.read(start.size(), std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{') refuse(file + ": safetensors header must begin with '{'");

  const Json header = parse_json(text, file + ": safetensors header", kMaxDepth, ErrorKind::input);
  const auto* members = header.get_if<Json::Object>();
  if (members == nullptr) refuse(file + ": safetensors header must be one JSON object");
  Index index;
  index.data_start = start.size() + length;
  for (const auto& [name, value] : *members) {
    if (name != "__metadata__") {
      index.entries.push_back(parse_entry(name, value, file + ": tensor '" + name + "'"));
      continue;
    }
    const auto* pairs = value.get_if<Json::Object>();
    if (pairs == nullptr) refuse(file + ": __metadata__ must be an object of strings");
    for (const auto& [key, text_value] : *pairs) {
      const auto* words = text_value.get_if<std::string>();
      if (words == nullptr) refuse(file + ": __metadata__ '" + key + "' must be a string");
      index.metadata[key] = *words;
    }
  }
  check_layout(index, source.size() - index.data_start, file);
  return index;
}

TensorRegion region_of(const ByteSource& source, const Index& index, const Entry& entry) {
  const std::optional<Dtype> dtype = known_dtype(entry.dtype);
  if (!dtype) {
    refuse(source.name() + ": tensor '" + entry.name + "' has dtype " + entry.dtype +
           ", which is not read (read are U8 I8 U16 U32 I32 I64 F16 BF16 F32 F64)");
  }
  return {entry.name, {*dtype, entry.shape}, index.data_start + entry.begin, entry.end - entry.begin};
}

std::string names_of(const Index& index) {
  constexpr std::size_t kShown = 20;
  if (index.entries.empty()) return "none";
  const auto shown = std::span(index.entries).first(std::min(kShown, index.entries.size()));
  const std::string names = join(shown, ", ", [](const Entry& entry) -> const std::string& { return entry.name; });
  const std::size_t more = index.entries.size() - shown.size();
  return more == 0 ? names : names + ", and " + std::to_string(more) + " more";
}

}  // namespace

TensorRegion find_safetensors(const ByteSource& source, const std::string& name) {
  const Index index = parse_index(source);
  if (name.empty()) {
    if (index.entries.size() == 1) return region_of(source, index, index.entries[0]);
    refuse(source.name() + ": which tensor? give FILE.safetensors:TENSOR; it has " + names_of(index));
  }
  for (const Entry& entry : index.entries) {
    if (entry.name == name) return region_of(source, index, entry);
  }
  refuse(source.name() + ": has no tensor '" + name + "'; it has " + names_of(index));
}

SafetensorsHeads heads_of_safetensors(const ByteSource& source) {
  const Index index = parse_index(source);
  SafetensorsHeads heads{{}, index.metadata};
  for (const Entry& entry : index.entries) heads.tensors.push_back({entry.name, region_of(source, index, entry).head});
  return heads;
}

SafetensorsFile read_safetensors(const ByteSource& source) {
  const Index index = parse_index(source);
  SafetensorsFile file;
  file.metadata = index.metadata;
  for (const Entry& entry : index.entries) file.tensors.push_back(load(source, region_of(source, index, entry)));
  return file;
}

SafetensorsFile read_safetensors(const std::string& path) { return read_safetensors(FileSource(path)); }

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name_in_errors) {
  return read_safetensors(SpanSource(bytes, name_in_errors));
}

void write_safetensors(const std::string& path, const SafetensorsFile& file,
                       const std::function<void()>& before_it_appears) {
  std::vector<NamedHead> heads;
  for (const Tensor& t : file.tensors) {
    check_tensor(t, path);
    heads.push_back({t.name, {t.dtype, t.shape}});
  }
  SafetensorsWriter writer(path, heads, file.metadata);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit(before_it_appears);
}

}  // namespace mxcheck
