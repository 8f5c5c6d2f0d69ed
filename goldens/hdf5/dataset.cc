// One dataset of an HDF5 file. The reader refuses whatever can make a read do more than read: links that leave
// the group, external and virtual storage, filters from plugins, variable-length and compound elements; and what is to
// be allocated is bounded by the file's length first.
//
// The file format's own data structures are parsed by the HDF5 library, whose authors do not promise that it survives
// hostile files. goldens/io/tensor_file.cc therefore runs this in a child process.

#include "goldens/hdf5/storage.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "goldens/hdf5/handle.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/readers.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

class Reader {
 public:
  Reader(const std::string& path, const std::string& dataset)
      : path_(path), dataset_(dataset), where_(path + ":" + dataset) {}

  std::unique_ptr<RowReader> open() {
    quiet_hdf5();
    const std::uint64_t file_bytes = FileSource(path_).size();
    const Hdf5Handle access = hdf5_access(Hdf5Locks::best_effort);
    const Hdf5Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
    if (!file) refuse(path_, "not an HDF5 file, damaged or truncated" + hdf5_says());
    check_links(file.id());
    const Hdf5Place place{where_, ErrorKind::input, file_bytes};
    Hdf5Handle object(H5Oopen(file.id(), dataset_.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object) refuse(where_, "cannot be opened" + hdf5_says());
    if (H5Iget_type(object.id()) != H5I_DATASET) refuse(where_, "a group or a type, not a dataset");
    const TensorHead head{dtype_of(object.id()), shape_of(object.id(), place)};
    check_storage(object.id(), checked_bytes(head.shape, size_of(head.dtype), where_), place);
    object.close();
    // An open dataset keeps its file open.
    return std::make_unique<Hdf5Rows>(open_dataset(file.id(), dataset_, place), head, place);
  }

 private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& what) {
    throw Error(ErrorKind::input, where + ": " + what);
  }

  // Every step of the path must be a hard link: soft and external ones lead out of the file or in circles.
  void check_links(hid_t file) const {
    if (dataset_.empty() || dataset_[0] != '/' || dataset_.back() == '/' || dataset_.find('\0') != std::string::npos) {
      refuse(where_, "a dataset's name begins with '/' and names more than a group");
    }
    for (std::size_t end = dataset_.find('/', 1);; end = dataset_.find('/', end + 1)) {
      const std::string prefix = dataset_.substr(0, end);
      if (prefix.back() == '/') refuse(where_, "an empty name in the path");
      H5L_info_t link{};
      if (H5Lexists(file, prefix.c_str(), H5P_DEFAULT) <= 0 ||
          H5Lget_info(file, prefix.c_str(), &link, H5P_DEFAULT) < 0) {
        refuse(where_, "there is no '" + prefix + "' in the file" + hdf5_says());
      }
      if (link.type != H5L_TYPE_HARD)
        refuse(where_, "'" + prefix + "' is a soft or external link, which is not followed");
      if (end == std::string::npos) return;
    }
  }

