#pragma once
// Small HDF5 files for the tests, good ones and ones that must be refused, written with the HDF5 library itself.

#include <hdf5.h>

#include "tests/testing.h"

namespace mxcheck::test {

// Creates the file and hands it to `fill`.
inline void write_hdf5(const std::string& path, const std::function<void(hid_t)>& fill) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  fill(file);
  H5Fclose(file);
}

struct DatasetOptions {
  std::vector<hsize_t> shape{2, 3};
  std::vector<hsize_t> chunk;             // chunked when not empty
  std::function<void(hid_t)> properties;  // more of the creation property list
  bool write = true;
};

// A dataset of this type, its bytes 0, 1, 2, ...; returns them.
inline std::vector<std::byte> add_dataset(hid_t file, const std::string& name, hid_t type,
                                          const DatasetOptions& o = {}) {
  const hid_t space = H5Screate_simple(static_cast<int>(o.shape.size()), o.shape.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, 0);
  if (!o.chunk.empty()) H5Pset_chunk(creation, static_cast<int>(o.chunk.size()), o.chunk.data());
  if (o.properties) o.properties(creation);
  const hid_t set = H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  std::vector<std::byte> bytes;
  if (o.write) {
    const hsize_t count = std::accumulate(o.shape.begin(), o.shape.end(), hsize_t{1}, std::multiplies<>());
    bytes.resize(count * H5Tget_size(type));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 101);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  }
  H5Dclose(set);
  H5Pclose(creation);
  H5Sclose(space);
  return bytes;
}

// A string attribute: of fixed length as the C library writes it, or of variable length as h5py does.
inline void add_attribute(hid_t file, const std::string& dataset, const std::string& name, const std::string& text,
                          bool variable) {
  const hid_t set = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, variable ? H5T_VARIABLE : text.size());
  const hid_t attribute = H5Acreate2(set, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
  const char* pointer = text.c_str();
  H5Awrite(attribute, type, variable ? static_cast<const void*>(&pointer) : pointer);
  H5Aclose(attribute);
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(set);
}

inline hid_t small_float(std::size_t mantissa_bits, std::size_t exponent_bits, std::size_t bias) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, bias);
  return type;
}

}  // namespace mxcheck::test
