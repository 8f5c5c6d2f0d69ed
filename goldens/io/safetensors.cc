// safetensors: a 64-bit little-endian header length, a JSON header, then the tensors' bytes without holes.
// Source: the format section of the safetensors README; the limits and refusals are those of its own reader.

#include "goldens/io/routes_file.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "goldens/format/described_file.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/readers.h"
#include "goldens/io/tensor_writers.h"
#include "goldens/json/json.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/packing.h"
#include "numerics/names.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kSafetensorsMaxHeader = 100'000'000;  // the reference reader's own limit
constexpr int kMaxDepth = 4;                                  // header, tensor, list: three are used

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

// Bytes in the file of a tensor of this type; nothing for F4 with an odd number of codes, which safetensors do not
// have.
std::optional<std::uint64_t> stored_bytes(Format dtype, std::span<const std::int64_t> shape, const std::string& what) {
  const std::uint64_t bytes = checked_bytes(shape, size_of(dtype), what);
  if (dtype != Format::e2m1) return bytes;
  return bytes % 2 == 0 ? std::optional(bytes / 2) : std::nullopt;
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
    refuse_input(where + ": it must give dtype, shape and data_offsets, and nothing else");
  }
  const auto* dtype_name = dtype->get_if<std::string>();
  if (dtype_name == nullptr) refuse_input(where + ": dtype must be a string");
  const auto extents = sizes_in(*shape, kMaxRank);
  if (!extents) refuse_input(where + ": shape must be a list of at most 32 sizes");
  const auto positions = sizes_in(*offsets, 2);
  if (!positions || positions->size() != 2) refuse_input(where + ": data_offsets must be two positions");
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
    if (e.end < e.begin) refuse_input(where + " ends before it begins");
    if (e.begin != at)
      refuse_input(where + (e.begin < at ? " overlaps another tensor" : " follows a hole in the data"));
    if (e.end > data_bytes) {
      refuse_input(where + " ends at byte " + std::to_string(e.end) + " of the data, which has " +
                   std::to_string(data_bytes) + " (truncated?)");
    }
    at = e.end;
    const std::optional<Format> dtype = find_safetensors_format(e.dtype);
    if (!dtype) continue;
    const std::optional<std::uint64_t> bytes = stored_bytes(*dtype, e.shape, where);
    if (!bytes) refuse_input(where + " has an odd number of elements of F4, two of which are a byte");
    if (*bytes != e.end - e.begin) refuse_input(where + " has data_offsets that its shape and dtype do not call for");
  }
  if (at != data_bytes) refuse_input(file + ": " + std::to_string(data_bytes - at) + " bytes after the last tensor");
}

