#include "goldens/format/golden.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "goldens/format/manifest.h"
#include "goldens/format/offsets.h"
#include "goldens/format/reader.h"
#include "goldens/format/schema.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
const std::string& attribute(const Attributes& attributes, std::string_view key) {
  static const std::string none;
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == key; });
  return found == attributes.end() ? none : found->second;
}

const DatasetInfo* GoldenInfo::find(std::string_view name) const {
  const auto found = std::find_if(datasets.begin(), datasets.end(), [&](const auto& d) { return d.name == name; });
  return found == datasets.end() ? nullptr : &*found;
}

Format format_of_attribute(const std::string& name) {
  for (const Format format : kAllFormats) {
    if (spec(format).dtype_name == name) return format;
  }
  throw Error(ErrorKind::golden, "'" + name + "' is no number format; formats are named as in float8_e4m3fn, bfloat16");
}

namespace {

constexpr std::uint64_t kPiece = 4 << 20;

}  // namespace

bool dataset_equals(const GoldenReader& golden, const std::string& dataset, const std::string& location,
                    std::atomic<std::uint64_t>* compared) {
  const std::unique_ptr<RowReader> want = golden.rows(dataset);
  const std::unique_ptr<RowReader> have = open_rows(location);
  const TensorHead& head = want->head();
  if (have->head().dtype != head.dtype || have->head().shape != head.shape) return false;
  std::vector<std::byte> a(kPiece), b(kPiece);
  for (std::uint64_t left = checked_bytes(head.shape, size_of(head.dtype), location); left > 0;) {
    const auto now = static_cast<std::size_t>(std::min(left, kPiece));
    std::future<void> golden_read = std::async(std::launch::async, [&] { want->read(std::span(a).first(now)); });
    have->read(std::span(b).first(now));
    golden_read.get();
    if (std::memcmp(a.data(), b.data(), now) != 0) return false;
    left -= now;
    if (compared != nullptr) *compared += now;
  }
  return true;
}

namespace {

constexpr std::uint64_t kMaxOffsetsText = 16 << 20;
constexpr std::string_view kBlanks = " \n\t\r";

// The next number of the text, with the blanks around it and one comma after it; the text is what is left.
std::int64_t take_number(std::string_view& text, const std::string& where) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number<std::int64_t>(text.substr(0, digits));
  if (!number) throw Error(ErrorKind::usage, where + ": expected numbers like 0,96,192");
  text.remove_prefix(digits);
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.starts_with(',')) text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return *number;
}

bool names_a_tensor(const std::string& location) {
  return location.find(".npy") != std::string::npos || location.find(".safetensors") != std::string::npos ||
         location.find(".h5") != std::string::npos;
}

}  // namespace

std::vector<std::int64_t> parse_offsets(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> offsets;
  std::string_view rest = text;
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  while (!rest.empty()) offsets.push_back(take_number(rest, where));
  if (offsets.empty()) throw Error(ErrorKind::usage, where + ": no numbers; expected something like 0,96,192");
  return offsets;
}

std::vector<std::int64_t> read_offsets(const std::string& location) {
  if (!names_a_tensor(location)) {
    const FileSource file(location);
    if (file.size() > kMaxOffsetsText) throw Error(ErrorKind::input, location + ": over 16 MiB of offsets");
    return parse_offsets(file.text(), location);
  }
  const Tensor t = read_tensor(location);
  if (t.shape.size() != 1 || (t.format != Format::int64 && t.format != Format::int32)) {
    throw Error(ErrorKind::input, location + ": offsets are one vector of I64 or I32");
  }
  if (t.format == Format::int64) return values_in<std::int64_t>(t.data);
  const auto narrow = values_in<std::int32_t>(t.data);
  return {narrow.begin(), narrow.end()};
}

std::string offsets_to_text(std::span<const std::int64_t> offsets) {
  return join(offsets, ",", [](std::int64_t row) { return std::to_string(row); });
}

