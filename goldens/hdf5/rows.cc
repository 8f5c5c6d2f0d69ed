#include "goldens/hdf5/rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "goldens/io/byte_source.h"

namespace mxcheck {

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
  // Of the same rank as the selection: between other shapes the library goes element by element.
  const Hdf5Handle into(H5Screate_simple(static_cast<int>(rank), count.data(), nullptr), H5Sclose);
  const bool selected =
      rank == 0 || H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0;
  if (!selected || H5Dread(set_.id(), type_.id(), into.id(), from.id(), H5P_DEFAULT, to) < 0) {
    place_.refuse("cannot be read" + hdf5_says());
  }
  return block;
}

}  // namespace mxcheck