  static Hdf5Handle small_float(hid_t exponent_at, size_t exponent_bits, size_t bias) {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, static_cast<size_t>(exponent_at), exponent_bits, 0, static_cast<size_t>(exponent_at));
    H5Tset_size(type, 2);
    H5Tset_ebias(type, bias);
    return {type, H5Tclose};
  }

  Format dtype_of(hid_t set) const {
    const Hdf5Handle type_handle(H5Dget_type(set), H5Tclose);
    if (!type_handle) refuse(where_, "damaged header" + hdf5_says());
    const hid_t type = type_handle.id();
    const Hdf5Handle half = small_float(10, 5, 15);
    const Hdf5Handle bfloat = small_float(7, 8, 127);
    const std::array<std::pair<hid_t, Format>, 10> known{{{H5T_STD_U8LE, Format::uint8},
                                                          {H5T_STD_I8LE, Format::int8},
                                                          {H5T_STD_U16LE, Format::uint16},
                                                          {H5T_STD_U32LE, Format::uint32},
                                                          {H5T_STD_I32LE, Format::int32},
                                                          {H5T_STD_I64LE, Format::int64},
                                                          {half.id(), Format::fp16},
                                                          {bfloat.id(), Format::bf16},
                                                          {H5T_IEEE_F32LE, Format::fp32},
                                                          {H5T_IEEE_F64LE, Format::fp64}}};
    for (const auto& [id, dtype] : known) {
      if (H5Tequal(type, id) > 0) return as_named(dtype, format_of(set));
    }
    std::string what = "of a type that is not read";
    const H5T_class_t kind = H5Tget_class(type);
    const bool number = kind == H5T_INTEGER || kind == H5T_FLOAT;
    if (kind == H5T_COMPOUND) what = "of compound type";
    if (kind == H5T_STRING) what = "of strings";
    if (kind == H5T_VLEN || H5Tis_variable_str(type) > 0) what = "of variable-length type";
    if (kind == H5T_REFERENCE) what = "of references";
    if (kind == H5T_ENUM) what = "of enumerated type (h5py's bool)";
    if (number && H5Tget_size(type) > 1 && H5Tget_order(type) == H5T_ORDER_BE) what = "big-endian";
    refuse(where_, what + "; read are little-endian u8 i8 u16 u32 i32 i64 f16 bf16 f32 f64");
  }

  // The attribute `format` of the dataset, a fixed- or variable-length string; anything else says nothing.
  static std::string format_of(hid_t set) {
    if (H5Aexists(set, "format") <= 0) return "";
    const Hdf5Handle attribute(H5Aopen(set, "format", H5P_DEFAULT), H5Aclose);
    const Hdf5Handle type(H5Aget_type(attribute.id()), H5Tclose);
    const Hdf5Handle space(H5Aget_space(attribute.id()), H5Sclose);
    if (!type || H5Tget_class(type.id()) != H5T_STRING || H5Sget_simple_extent_npoints(space.id()) != 1) return "";
    if (H5Tis_variable_str(type.id()) > 0) {
      char* text = nullptr;
      if (H5Aread(attribute.id(), type.id(), &text) < 0 || text == nullptr) return "";
      std::string format(text);
      H5free_memory(text);
      return format;
    }
    constexpr std::size_t kRoom = 64;
    const std::size_t size = H5Tget_size(type.id());
    std::array<char, kRoom> text{};
    if (size == 0 || size >= kRoom || H5Aread(attribute.id(), type.id(), text.data()) < 0) return "";
    return {text.data(), ::strnlen(text.data(), size)};
  }

  // Bits of floats in unsigned integers, as goldens hold them.
  static Format as_named(Format dtype, const std::string& format) {
    if (dtype == Format::uint16 && format == "bfloat16") return Format::bf16;
    if (dtype == Format::uint16 && format == "float16") return Format::fp16;
    if (dtype == Format::uint32 && format == "float32") return Format::fp32;
    return dtype;
  }

  const std::string& path_;
  const std::string& dataset_;
  std::string where_;
};

}  // namespace

std::unique_ptr<RowReader> open_hdf5_in_this_process(const std::string& path, const std::string& dataset) {
  return Reader(path, dataset).open();
}

void quiet_hdf5() {
  // A file whose writing failed (a full disk) cannot be closed either. At the end of the process the library would try
  // again, and crash.
  static const herr_t no_attempt_at_exit = H5dont_atexit();
  static_cast<void>(no_attempt_at_exit);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

namespace {

// The file driver lists time, name, descriptor, addresses and sizes around the one thing that helps.
std::string plain(const std::string& text) {
  constexpr const char* kReason = "error message = '";
  const std::size_t reason = text.find(kReason);
  if (reason == std::string::npos) return text;
  const std::size_t from = reason + std::char_traits<char>::length(kReason);
  return text.substr(0, text.find(": ") + 2) + text.substr(from, text.find('\'', from) - from);
}

}  // namespace

std::string hdf5_says() {
  struct Said {
    std::string text;
    std::string last;
  } said;
  constexpr unsigned kEntries = 3;
  const auto visit = [](unsigned n, const H5E_error2_t* error, void* data) -> herr_t {
    auto& into = *static_cast<Said*>(data);
    if (n >= kEntries || error->desc == nullptr || error->desc == into.last) return 0;
    into.last = error->desc;
    into.text += (into.text.empty() ? "" : "; ") + plain(into.last);
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &said);
  for (char& c : said.text) {  // the time of a failed write ends in a line break, and names come from the file
    if (c < ' ' || c > '~') c = ' ';
  }
  return said.text.empty() ? "" : " (HDF5: " + said.text + ")";
}

Hdf5Handle hdf5_access(Hdf5Locks locks) {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE < 1)
  H5Pset_file_locking(access.id(), locks == Hdf5Locks::best_effort ? 1 : 0, 1);
#endif
  return access;
}

namespace {

Hdf5Handle text_type(std::size_t bytes) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), bytes);
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