namespace {

constexpr std::uint64_t kManifestMaxText = 16 << 20;  // some 100000 goldens
constexpr std::size_t kMaxName = 255;                 // of a file, in every file system of Linux
constexpr std::size_t kHashDigits = 64;

std::string first_line_start() { return std::string("mxcheck manifest 1, schema ") + kGoldenSchema + ", "; }

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7F; });
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  Manifest parse() {
    if (rest_.size() > kManifestMaxText) refuse("the manifest has over 16 MiB");
    Manifest manifest;
    const std::string start = first_line_start();
    std::string_view line = next_line();
    if (!line.starts_with(start)) refuse("the first line must begin with '" + start + "'");
    line.remove_prefix(start.size());
    if (line.empty() || line.size() > kMaxName || !printable(line)) refuse("the first line must name its generator");
    manifest.generator = line;
    while (!rest_.empty()) {
      ManifestEntry entry = parse_entry(next_line());
      if (!manifest.entries.empty() && manifest.entries.back().name >= entry.name) {
        refuse("'" + entry.name + "' is a duplicate or out of order");
      }
      manifest.entries.push_back(std::move(entry));
    }
    return manifest;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::golden, where_ + ":" + std::to_string(line_) + ": " + what);
  }

  std::string_view next_line() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("the line does not end: is the manifest cut short?");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  ManifestEntry parse_entry(std::string_view line) const {
    ManifestEntry entry;
    entry.sha256 = line.substr(0, kHashDigits);
    const bool hex = std::all_of(entry.sha256.begin(), entry.sha256.end(),
                                 [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (entry.sha256.size() != kHashDigits || !hex) refuse("a line begins with 64 lower-case hexadecimal digits");
    line.remove_prefix(kHashDigits);
    skip_gap(line);
    const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    const auto size = parse_number<std::uint64_t>(line.substr(0, digits));
    const bool padded = digits > 1 && line[0] == '0';
    if (!size || padded || *size > std::numeric_limits<std::int64_t>::max()) {
      refuse("the size must be a decimal number below 2^63, without zeros before it");
    }
    entry.size = *size;
    line.remove_prefix(digits);
    skip_gap(line);
    const bool plain = !line.empty() && line.size() <= kMaxName && printable(line) && line.front() != ' ' &&
                       line.back() != ' ' && line != "." && line != ".." && line.find('/') == std::string_view::npos;
    if (!plain) refuse("the name must be that of a file beside the manifest");
    entry.name = line;
    return entry;
  }

  void skip_gap(std::string_view& line) const {
    if (!line.starts_with("  ")) refuse("two spaces belong between hash, size and name");
    line.remove_prefix(2);
  }

  std::string_view rest_;
  const std::string& where_;
  std::size_t line_ = 0;
};

}  // namespace

const ManifestEntry* Manifest::find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

Manifest parse_manifest(std::string_view text, const std::string& where) { return Parser(text, where).parse(); }

std::string to_text(Manifest manifest) {
  std::sort(manifest.entries.begin(), manifest.entries.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.name < b.name; });
  std::string text = first_line_start() + manifest.generator + "\n";
  for (const ManifestEntry& entry : manifest.entries) {
    text += entry.sha256 + "  " + std::to_string(entry.size) + "  " + entry.name + "\n";
  }
  try {
    parse_manifest(text, kManifestName);
  } catch (const Error& e) {
    throw Error(ErrorKind::usage, std::string("a manifest that nobody could read: ") + e.what());
  }
  return text;
}

Manifest read_manifest(const std::string& path) {
  std::string text;
  try {
    const FileSource file(path);
    if (file.size() > kManifestMaxText) throw Error(ErrorKind::input, path + ": over 16 MiB; not a manifest?");
    text = file.text();
  } catch (const Error& e) {
    throw Error(ErrorKind::golden, std::string("no manifest: ") + e.what() +
                                       "; mxcheck golden make writes manifest.txt beside its goldens");
  }
  return parse_manifest(text, path);
}

void refuse_foreign(const std::string& golden, const std::string& path, const Manifest& manifest) {
  constexpr std::size_t kMost = 3;
  const std::size_t count = manifest.entries.size();
  std::string names = count == 0 ? "it is empty" : "it lists " + std::to_string(count) + " others, ";
  for (std::size_t i = 0; i < std::min(kMost, count); ++i) names += (i == 0 ? "" : ", ") + manifest.entries[i].name;
  if (count > kMost) names += ", ...";
  throw Error(ErrorKind::golden, golden + ": " + path + " has no entry for it: " + names +
                                     "; take the manifest that was written with this golden");
}

ManifestEntry entry_beside(const std::string& golden_path) {
  const std::filesystem::path golden(golden_path);
  const std::string manifest_path = (golden.parent_path() / kManifestName).string();
  const Manifest manifest = read_manifest(manifest_path);
  const ManifestEntry* entry = manifest.find(golden.filename().string());
  if (entry == nullptr) refuse_foreign(golden_path, manifest_path, manifest);
  return *entry;
}

namespace {

constexpr std::size_t kSchemaMaxName = 255;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kSchemaMaxName && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_key(std::string_view key) {
  return !key.empty() && key.size() <= kSchemaMaxName && std::all_of(key.begin(), key.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-';
  });
}

