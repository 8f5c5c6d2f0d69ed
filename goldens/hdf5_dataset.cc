// One dataset of an HDF5 file. What can make a read do more than read is refused before it happens: links that leave
// the group, external and virtual storage, filters from plugins, variable-length and compound elements; and what is to
// be allocated is bounded by the file's length first.
//
// The file format's own data structures are parsed by the HDF5 library, whose authors do not promise that it survives
// hostile files. goldens/child_reader.cc therefore runs this in a child process.

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "goldens/readers.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

// deflate cannot expand by more than 1032 : 1 (258 bytes from two bits), so neither can a dataset of this file.
constexpr std::uint64_t kMaxExpansion = 1032;

struct Handle {
  hid_t id = -1;
  herr_t (*close)(hid_t) = nullptr;
  Handle(hid_t i, herr_t (*c)(hid_t)) : id(i), close(c) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id >= 0) close(id);
  }
};

// The library's own innermost explanation of its last failure.
std::string library_says() {
  std::string text;
  const auto visit = [](unsigned n, const H5E_error2_t* error, void* data) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(data) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &text);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.empty() ? "" : " (HDF5: " + text + ")";
}

class Reader {
 public:
  Reader(const std::string& path, const std::string& dataset)
      : path_(path), dataset_(dataset), where_(path + ":" + dataset) {}

