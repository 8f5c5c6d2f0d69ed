// safetensors: a 64-bit little-endian header length, a JSON header, then the tensors' bytes without holes.
// Source: the format section of the safetensors README; the limits and refusals are those of its own reader.

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "goldens/io/atomic_file.h"
#include "goldens/io/readers.h"
#include "goldens/io/strict_json.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

using nlohmann::json;

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

json parse_json(const std::string& text, const std::string& file) {
  return parse_strict_json(text, file + ": safetensors header", kMaxDepth, ErrorKind::input);
}

std::optional<Dtype> known_dtype(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Dtype::f64); ++i) {
    if (name == safetensors_name(static_cast<Dtype>(i))) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

Entry parse_entry(const std::string& name, const json& value, const std::string& where) {
  Entry entry;
  entry.name = name;
  const bool complete = value.is_object() && value.size() == 3 && value.contains("dtype") && value.contains("shape") &&
                        value.contains("data_offsets");
  if (!complete) refuse(where + ": it must give dtype, shape and data_offsets, and nothing else");
  const json& shape = value["shape"];
  const json& offsets = value["data_offsets"];
  const auto is_size = [](const json& v) { return v.is_number_unsigned() && v.get<std::uint64_t>() >> 63 == 0; };
  if (!value["dtype"].is_string()) refuse(where + ": dtype must be a string");
  if (!shape.is_array() || shape.size() > kMaxRank || !std::all_of(shape.begin(), shape.end(), is_size)) {
    refuse(where + ": shape must be a list of at most 32 sizes");
  }
  if (!offsets.is_array() || offsets.size() != 2 || !std::all_of(offsets.begin(), offsets.end(), is_size)) {
    refuse(where + ": data_offsets must be two positions");
  }
  entry.dtype = value["dtype"].get<std::string>();
  for (const json& extent : shape) entry.shape.push_back(extent.get<std::int64_t>());
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  return entry;
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

  const json header = parse_json(text, file);
  if (!header.is_object()) refuse(file + ": safetensors header must be one JSON object");
  Index index;
  index.data_start = start.size() + length;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      index.entries.push_back(parse_entry(name, value, file + ": tensor '" + name + "'"));
      continue;
    }
    if (!value.is_object()) refuse(file + ": __metadata__ must be an object of strings");
    for (const auto& [key, text_value] : value.items()) {
      if (!text_value.is_string()) refuse(file + ": __metadata__ '" + key + "' must be a string");
      index.metadata[key] = text_value.get<std::string>();
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
  std::string names;
  for (std::size_t i = 0; i < std::min(kShown, index.entries.size()); ++i) {
    names += (i == 0 ? "" : ", ") + index.entries[i].name;
  }
  if (index.entries.size() > kShown) names += ", and " + std::to_string(index.entries.size() - kShown) + " more";
  return names.empty() ? "none" : names;
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

// Widest elements first, then by name, as the reference writer does: every tensor is aligned to its own elements, and
// the bytes do not depend on the order in which tensors were given.
void write_safetensors(const std::string& path, const SafetensorsFile& file) {
  std::vector<const Tensor*> order;
  for (const Tensor& t : file.tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const Tensor* a, const Tensor* b) {
    return std::pair(size_of(b->dtype), std::string_view(a->name)) <
           std::pair(size_of(a->dtype), std::string_view(b->name));
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::uint64_t at = 0;
  for (const Tensor* t : order) {
    check_tensor(*t, path);
    if (t->name.empty() || t->name == "__metadata__" || header.contains(t->name)) {
      throw Error(ErrorKind::usage, path + ": tensor name '" + t->name + "' is empty, reserved or given twice");
    }
    header[t->name] = {
        {"dtype", safetensors_name(t->dtype)}, {"shape", t->shape}, {"data_offsets", {at, at + t->data.size()}}};
    at += t->data.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw Error(ErrorKind::usage, path + ": tensor names and metadata must be UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader) throw Error(ErrorKind::usage, path + ": safetensors header of over 100 MB");
  std::string start(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) start[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  AtomicFile out(path);
  out.write(start + text);
  for (const Tensor* t : order) out.write(t->data);
  out.commit();
}

}  // namespace mxcheck