std::string read_value(hid_t attribute, std::size_t longest, const Hdf5Place& place) {
  const Hdf5Handle type(H5Aget_type(attribute), H5Tclose);
  const Hdf5Handle space(H5Aget_space(attribute), H5Sclose);
  if (!type || !space) place.refuse("damaged attribute" + hdf5_says());
  if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) != 0 ||
      H5Sget_simple_extent_type(space.id()) != H5S_SCALAR) {
    place.refuse("has an attribute that is no single text of fixed length");
  }
  const std::size_t bytes = H5Tget_size(type.id());
  if (bytes == 0 || bytes > longest) place.refuse("has an attribute of over " + std::to_string(longest) + " bytes");
  if (H5Tequal(type.id(), text_type(bytes).id()) <= 0) {
    place.refuse("has an attribute that is no null-padded UTF-8 text");
  }
  std::string value(bytes, '\0');
  if (H5Aread(attribute, type.id(), value.data()) < 0) place.refuse("damaged attribute" + hdf5_says());
  if (value == std::string(1, '\0')) return "";
  if (value.find('\0') != std::string::npos) place.refuse("has an attribute that holds a zero byte");
  return value;
}

}  // namespace

void write_attribute(hid_t object, const std::string& key, const std::string& value, const Hdf5Place& place) {
  const Hdf5Handle type = text_type(std::max<std::size_t>(value.size(), 1));
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(H5Acreate2(object, key.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  // An empty std::string still points at its terminating zero.
  if (!attribute || H5Awrite(attribute.id(), type.id(), value.c_str()) < 0) {
    place.refuse("attribute '" + key + "' could not be written" + hdf5_says());
  }
}

Attributes read_attributes(hid_t object, std::size_t most, std::size_t longest, const Hdf5Place& place) {
  H5O_info_t about{};
  if (H5Oget_info2(object, &about, H5O_INFO_NUM_ATTRS) < 0) place.refuse("damaged header" + hdf5_says());
  if (about.num_attrs > most) place.refuse("more than " + std::to_string(most) + " attributes");
  Attributes attributes;
  for (hsize_t i = 0; i < about.num_attrs; ++i) {
    const Hdf5Handle attribute(
        H5Aopen_by_idx(object, ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    std::array<char, 256> key{};
    const ssize_t length = attribute ? H5Aget_name(attribute.id(), key.size(), key.data()) : -1;
    if (length < 0) place.refuse("damaged attributes, or of no known order" + hdf5_says());
    if (static_cast<std::size_t>(length) >= key.size()) place.refuse("has an attribute with a name of over 255 bytes");
    attributes.emplace_back(key.data(), read_value(attribute.id(), longest, place));
  }
  return attributes;
}

Hdf5Rows::Hdf5Rows(Hdf5Handle set, TensorHead head, Hdf5Place place)
    : set_(std::move(set)),
      type_(H5Dget_type(set_.id()), H5Tclose),
      head_(std::move(head)),
      place_(std::move(place)),
      position_(checked_bytes(head_.shape, size_of(head_.dtype), place_.where)) {}

void Hdf5Rows::read(std::span<std::byte> to) {
  const std::size_t element = size_of(head_.dtype);
  if (to.size() % element != 0) throw Error(ErrorKind::usage, place_.where + ": a part of an element is asked for");
  std::uint64_t at = position_.advance(to.size(), place_.where) / element;
  quiet_hdf5();
  while (!to.empty()) {
    const std::uint64_t got = read_block(at, to.size() / element, to.data());
    at += got;
    to = to.subspan(got * element);
  }
}

// Along the outermost dimension whose slices begin here and of which at least one is wanted, as many as fit.
std::uint64_t Hdf5Rows::read_block(std::uint64_t element, std::uint64_t wanted, std::byte* to) const {
  const std::size_t rank = head_.shape.size();
  std::array<hsize_t, kMaxRank> start{};
  std::array<hsize_t, kMaxRank> count{};
  std::uint64_t slice = 1;  // elements of one index along the dimension
  std::uint64_t block = 1;
  std::uint64_t rest = element;
  bool inside = true;  // so far every dimension within is whole
  for (std::size_t d = rank; d-- > 0;) {
    const auto extent = static_cast<std::uint64_t>(head_.shape[d]);
    start[d] = rest % extent;
    rest /= extent;
    count[d] = 1;
    if (!inside) continue;
    count[d] = std::min<std::uint64_t>(wanted / slice, extent - start[d]);
    block = slice * count[d];
    inside = start[d] == 0 && count[d] == extent;
    slice = block;
  }
  const Hdf5Handle from(H5Dget_space(set_.id()), H5Sclose);
  // The memory space has the rank of the selection: between other shapes the library goes element by element.
  const Hdf5Handle into(H5Screate_simple(static_cast<int>(rank), count.data(), nullptr), H5Sclose);
  const bool selected =
      rank == 0 || H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0;
  if (!selected || H5Dread(set_.id(), type_.id(), into.id(), from.id(), H5P_DEFAULT, to) < 0) {
    place_.refuse("cannot be read" + hdf5_says());
  }
  return block;
}

}  // namespace mxcheck