std::string objection(const Attributes& attributes, const std::set<std::string_view>& reserved) {
  if (attributes.size() + reserved.size() > kMaxAttributes) return "more than 256 attributes";
  std::set<std::string_view> seen = reserved;
  for (const auto& [key, value] : attributes) {
    const std::string name = "attribute '" + key + "'";
    if (!is_key(key)) return name + ": a key has letters, digits, '_', '.' and '-'";
    if (!seen.insert(key).second) return name + (reserved.contains(key) ? " is the writer's own" : " is a duplicate");
    if (value.size() > kMaxText) return name + " has over 64 KiB";
    if (value.find('\0') != std::string::npos) return name + " holds a zero byte";
  }
  return "";
}

// An element holds one code, or several side by side (scale bytes packed into words).
std::string format_objection(const DatasetInfo& set) {
  const bool integers =
      set.dtype == Format::int32 || set.dtype == Format::int64;  // indices and offsets: numbers, not bits
  if (!integers && set.dtype != Format::uint8 && set.dtype != Format::uint16 && set.dtype != Format::uint32) {
    return "has elements that are none of u8 u16 u32 i32 i64";
  }
  const bool words = (set.dtype == Format::uint32 && set.format == "uint32") ||  // random words, digests
                     (set.dtype == Format::uint8 && set.format == "uint8");      // text
  if (words || integers || set.format == "int32" || set.format == "int64") {
    const bool fits = words || (integers && set.format == (set.dtype == Format::int32 ? "int32" : "int64"));
    return fits ? "" : "has format '" + set.format + "', which its elements do not fit";
  }
  try {
    const Format format = format_of_attribute(set.format);
    return spec(format).bits <= spec(set.dtype).bits ? "" : "has elements too narrow for format '" + set.format + "'";
  } catch (const Error& e) {
    return std::string("has an unknown format: ") + e.what();
  }
}

std::string objection(const DatasetInfo& set) {
  if (!is_name(set.name)) return "a name has letters, digits and '_', and does not begin with a digit";
  if (set.shape.empty() || set.shape.size() > 2) {
    return "has rank " + std::to_string(set.shape.size()) + "; a golden's datasets have rank 1 or 2";
  }
  if (std::any_of(set.shape.begin(), set.shape.end(), [](std::int64_t extent) { return extent < 0; })) {
    return "has a negative extent";
  }
  if (std::string wrong = format_objection(set); !wrong.empty()) return wrong;
  return objection(set.attributes, {kRoleKey, kFormatKey});
}

// Takes the attribute out of the list.
std::string take(Attributes& attributes, const char* key, const Hdf5Place& place) {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == key; });
  if (found == attributes.end()) place.refuse(std::string("has no attribute '") + key + "'; not a golden?");
  std::string value = std::move(found->second);
  attributes.erase(found);
  return value;
}

Format golden_dtype(hid_t set, const Hdf5Place& place) {
  const Hdf5Handle type(H5Dget_type(set), H5Tclose);
  if (!type) place.refuse("damaged type" + hdf5_says());
  if (H5Tcommitted(type.id()) != 0) place.refuse("is of a named type; a golden holds plain integers");
  const std::array<std::pair<hid_t, Format>, 5> known{{{H5T_STD_U8LE, Format::uint8},
                                                       {H5T_STD_U16LE, Format::uint16},
                                                       {H5T_STD_U32LE, Format::uint32},
                                                       {H5T_STD_I32LE, Format::int32},
                                                       {H5T_STD_I64LE, Format::int64}}};
  for (const auto& [id, dtype] : known) {
    if (H5Tequal(type.id(), id) > 0) return dtype;
  }
  place.refuse("has elements that are none of u8 u16 u32 i32 i64, little-endian");
}

// Chunks of bounded size with checksums, extents that are final.
void check_form(hid_t set, std::uint64_t bytes, std::size_t element, const Hdf5Place& place) {
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  std::array<hsize_t, kMaxRank> now{};
  std::array<hsize_t, kMaxRank> most{};
  H5Sget_simple_extent_dims(space.id(), now.data(), most.data());
  if (now != most) place.refuse("may grow; a golden's extents are final");
  if (bytes == 0) return;
  const Hdf5Handle creation(H5Dget_create_plist(set), H5Pclose);
  std::array<hsize_t, 2> chunk{};
  if (H5Pget_layout(creation.id()) != H5D_CHUNKED) place.refuse("is not stored in chunks");
  const int rank = H5Pget_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data());
  std::uint64_t chunk_bytes = element;
  for (int i = 0; i < std::min(rank, 2); ++i) {
    if (!checked_multiply(chunk_bytes, chunk[static_cast<std::size_t>(i)], chunk_bytes) || chunk_bytes > kMaxChunk) {
      place.refuse("has chunks of over 8 MiB");
    }
  }
  bool checksum = false;
  for (int i = 0; i < H5Pget_nfilters(creation.id()); ++i) {
    size_t values = 0;
    checksum |= H5Pget_filter2(creation.id(), static_cast<unsigned>(i), nullptr, &values, nullptr, 0, nullptr,
                               nullptr) == H5Z_FILTER_FLETCHER32;
  }
  if (!checksum) place.refuse("has no Fletcher-32 checksums");
}

