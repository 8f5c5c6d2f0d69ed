#include "goldens/io/chunk_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "goldens/format/schema.h"
#include "goldens/hdf5/attributes.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kChunk = 1 << 20;  // bytes, about

Hdf5Handle file_type(Dtype dtype) {
  const hid_t type = dtype == Dtype::u8    ? H5T_STD_U8LE
                     : dtype == Dtype::u16 ? H5T_STD_U16LE
                     : dtype == Dtype::u32 ? H5T_STD_U32LE
                     : dtype == Dtype::i32 ? H5T_STD_I32LE
                                           : H5T_STD_I64LE;
  return {H5Tcopy(type), H5Tclose};
}

// The smallest length that cuts `extent` into as few parts as `most` does: the last part then wastes little.
std::uint64_t even_part(std::uint64_t extent, std::uint64_t most) {
  const std::uint64_t parts = (extent - 1) / most + 1;
  return (extent - 1) / parts + 1;
}

}  // namespace

ChunkWriter::ChunkWriter(hid_t file, const DatasetInfo& info, int compression, Hdf5Place place)
    : place_(std::move(place)),
      type_(file_type(info.dtype)),
      element_(size_of(info.dtype)),
      rows_(static_cast<std::uint64_t>(info.shape[0])),
      rank_(static_cast<int>(info.shape.size())) {
  if (rank_ == 2) cols_ = static_cast<std::uint64_t>(info.shape[1]);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_obj_track_times(creation.id(), 0);
  H5Pset_attr_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  if (rows_ != 0 && cols_ != 0) {
    chunk_cols_ = even_part(cols_, kChunk / element_);
    chunk_rows_ = even_part(rows_, std::max<std::uint64_t>(1, kChunk / (cols_ * element_)));
    const std::array<hsize_t, 2> chunk{chunk_rows_, chunk_cols_};
    H5Pset_chunk(creation.id(), rank_, chunk.data());
    H5Pset_fill_time(creation.id(), H5D_FILL_TIME_ALLOC);  // zeros, not memory, beyond the edges
    if (compression > 0) H5Pset_deflate(creation.id(), static_cast<unsigned>(compression));
    H5Pset_fletcher32(creation.id());
    H5Pset_chunk_cache(access.id(), 1, 0, 1.0);  // every chunk is written once, whole: straight to the file
  }
  const std::array<hsize_t, 2> extents{rows_, cols_};
  const Hdf5Handle space(H5Screate_simple(rank_, extents.data(), nullptr), H5Sclose);
  set_ = Hdf5Handle(
      H5Dcreate2(file, info.name.c_str(), type_.id(), space.id(), H5P_DEFAULT, creation.id(), access.id()), H5Dclose);
  if (!set_) place_.refuse("could not be created" + hdf5_says());
  write_attribute(set_.id(), kRoleKey, to_text(info.role), place_);
  write_attribute(set_.id(), kFormatKey, info.format, place_);
  for (const auto& [key, value] : info.attributes) write_attribute(set_.id(), key, value, place_);
}

std::size_t ChunkWriter::chunk_bytes() const {
  return std::min(chunk_rows_, rows_ - row_) * std::min(chunk_cols_, cols_ - col_) * element_;
}

void ChunkWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = chunk_bytes();
    if (pending_.empty() && bytes.size() >= wanted) {
      write_chunk(bytes.first(wanted));
      bytes = bytes.subspan(wanted);
      continue;
    }
    const std::size_t part = std::min(bytes.size(), wanted - pending_.size());
    pending_.reserve(wanted);
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    bytes = bytes.subspan(part);
    if (pending_.size() == wanted) {
      write_chunk(pending_);
      pending_.clear();
    }
  }
}

// A chunk holds whole rows, or a part of one row: in both cases its bytes are consecutive in the tensor.
void ChunkWriter::write_chunk(std::span<const std::byte> bytes) {
  const std::array<hsize_t, 2> start{row_, col_};
  const std::array<hsize_t, 2> count{std::min(chunk_rows_, rows_ - row_), std::min(chunk_cols_, cols_ - col_)};
  const Hdf5Handle into(H5Dget_space(set_.id()), H5Sclose);
  const Hdf5Handle from(H5Screate_simple(rank_, count.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(into.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dwrite(set_.id(), type_.id(), from.id(), into.id(), H5P_DEFAULT, bytes.data()) < 0) {
    place_.refuse("could not be written" + hdf5_says());
  }
  col_ += count[1];
  if (col_ == cols_) {
    col_ = 0;
    row_ += count[0];
  }
}

void ChunkWriter::close() {
  pending_ = {};
  if (!set_.close()) place_.refuse("could not be written" + hdf5_says());
}

}  // namespace mxcheck
