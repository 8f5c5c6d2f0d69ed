#include "goldens/hdf5/attributes.h"

#include <algorithm>
#include <array>

namespace mxcheck {
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

}  // namespace mxcheck