  Tensor read() {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // nothing is printed
    H5PLset_loading_state(0);                     // no code from plugin directories
    file_bytes_ = FileSource(path_).size();
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE < 1)
    H5Pset_file_locking(access.id, 1, 1);  // shared lock where the file system has locks
#endif
    const Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose);
    if (file.id < 0) refuse(path_, "not an HDF5 file, damaged or truncated" + library_says());
    check_links(file.id);
    const Handle object(H5Oopen(file.id, dataset_.c_str(), H5P_DEFAULT), H5Oclose);
    if (object.id < 0) refuse(where_, "cannot be opened" + library_says());
    if (H5Iget_type(object.id) != H5I_DATASET) refuse(where_, "a group or a type, not a dataset");
    return read_dataset(object.id);
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
        refuse(where_, "there is no '" + prefix + "' in the file" + library_says());
      }
      if (link.type != H5L_TYPE_HARD)
        refuse(where_, "'" + prefix + "' is a soft or external link, which is not followed");
      if (end == std::string::npos) return;
    }
  }

  Tensor read_dataset(hid_t set) const {
    Tensor tensor;
    const Handle type(H5Dget_type(set), H5Tclose);
    const Handle space(H5Dget_space(set), H5Sclose);
    const Handle creation(H5Dget_create_plist(set), H5Pclose);
    if (type.id < 0 || space.id < 0 || creation.id < 0) refuse(where_, "damaged header" + library_says());
    tensor.dtype = dtype_of(type.id);
    if (tensor.dtype == Dtype::u16 && says_bfloat16(set)) tensor.dtype = Dtype::bf16;
    tensor.shape = shape_of(space.id);
    const std::uint64_t bytes = checked_bytes(tensor.shape, size_of(tensor.dtype), where_);
    check_storage(set, creation.id, bytes);
    tensor.data.resize(bytes);
    if (bytes > 0 && H5Dread(set, type.id, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data.data()) < 0) {
      refuse(where_, "cannot be read" + library_says());
    }
    return tensor;
  }

  static Handle small_float(hid_t exponent_at, size_t exponent_bits, size_t bias) {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, static_cast<size_t>(exponent_at), exponent_bits, 0, static_cast<size_t>(exponent_at));
    H5Tset_size(type, 2);
    H5Tset_ebias(type, bias);
    return {type, H5Tclose};
  }

  Dtype dtype_of(hid_t type) const {
    const Handle half = small_float(10, 5, 15);
    const Handle bfloat = small_float(7, 8, 127);
    const std::array<std::pair<hid_t, Dtype>, 10> known{{{H5T_STD_U8LE, Dtype::u8},
                                                         {H5T_STD_I8LE, Dtype::i8},
                                                         {H5T_STD_U16LE, Dtype::u16},
                                                         {H5T_STD_U32LE, Dtype::u32},
                                                         {H5T_STD_I32LE, Dtype::i32},
                                                         {H5T_STD_I64LE, Dtype::i64},
                                                         {half.id, Dtype::f16},
                                                         {bfloat.id, Dtype::bf16},
                                                         {H5T_IEEE_F32LE, Dtype::f32},
                                                         {H5T_IEEE_F64LE, Dtype::f64}}};
    for (const auto& [id, dtype] : known) {
      if (H5Tequal(type, id) > 0) return dtype;
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

  // Attribute format = "bfloat16" on the dataset, a fixed- or variable-length string.
  static bool says_bfloat16(hid_t set) {
    if (H5Aexists(set, "format") <= 0) return false;
    const Handle attribute(H5Aopen(set, "format", H5P_DEFAULT), H5Aclose);
    const Handle type(H5Aget_type(attribute.id), H5Tclose);
    const Handle space(H5Aget_space(attribute.id), H5Sclose);
    if (type.id < 0 || H5Tget_class(type.id) != H5T_STRING || H5Sget_simple_extent_npoints(space.id) != 1) return false;
    constexpr std::string_view kName = "bfloat16";
    if (H5Tis_variable_str(type.id) > 0) {
      char* text = nullptr;
      if (H5Aread(attribute.id, type.id, &text) < 0 || text == nullptr) return false;
      const bool same = text == kName;
      H5free_memory(text);
      return same;
    }
    constexpr std::size_t kRoom = 64;
    const std::size_t size = H5Tget_size(type.id);
    std::array<char, kRoom> text{};
    if (size == 0 || size >= kRoom || H5Aread(attribute.id, type.id, text.data()) < 0) return false;
    return std::string_view(text.data(), ::strnlen(text.data(), size)) == kName;
  }

  std::vector<std::int64_t> shape_of(hid_t space) const {
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    if (kind == H5S_SCALAR) return {};
    const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space) : -1;
    if (rank < 0 || rank > static_cast<int>(kMaxRank)) refuse(where_, "has no shape");
    std::array<hsize_t, kMaxRank> extents{};
    H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    std::vector<std::int64_t> shape;
    for (int i = 0; i < rank; ++i) {
      const hsize_t extent = extents[static_cast<std::size_t>(i)];
      if (extent >> 63 != 0) refuse(where_, "a dimension overflows 63 bits");
      shape.push_back(static_cast<std::int64_t>(extent));
    }
    return shape;
  }

  void check_filters(hid_t creation) const {
    const int filters = H5Pget_nfilters(creation);
    if (filters < 0) refuse(where_, "damaged filters" + library_says());
    for (int i = 0; i < filters; ++i) {
      unsigned flags = 0;
      size_t values = 0;
      const H5Z_filter_t id =
          H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
      if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32) {
        refuse(where_, "uses filter " + std::to_string(id) + "; read are deflate (gzip), shuffle and Fletcher-32");
      }
    }
  }

  // Chunks that were never written read as fill values: data that nobody measured. (H5Dget_space_status cannot tell:
  // it compares bytes, which filters change.)
  void check_chunks(hid_t set, hid_t creation) const {
    const Handle space(H5Dget_space(set), H5Sclose);
    std::array<hsize_t, kMaxRank> extents{};
    std::array<hsize_t, kMaxRank> chunk{};
    const int rank = H5Sget_simple_extent_dims(space.id, extents.data(), nullptr);
    hsize_t there = 0;
    if (H5Pget_chunk(creation, static_cast<int>(kMaxRank), chunk.data()) != rank ||
        H5Dget_num_chunks(set, space.id, &there) < 0) {
      refuse(where_, "damaged chunks" + library_says());
    }
    std::uint64_t wanted = 1;  // at most the elements, whose bytes fit
    for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
      if (chunk[i] == 0) refuse(where_, "a chunk without elements");
      wanted *= extents[i] / chunk[i] + (extents[i] % chunk[i] != 0 ? 1 : 0);
    }
    if (there != wanted) refuse(where_, "not every chunk was written");
  }

  void check_storage(hid_t set, hid_t creation, std::uint64_t bytes) const {
    const H5D_layout_t layout = H5Pget_layout(creation);
    if (layout == H5D_VIRTUAL) refuse(where_, "a virtual dataset, whose data is in other files");
    if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) refuse(where_, "unknown layout");
    if (H5Pget_external_count(creation) != 0) refuse(where_, "external storage: its data is in other files");
    check_filters(creation);
    if (bytes == 0) return;
    const std::uint64_t limit = file_bytes_ > UINT64_MAX / kMaxExpansion ? UINT64_MAX : file_bytes_ * kMaxExpansion;
    const std::uint64_t stored = H5Dget_storage_size(set);
    if (layout == H5D_CHUNKED) {
      if (bytes > limit) refuse(where_, "calls for more data than the file can hold (truncated?)");
      check_chunks(set, creation);
      return;
    }
    if (stored != bytes || bytes > file_bytes_) refuse(where_, "calls for more data than was written (truncated?)");
    if (layout == H5D_CONTIGUOUS) {
      const haddr_t at = H5Dget_offset(set);
      if (at == HADDR_UNDEF || at > file_bytes_ - bytes) refuse(where_, "its data lies beyond the end of the file");
    }
  }

  const std::string& path_;
  const std::string& dataset_;
  std::string where_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace

Tensor read_hdf5_in_this_process(const std::string& path, const std::string& dataset) {
  return Reader(path, dataset).read();
}

}  // namespace mxcheck
