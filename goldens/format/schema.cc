#include "goldens/format/schema.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "goldens/hdf5/attributes.h"
#include "goldens/io/byte_source.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMaxName = 255;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_key(std::string_view key) {
  return !key.empty() && key.size() <= kMaxName && std::all_of(key.begin(), key.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-';
  });
}

std::string objection(const Attributes& attributes, const std::set<std::string_view>& reserved) {
  if (attributes.size() + reserved.size() > kMaxAttributes) return "more than 256 attributes";
  std::set<std::string_view> seen = reserved;
  for (const auto& [key, value] : attributes) {
    const std::string name = "attribute '" + key + "'";
    if (!is_key(key)) return name + ": a key has letters, digits, '_', '.' and '-'";
    if (!seen.insert(key).second) return name + (reserved.contains(key) ? " is the writer's own" : " is there twice");
    if (value.size() > kMaxText) return name + " has over 64 KiB";
    if (value.find('\0') != std::string::npos) return name + " holds a zero byte";
  }
  return "";
}

int bits_of(Dtype dtype) { return static_cast<int>(8 * size_of(dtype)); }

// An element holds one code, or several side by side (scale bytes packed into words).
std::string format_objection(const DatasetInfo& set) {
  const bool integers = set.dtype == Dtype::i32 || set.dtype == Dtype::i64;  // indices and offsets: numbers, not bits
  if (!integers && set.dtype != Dtype::u8 && set.dtype != Dtype::u16 && set.dtype != Dtype::u32) {
    return "has elements that are none of u8 u16 u32 i32 i64";
  }
  const bool words = (set.dtype == Dtype::u32 && set.format == "uint32") ||  // random words, digests
                     (set.dtype == Dtype::u8 && set.format == "uint8");      // text
  if (words || integers || set.format == "int32" || set.format == "int64") {
    const bool fits = words || (integers && set.format == (set.dtype == Dtype::i32 ? "int32" : "int64"));
    return fits ? "" : "has format '" + set.format + "', which its elements do not fit";
  }
  try {
    const Format format = format_of_attribute(set.format);
    return spec(format).bits <= bits_of(set.dtype) ? "" : "has elements too narrow for format '" + set.format + "'";
  } catch (const Error& e) {
    return std::string("has a format that is none: ") + e.what();
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

Dtype golden_dtype(hid_t set, const Hdf5Place& place) {
  const Hdf5Handle type(H5Dget_type(set), H5Tclose);
  if (!type) place.refuse("damaged type" + hdf5_says());
  if (H5Tcommitted(type.id()) != 0) place.refuse("is of a named type; a golden holds plain integers");
  const std::array<std::pair<hid_t, Dtype>, 5> known{{{H5T_STD_U8LE, Dtype::u8},
                                                      {H5T_STD_U16LE, Dtype::u16},
                                                      {H5T_STD_U32LE, Dtype::u32},
                                                      {H5T_STD_I32LE, Dtype::i32},
                                                      {H5T_STD_I64LE, Dtype::i64}}};
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
  std::array<char, kMaxName + 1> name{};
  ssize_t length = -1;
  if (H5Lget_info_by_idx(file, ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, index, &link, H5P_DEFAULT) >= 0) {
    length =
        H5Lget_name_by_idx(file, ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, index, name.data(), name.size(), H5P_DEFAULT);
  }
  if (length < 0) file_place.refuse("damaged root group" + hdf5_says());
  DatasetInfo info;
  info.name = name.data();
  if (length > static_cast<ssize_t>(kMaxName) || !is_name(info.name)) {
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
    if (!names.insert(set.name).second) return "dataset '" + set.name + "' is there twice";
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