DatasetInfo read_dataset_info(hid_t file, hsize_t index, const Hdf5Place& file_place) {
  H5L_info_t link{};
  std::array<char, kSchemaMaxName + 1> name{};
  ssize_t length = -1;
  if (H5Lget_info_by_idx(file, ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, index, &link, H5P_DEFAULT) >= 0) {
    length =
        H5Lget_name_by_idx(file, ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, index, name.data(), name.size(), H5P_DEFAULT);
  }
  if (length < 0) file_place.refuse("damaged root group" + hdf5_says());
  DatasetInfo info;
  info.name = name.data();
  if (length > static_cast<ssize_t>(kSchemaMaxName) || !is_name(info.name)) {
    file_place.refuse("holds an object with a name that no golden has");
  }
  const Hdf5Place place{file_place.where + ":/" + info.name, file_place.kind, file_place.file_bytes};
  if (link.type != H5L_TYPE_HARD) place.refuse("is a soft, external or user-defined link");
  const Hdf5Handle object(H5Oopen(file, info.name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) place.refuse("cannot be opened" + hdf5_says());
  if (H5Iget_type(object.id()) != H5I_DATASET) place.refuse("is a group or a type, not a dataset");
  H5O_info_t about{};
  if (H5Oget_info2(object.id(), &about, H5O_INFO_BASIC) < 0) place.refuse("damaged header" + hdf5_says());
  if (about.rc != 1) place.refuse("has several names");
  info.dtype = golden_dtype(object.id(), place);
  info.shape = shape_of(object.id(), place);
  info.attributes = read_attributes(object.id(), kMaxAttributes, kMaxText, place);
  const std::string role = take(info.attributes, kRoleKey, place);
  info.role = role == to_text(Role::input) ? Role::input : Role::output;
  if (role != to_text(info.role)) place.refuse("has role '" + role + "'; there are 'input' and 'output'");
  info.format = take(info.attributes, kFormatKey, place);
  if (const std::string wrong = objection(info); !wrong.empty()) place.refuse(wrong);
  std::uint64_t bytes = size_of(info.dtype);
  for (const std::int64_t extent : info.shape) {
    if (!checked_multiply(bytes, static_cast<std::uint64_t>(extent), bytes)) place.refuse("its size overflows 63 bits");
  }
  check_storage(object.id(), bytes, place);
  check_form(object.id(), bytes, size_of(info.dtype), place);
  return info;
}

}  // namespace

std::string objection(const GoldenInfo& info, const std::string& file_kind) {
  constexpr std::array<std::string_view, 7> kKinds{"golden", "quantized", "record",           "routes",
                                                   "layer",  "parity",    "parity checkpoint"};
  if (std::find(kKinds.begin(), kKinds.end(), file_kind) == kKinds.end()) {
    return std::string(kFileKindKey) + " is '" + file_kind + "'; there are '" + join(kKinds, "', '") + "'";
  }
  if (std::string wrong = objection(info.attributes, {kFileKindKey, kVersionKey}); !wrong.empty()) return wrong;
  if (info.datasets.size() > kMaxDatasets) return "more than 256 datasets";
  std::set<std::string_view> names;
  for (const DatasetInfo& set : info.datasets) {
    if (std::string wrong = objection(set); !wrong.empty()) return "dataset '" + set.name + "': " + wrong;
    if (!names.insert(set.name).second) return "dataset '" + set.name + "' is a duplicate";
  }
  return "";
}

GoldenSchema read_schema(hid_t file, const Hdf5Place& place) {
  const Hdf5Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
  H5G_info_t group{};
  if (!root || H5Gget_info(root.id(), &group) < 0) place.refuse("damaged root group" + hdf5_says());
  GoldenSchema schema;
  schema.info.attributes = read_attributes(root.id(), kMaxAttributes, kMaxText, place);
  schema.file_kind = take(schema.info.attributes, kFileKindKey, place);
  const std::string version = take(schema.info.attributes, kVersionKey, place);
  if (version != kGoldenSchema) {
    place.refuse("has schema version '" + version + "'; this build reads version " + kGoldenSchema);
  }
  if (group.nlinks > kMaxDatasets) place.refuse("more than 256 datasets");
  for (hsize_t i = 0; i < group.nlinks; ++i) schema.info.datasets.push_back(read_dataset_info(file, i, place));
  if (const std::string wrong = objection(schema.info, schema.file_kind); !wrong.empty()) place.refuse(wrong);
  return schema;
}

}  // namespace mxcheck
