#include "goldens/hdf5/image.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace mxcheck {
namespace {

// The library would copy the image into its property list and again into its file; these callbacks hand it the bytes
// instead. It opens the file read-only, so that it neither writes to them nor asks for more room.
H5FD_file_image_callbacks_t lend(void* bytes) {
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = [](size_t, H5FD_file_image_op_t, void* data) { return data; };
  callbacks.image_memcpy = [](void* to, const void* from, size_t, H5FD_file_image_op_t, void*) -> void* {
    return to == from ? to : nullptr;
  };
  callbacks.image_realloc = [](void*, size_t, H5FD_file_image_op_t, void*) -> void* { return nullptr; };
  callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
  callbacks.udata_copy = [](void* data) { return data; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = bytes;
  return callbacks;
}

}  // namespace

Hdf5Handle open_image(std::span<const std::byte> bytes, const Hdf5Place& place) {
  if (bytes.empty()) place.refuse("empty, not an HDF5 file");
  // The library takes files in memory of one name for one file.
  static std::atomic<std::uint64_t> opened = 0;
  const std::string name = "image-" + std::to_string(++opened);
  const Hdf5Handle access = hdf5_access(Hdf5Locks::none);
  constexpr std::size_t kIncrement = 1 << 16;
  void* data = const_cast<std::byte*>(bytes.data());
  H5FD_file_image_callbacks_t callbacks = lend(data);
  H5Pset_fapl_core(access.id(), kIncrement, 0);
  H5Pset_file_image_callbacks(access.id(), &callbacks);
  H5Pset_file_image(access.id(), data, bytes.size());
  Hdf5Handle file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file) place.refuse("not an HDF5 file" + hdf5_says());
  return file;
}

}  // namespace mxcheck