Index parse_index(const ByteSource& source) {
  const std::string& file = source.name();
  std::array<std::byte, 8> start{};
  if (source.size() < start.size()) refuse_input(file + ": truncated: a safetensors file has at least 8 bytes");
  source.read(0, start);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | std::to_integer<std::uint64_t>(start[static_cast<std::size_t>(i)]);
  if (length > kSafetensorsMaxHeader)
    refuse_input(file + ": safetensors header of over 100 MB; not a safetensors file?");
  if (length > source.size() - start.size()) refuse_input(file + ": truncated: the safetensors header is cut short");
  std::string text(length, ' ');
  source.read(start.size(), std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{') refuse_input(file + ": safetensors header must begin with '{'");

  const Json header = parse_json(text, file + ": safetensors header", kMaxDepth, ErrorKind::input);
  const auto* members = header.get_if<Json::Object>();
  if (members == nullptr) refuse_input(file + ": safetensors header must be one JSON object");
  Index index;
  index.data_start = start.size() + length;
  for (const auto& [name, value] : *members) {
    if (name != "__metadata__") {
      index.entries.push_back(parse_entry(name, value, file + ": tensor '" + name + "'"));
      continue;
    }
    const auto* pairs = value.get_if<Json::Object>();
    if (pairs == nullptr) refuse_input(file + ": __metadata__ must be an object of strings");
    for (const auto& [key, text_value] : *pairs) {
      const auto* words = text_value.get_if<std::string>();
      if (words == nullptr) refuse_input(file + ": __metadata__ '" + key + "' must be a string");
      index.metadata[key] = *words;
    }
  }
  check_layout(index, source.size() - index.data_start, file);
  return index;
}

TensorRegion region_of(const ByteSource& source, const Index& index, const Entry& entry) {
  const std::optional<Format> dtype = find_safetensors_format(entry.dtype);
  if (!dtype) {
    refuse_input(source.name() + ": tensor '" + entry.name + "' has dtype " + entry.dtype +
                 ", which is not read (read are U8 I8 U16 U32 I32 I64 F16 BF16 F32 F64 F8_E4M3 F8_E5M2 F8_E8M0 F4)");
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
    refuse_input(source.name() + ": which tensor? give FILE.safetensors:TENSOR; it has " + names_of(index));
  }
  for (const Entry& entry : index.entries) {
    if (entry.name == name) return region_of(source, index, entry);
  }
  refuse_input(source.name() + ": has no tensor '" + name + "'; it has " + names_of(index) +
               did_you_mean(name, names_in(index.entries)));
}

SafetensorsHeads heads_of_safetensors(const ByteSource& source) {
  const Index index = parse_index(source);
  SafetensorsHeads heads{{}, index.metadata};
  for (const Entry& entry : index.entries) heads.tensors.push_back({entry.name, region_of(source, index, entry).head});
  return heads;
}

std::vector<std::string> tensor_names(const std::string& path) {
  std::vector<std::string> names;
  for (const Entry& entry : parse_index(FileSource(path)).entries) names.push_back(entry.name);
  return names;
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
    heads.push_back({t.name, {t.format, t.shape}});
  }
  SafetensorsWriter writer(path, heads, file.metadata);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit(before_it_appears);
}

namespace {

constexpr std::size_t kSafetensorsWriterMaxHeader = 100'000'000;  // the reference reader's own limit

std::uint64_t bytes_of(const TensorHead& head, const std::string& what) {
  const std::optional<std::uint64_t> bytes = stored_bytes(head.dtype, head.shape, what);
  if (!bytes) refuse_usage(what + ": F4 has two codes a byte, and the shape an odd number of them");
  return *bytes;
}

// Widest elements first, then by name, as the reference writer does: every tensor is aligned to its own elements, and
// the bytes do not depend on the order in which tensors were given.
std::vector<std::size_t> file_order(const std::vector<NamedHead>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(size_of(tensors[b].head.dtype), std::string_view(tensors[a].name)) <
           std::pair(size_of(tensors[a].head.dtype), std::string_view(tensors[b].name));
  });
  return order;
}

// The length of the header in 8 bytes, and the header, padded with spaces to whole words.
std::string start_of(const std::vector<NamedHead>& tensors, const std::map<std::string, std::string>& metadata,
                     const std::string& path) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names{"", "__metadata__"};
  std::uint64_t at = 0;
  for (const std::size_t i : file_order(tensors)) {
    const auto& [name, head] = tensors[i];
    if (!names.insert(name).second)
      refuse_usage(path + ": tensor name '" + name + "' is empty, reserved or given twice");
    const std::vector<std::uint64_t> offsets{at, at + bytes_of(head, path + ": tensor '" + name + "'")};
    header.append(name, {{"dtype", safetensors_name(head.dtype)}, {"shape", head.shape}, {"data_offsets", offsets}});
    at = offsets[1];
  }
  std::string text;
  try {
    text = to_text(header, {-1, JsonOrder::given, NotUtf8::refused});
  } catch (const Error&) {
    refuse_usage(path + ": tensor names and metadata must be UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kSafetensorsWriterMaxHeader) refuse_usage(path + ": safetensors header of over 100 MB");
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return length + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<NamedHead>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), regions_(tensors.size()), file_(path) {
  const std::string start = start_of(tensors, metadata, path);
  file_.write(start);
  std::uint64_t at = start.size();
  for (const std::size_t i : file_order(tensors)) {
    const std::uint64_t bytes = bytes_of(tensors[i].head, path);
    regions_[i] = {tensors[i].name, at, at + bytes, tensors[i].head.dtype == Format::e2m1};
    at += bytes;
  }
}

void SafetensorsWriter::append(std::size_t tensor, std::span<const std::byte> bytes) {
  Region& region = regions_[tensor];
  if (region.is_packed) return append_codes(region, bytes);
  if (bytes.size() > region.end - region.at) {
    refuse_usage(path_ + ": tensor '" + region.name + "' is given " +
                 std::to_string(bytes.size() - (region.end - region.at)) + " bytes more than its shape holds");
  }
  file_.write_at(region.at, bytes);
  region.at += bytes.size();
}

void SafetensorsWriter::append_codes(Region& region, std::span<const std::byte> codes) {
  std::vector<std::uint8_t> waiting = std::exchange(region.half, {});
  for (const std::byte code : codes) waiting.push_back(std::to_integer<std::uint8_t>(code));
  if (waiting.size() / 2 + waiting.size() % 2 > region.end - region.at)
    refuse_usage(path_ + ": tensor '" + region.name + "' is given more codes than its shape holds");
  if (waiting.size() % 2 != 0) region.half.push_back(waiting.back()), waiting.pop_back();
  const std::vector<std::uint8_t> packed = pack_e2m1(waiting);
  file_.write_at(region.at, std::as_bytes(std::span(packed)));
  region.at += packed.size();
}

void SafetensorsWriter::commit(const std::function<void()>& before_it_appears) {
  for (const Region& region : regions_) {
    if (region.at != region.end) {
      refuse_usage(path_ + ": tensor '" + region.name + "' lacks " + std::to_string(region.end - region.at) + " bytes");
    }
  }
  file_.commit(before_it_appears);
}

namespace {

template <class T>
Tensor list_of(const std::string& name, Format dtype, const std::vector<T>& values, std::int64_t count) {
  return {name, dtype, {count}, to_bytes(std::span(values).first(static_cast<std::size_t>(count)))};
}
template <class T>
Tensor list_of(const std::string& name, Format dtype, const std::vector<T>& values) {
  return list_of(name, dtype, values, static_cast<std::int64_t>(values.size()));
}

void add_padded(const RouteMetadata& m, SafetensorsFile& out) {
  const std::int64_t rows = m.offsets.back();
  out.tensors.push_back(list_of("padded_offsets", Format::int64, m.offsets));
  out.tensors.push_back(list_of("padded_row_slot", Format::int32, m.row_slot, rows));
  out.tensors.push_back(list_of("padded_row_token", Format::int32, m.row_token, rows));
  out.tensors.push_back(list_of("padded_row_expert", Format::int32, m.row_expert, rows));
  out.tensors.push_back(list_of("padded_slot_row", Format::int32, m.slot_row));
}

SafetensorsFile to_safetensors(const RoutesFile& file) {
  const RoundedTokens& a = file.rounded;
  const std::int64_t rows = a.offsets.back();
  SafetensorsFile out;
  out.tensors = {list_of("chosen", Format::int32, a.chosen),
                 list_of("offsets", Format::int64, a.offsets),
                 list_of("row_token", Format::int32, a.row_token, rows),
                 list_of("row_weight", Format::fp32, a.row_weight, rows),
                 list_of("token_offsets", Format::int64, a.token_offsets),
                 list_of("token_rows", Format::int32, a.token_rows, rows)};
  if (file.token_rounding.rule == TokenRoundingRule::none) {
    const std::vector<std::int64_t> shape{file.routes.tokens, file.routes.top_k};
    out.tensors.push_back(Tensor{"experts", Format::int32, shape, to_bytes(file.routes.experts)});
    out.tensors.push_back(Tensor{"weights", Format::fp32, shape, to_bytes(file.routes.weights)});
    out.tensors.push_back(list_of("row_slot", Format::int32, file.metadata.row_slot, rows));
    out.tensors.push_back(list_of("slot_row", Format::int32, file.metadata.slot_row));
  }
  if (file.padded) add_padded(*file.padded, out);
  const Router& r = file.router;
  auto& m = out.metadata;
  m["mxcheck_file"] = "routes";
  m["file_version"] = "1";
  m["source_dtype"] = spec(file.source).dtype_name;
  m["tokens"] = std::to_string(a.tokens);
  m["expert_count"] = std::to_string(a.experts);
  m["variant"] = r.variant->name;
  m["top_k"] = std::to_string(r.top_k);
  m["groups"] = std::to_string(r.groups);
  m["groups_kept"] = std::to_string(r.groups_kept);
  m["nan"] = r.nan == NanLogits::last ? "last" : "refuse";
  m["scale"] = hexfloat(r.scale);
  m["bias"] = r.bias.empty() ? "no" : "yes";
  m["rule"] = to_text(file.token_rounding.rule);
  m["tile"] = std::to_string(file.token_rounding.tile);
  m["capacity"] = std::to_string(file.token_rounding.capacity);
  m["row_weights"] = file.token_rounding.rule == TokenRoundingRule::none ? "variant"
                     : file.token_rounding.renormalize                   ? "renorm"
                                                                         : "raw";
  m["seed"] = std::to_string(file.token_rounding.seed);
  m["layer"] = std::to_string(file.token_rounding.layer);
  m["step"] = std::to_string(file.token_rounding.step);
  return out;
}

}  // namespace

void write_routes(const std::string& output, const RoutesFile& file, const std::function<void()>& before_it_appears) {
  const auto format_of = [](const NamedHead& t) {
    return t.head.dtype == Format::fp32 ? "float32" : t.head.dtype == Format::int32 ? "int32" : "int64";
  };
  write_described(output, to_safetensors(file), format_of, before_it_appears);
}

}  // namespace mxcheck
