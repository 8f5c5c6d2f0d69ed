#pragma once
// Private to goldens/: an open HDF5 dataset read sequentially, in pieces of any size.

#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/readers.h"

namespace mxcheck {

class Hdf5Rows final : public RowReader {
 public:
  // The dataset has passed check_storage.
  Hdf5Rows(Hdf5Handle set, TensorHead head, Hdf5Place place);
  [[nodiscard]] const TensorHead& head() const override { return head_; }
  void read(std::span<std::byte> to) override;  // whole elements

 private:
  // Reads the largest block of elements that begins here, and says how many.
  std::uint64_t read_block(std::uint64_t element, std::uint64_t wanted, std::byte* to) const;

  Hdf5Handle set_;
  Hdf5Handle type_;
  TensorHead head_;
  Hdf5Place place_;
  ReadPosition position_;
};

}  // namespace mxcheck
