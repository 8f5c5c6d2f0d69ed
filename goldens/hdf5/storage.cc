#include "goldens/hdf5/storage.h"

#include <algorithm>
#include <array>

#include "goldens/io/byte_source.h"

namespace mxcheck {
namespace {

using Extents = std::array<hsize_t, kMaxRank>;

void check_filters(hid_t creation, const Hdf5Place& place) {
  const int filters = H5Pget_nfilters(creation);
  if (filters < 0) place.refuse("damaged filters" + hdf5_says());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    size_t values = 0;
    const H5Z_filter_t id =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32) {
      place.refuse("uses filter " + std::to_string(id) + "; read are deflate (gzip), shuffle and Fletcher-32");
    }
  }
}

// Chunks that were never written read as fill values, which are no data. (H5Dget_space_status cannot tell:
// it compares bytes, which filters change.)
void check_chunks(hid_t set, hid_t creation, const Hdf5Place& place) {
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  Extents extents{};
  Extents chunk{};
  const int rank = H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  hsize_t there = 0;
  if (H5Pget_chunk(creation, static_cast<int>(kMaxRank), chunk.data()) != rank ||
      H5Dget_num_chunks(set, space.id(), &there) < 0) {
    place.refuse("damaged chunks" + hdf5_says());
  }
  std::uint64_t wanted = 1;  // at most the elements, whose bytes fit
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (chunk[i] == 0) place.refuse("a chunk without elements");
    wanted *= extents[i] / chunk[i] + (extents[i] % chunk[i] != 0 ? 1 : 0);
  }
  if (there != wanted) place.refuse("not every chunk was written");
}

// Bytes of the chunks that one row of the tensor touches, but no more than kMost unless a single chunk is larger.
std::size_t cache_bytes(hid_t set) {
  constexpr std::uint64_t kLeast = 1 << 20;
  constexpr std::uint64_t kMost = 256 << 20;
  const Hdf5Handle creation(H5Dget_create_plist(set), H5Pclose);
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  const Hdf5Handle type(H5Dget_type(set), H5Tclose);
  Extents extents{};
  Extents chunk{};
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > static_cast<int>(kMaxRank) || H5Pget_layout(creation.id()) != H5D_CHUNKED) return kLeast;
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  if (H5Pget_chunk(creation.id(), rank, chunk.data()) != rank) return kLeast;
  std::uint64_t one = H5Tget_size(type.id());
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (chunk[i] == 0 || !checked_multiply(one, chunk[i], one)) return kLeast;
  }
  std::uint64_t band = one;
  for (std::size_t i = 1; i < static_cast<std::size_t>(rank); ++i) {
    if (!checked_multiply(band, (extents[i] - 1) / chunk[i] + 1, band)) band = kMost;
  }
  return std::max({kLeast, one, std::min(band, kMost)});
}

}  // namespace

std::vector<std::int64_t> shape_of(hid_t set, const Hdf5Place& place) {
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  const H5S_class_t kind = H5Sget_simple_extent_type(space.id());
  if (kind == H5S_SCALAR) return {};
  const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.id()) : -1;
  if (rank < 0 || rank > static_cast<int>(kMaxRank)) place.refuse("has no shape" + hdf5_says());
  Extents extents{};
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    const hsize_t extent = extents[static_cast<std::size_t>(i)];
    if (extent >> 63 != 0) place.refuse("a dimension overflows 63 bits");
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  return shape;
}

void check_storage(hid_t set, std::uint64_t bytes, const Hdf5Place& place) {
  const Hdf5Handle creation(H5Dget_create_plist(set), H5Pclose);
  if (!creation) place.refuse("damaged header" + hdf5_says());
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  if (layout == H5D_VIRTUAL) place.refuse("a virtual dataset, whose data is in other files");
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) place.refuse("unknown layout");
  if (H5Pget_external_count(creation.id()) != 0) place.refuse("external storage: its data is in other files");
  check_filters(creation.id(), place);
  if (bytes == 0) return;
  const std::uint64_t file = place.file_bytes;
  const std::uint64_t limit = file > UINT64_MAX / kMaxExpansion ? UINT64_MAX : file * kMaxExpansion;
  if (layout == H5D_CHUNKED) {
    if (bytes > limit) place.refuse("calls for more data than the file can hold (truncated?)");
    check_chunks(set, creation.id(), place);
    return;
  }
  if (H5Dget_storage_size(set) != bytes || bytes > file) {
    place.refuse("calls for more data than was written (truncated?)");
  }
  if (layout == H5D_CONTIGUOUS) {
    const haddr_t at = H5Dget_offset(set);
    if (at == HADDR_UNDEF || at > file - bytes) place.refuse("its data lies beyond the end of the file");
  }
}

Hdf5Handle open_dataset(hid_t file, const std::string& name, const Hdf5Place& place) {
  Hdf5Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set) place.refuse("cannot be opened" + hdf5_says());
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  constexpr std::size_t kSlots = 12421;  // a prime, some hundred times the chunks of a usual band
  H5Pset_chunk_cache(access.id(), kSlots, cache_bytes(set.id()), 1.0);  // 1: what was read whole goes first
  set.close();
  set = Hdf5Handle(H5Dopen2(file, name.c_str(), access.id()), H5Dclose);
  if (!set) place.refuse("cannot be opened" + hdf5_says());
  return set;
}

}  // namespace mxcheck
