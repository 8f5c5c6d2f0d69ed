#include "fuzz/hdf5_builder.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "fuzz/check.h"
#include "goldens/hdf5/handle.h"

namespace mxcheck::fuzz {
namespace {

constexpr unsigned kOrdered = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

Hdf5Handle text_type(std::size_t bytes, Choices& choices) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), std::max<std::size_t>(1, bytes));
  H5Tset_strpad(type.id(), choices.mostly({H5T_STR_NULLPAD, H5T_STR_NULLTERM, H5T_STR_SPACEPAD}));
  H5Tset_cset(type.id(), choices.mostly({H5T_CSET_UTF8, H5T_CSET_ASCII}));
  return type;
}

// A value of 16 bytes of any kind, or a text.
void add_attribute(hid_t object, const std::string& key, const std::string& value, Choices& choices) {
  const std::size_t kind = choices.mostly<std::size_t>({0, 1, 2, 3, 4});
  Hdf5Handle type = text_type(value.size(), choices);
  std::vector<char> bytes(std::max<std::size_t>(16, value.size() + 1));
  std::copy(value.begin(), value.end(), bytes.begin());
  const char* pointer = value.c_str();
  const void* from = bytes.data();
  const hsize_t two = 2;
  Hdf5Handle space(H5Screate(kind == 1 ? H5S_NULL : H5S_SCALAR), H5Sclose);
  if (kind == 2) {
    type = Hdf5Handle(H5Tcopy(H5T_STD_U64LE), H5Tclose);
    space = Hdf5Handle(H5Screate_simple(1, &two, nullptr), H5Sclose);
  }
  if (kind == 3) {
    H5Tset_size(type.id(), H5T_VARIABLE);
    from = static_cast<const void*>(&pointer);
  }
  if (kind == 4) type = Hdf5Handle(H5Tarray_create2(H5T_STD_U8LE, 1, &two), H5Tclose);
  const Hdf5Handle attribute(H5Acreate2(object, key.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  if (attribute && kind != 1) H5Awrite(attribute.id(), type.id(), from);
}

void add_more_attributes(hid_t object, Choices& choices) {
  const std::size_t count = choices.mostly<std::size_t>({0, 1, 2, 9});
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = choices.mostly({"key" + std::to_string(i), choices.text(6), std::string("role")});
    add_attribute(object, key, choices.text(choices.mostly<std::size_t>({8, 300})), choices);
  }
}

Hdf5Handle element_type(Choices& choices) {
  Hdf5Handle type(
      H5Tcopy(choices.mostly({H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_I8LE, H5T_STD_U16BE,
                              H5T_STD_U64LE, H5T_IEEE_F32LE, H5T_STD_REF_OBJ, H5T_C_S1, H5T_UNIX_D32LE, H5T_STD_B8LE})),
      H5Tclose);
  switch (choices.mostly<std::size_t>({0, 1, 2, 3, 4, 5})) {
    case 1: H5Tset_precision(type.id(), 5); break;
    case 2: return {H5Tvlen_create(type.id()), H5Tclose};
    case 3: return {H5Tenum_create(type.id()), H5Tclose};
    case 4: {
      Hdf5Handle compound(H5Tcreate(H5T_COMPOUND, 16), H5Tclose);
      H5Tinsert(compound.id(), "a", 0, type.id());
      return compound;
    }
    case 5: H5Tset_offset(type.id(), 1); break;
    default: break;
  }
  return type;
}

struct Shape {
  std::array<hsize_t, 3> extents{};
  std::array<hsize_t, 3> most{};
  std::array<hsize_t, 3> chunk{};
  int rank = 0;
  std::uint64_t elements = 1;  // at most 2^16, or more than can be written
};

Shape shape(Choices& choices) {
  Shape s;
  s.rank = choices.mostly({2, 1, 0, 3});
  for (std::size_t d = 0; d < static_cast<std::size_t>(s.rank); ++d) {
    s.extents[d] = choices.mostly<hsize_t>({choices.pick(40), 0, hsize_t{1} << 31, hsize_t{1} << 62});
    s.most[d] = choices.mostly<hsize_t>({s.extents[d], s.extents[d] + 1, H5S_UNLIMITED});
    s.chunk[d] = std::min<hsize_t>(std::max<hsize_t>(1, choices.pick(40)), std::max<hsize_t>(1, s.extents[d]));
    s.elements = s.extents[d] > 40 ? UINT64_MAX : s.elements == UINT64_MAX ? UINT64_MAX : s.elements * s.extents[d];
  }
  return s;
}

void set_storage(hid_t creation, const Shape& s, Choices& choices) {
  H5Pset_attr_creation_order(creation, choices.mostly({kOrdered, 0U}));
  const std::size_t layout = choices.mostly<std::size_t>({0, 1, 2, 3, 4});
  if (layout == 0 && s.rank > 0 && s.elements > 0) H5Pset_chunk(creation, s.rank, s.chunk.data());
  if (layout == 2) H5Pset_layout(creation, H5D_COMPACT);
  if (layout == 3) H5Pset_external(creation, "/nowhere/raw", 0, H5F_UNLIMITED);
  if (layout == 4) {
    const Hdf5Handle space(H5Screate_simple(s.rank, s.extents.data(), nullptr), H5Sclose);
    H5Pset_virtual(creation, space.id(), "/nowhere/other.h5", "/x", space.id());
  }
  if (H5Pget_layout(creation) != H5D_CHUNKED) return;
  const std::uint8_t filters = choices.mostly<std::uint8_t>({0, 1, 2, 3, 4, 5});
  if (filters == 1) H5Pset_shuffle(creation);
  if (filters == 2 || filters == 1) H5Pset_deflate(creation, 3);
  if (filters == 4) H5Pset_nbit(creation);
  if (filters != 3) H5Pset_fletcher32(creation);
  if (filters == 5) H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
}

void add_dataset(hid_t file, const std::string& name, Choices& choices, BuiltData& built) {
  const Hdf5Handle type = element_type(choices);
  const Shape s = shape(choices);
  const Hdf5Handle space(s.rank == 0 ? H5Screate(choices.mostly({H5S_SCALAR, H5S_NULL}))
                                     : H5Screate_simple(s.rank, s.extents.data(), s.most.data()),
                         H5Sclose);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  set_storage(creation.id(), s, choices);
  const Hdf5Handle set(H5Dcreate2(file, name.c_str(), type.id(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                       H5Dclose);
  if (!set) return;
  add_attribute(set.id(), "role", choices.mostly<std::string>({"output", "input", "", "outpu"}), choices);
  add_attribute(set.id(), "format",
                choices.mostly<std::string>({"float8_e4m3fn", "bfloat16", "float32", "int64", "mxfp8", ""}), choices);
  add_more_attributes(set.id(), choices);
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  const bool here = layout == H5D_CHUNKED || layout == H5D_CONTIGUOUS || layout == H5D_COMPACT;
  const bool plain = H5Tget_class(type.id()) == H5T_INTEGER && H5Pget_external_count(creation.id()) == 0;
  if (choices.mostly<std::size_t>({0, 1}) == 1 || !here || !plain || s.elements == UINT64_MAX) return;
  std::vector<std::byte> bytes(s.elements * H5Tget_size(type.id()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  if (H5Dwrite(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0) built[name] = bytes;
}

void add_object(hid_t file, std::size_t number, Choices& choices, BuiltData& built) {
  const std::string name =
      choices.mostly({"set" + std::to_string(number), choices.text(5), std::string("x"), std::string(300, 'n')});
  switch (choices.mostly<std::size_t>({0, 1, 2, 3, 4, 5, 6})) {
    case 1: Hdf5Handle(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose); return;
    case 2: H5Lcreate_soft("/set0", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT); return;
    case 3: H5Lcreate_external("/nowhere/other.h5", "/", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT); return;
    case 4: H5Lcreate_hard(file, "/set0", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT); return;
    case 5: H5Lcreate_hard(file, "/", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT); return;
    case 6: {
      const Hdf5Handle type(H5Tcopy(H5T_STD_U8LE), H5Tclose);
      H5Tcommit2(file, name.c_str(), type.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      return;
    }
    default: add_dataset(file, name, choices, built);
  }
}

}  // namespace

std::uint8_t Choices::next() {
  if (bytes_.empty()) return 0;
  const auto byte = std::to_integer<std::uint8_t>(bytes_[0]);
  bytes_ = bytes_.subspan(1);
  return byte;
}

std::string Choices::text(std::size_t most) {
  std::string text;
  for (std::size_t length = pick(most + 1); length > 0; --length) text += static_cast<char>(next());
  return text;
}

BuiltData build_hdf5(const std::string& path, Choices choices) {
  quiet_hdf5();
  BuiltData built;
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  const unsigned order = choices.mostly({kOrdered, 0U});
  if (order != 0) {
    H5Pset_link_creation_order(creation.id(), order);
    H5Pset_attr_creation_order(creation.id(), order);
  }
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const H5F_libver_t low = choices.mostly({H5F_LIBVER_V110, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18});
  H5Pset_libver_bounds(access.id(), low, H5F_LIBVER_V110);
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose);
  {
    const Hdf5Handle root(H5Gopen2(file.id(), "/", H5P_DEFAULT), H5Gclose);
    add_attribute(root.id(), "mxcheck_file", choices.mostly<std::string>({"golden", "quantized", "record", ""}),
                  choices);
    add_attribute(root.id(), "schema_version", choices.mostly<std::string>({"1", "2", "", "1 "}), choices);
    add_more_attributes(root.id(), choices);
  }
  const std::size_t objects = 1 + choices.pick(4);
  for (std::size_t i = 0; i < objects; ++i) add_object(file.id(), i, choices, built);
  return built;
}

const std::string& scratch() {
  struct Folder {
    std::string path;
    Folder() {
      const std::filesystem::path memory("/dev/shm");
      const auto parent = std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
      path = (parent / "mxcheck-fuzz-XXXXXX").string();
      require(::mkdtemp(path.data()) != nullptr, "there is a place for a folder");
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace mxcheck::fuzz
