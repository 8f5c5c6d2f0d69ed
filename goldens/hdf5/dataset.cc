// One dataset of an HDF5 file. What can make a read do more than read is refused before it happens: links that leave
// the group, external and virtual storage, filters from plugins, variable-length and compound elements; and what is to
// be allocated is bounded by the file's length first.
//
// The file format's own data structures are parsed by the HDF5 library, whose authors do not promise that it survives
// hostile files. goldens/io/child_reader.cc therefore runs this in a child process.

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/rows.h"
#include "goldens/hdf5/storage.h"
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

  Dtype dtype_of(hid_t set) const {
    const Hdf5Handle type_handle(H5Dget_type(set), H5Tclose);
    if (!type_handle) refuse(where_, "damaged header" + hdf5_says());
    const hid_t type = type_handle.id();
    const Hdf5Handle half = small_float(10, 5, 15);
    const Hdf5Handle bfloat = small_float(7, 8, 127);
    const std::array<std::pair<hid_t, Dtype>, 10> known{{{H5T_STD_U8LE, Dtype::u8},
                                                         {H5T_STD_I8LE, Dtype::i8},
                                                         {H5T_STD_U16LE, Dtype::u16},
                                                         {H5T_STD_U32LE, Dtype::u32},
                                                         {H5T_STD_I32LE, Dtype::i32},
                                                         {H5T_STD_I64LE, Dtype::i64},
                                                         {half.id(), Dtype::f16},
                                                         {bfloat.id(), Dtype::bf16},
                                                         {H5T_IEEE_F32LE, Dtype::f32},
                                                         {H5T_IEEE_F64LE, Dtype::f64}}};
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
  static Dtype as_named(Dtype dtype, const std::string& format) {
    if (dtype == Dtype::u16 && format == "bfloat16") return Dtype::bf16;
    if (dtype == Dtype::u16 && format == "float16") return Dtype::f16;
    if (dtype == Dtype::u32 && format == "float32") return Dtype::f32;
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

}  // namespace mxcheck
