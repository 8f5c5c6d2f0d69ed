#pragma once
// Private to goldens/: checks of a dataset before the HDF5 library reads it: external storage and links, plugins, and
// sizes beyond what the file can hold are rejected.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "goldens/format/golden.h"
#include "goldens/hdf5/handle.h"
#include "goldens/io/readers.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {

// deflate cannot expand by more than 1032 : 1 (258 bytes from two bits), so neither can a dataset of its file.
inline constexpr std::uint64_t kMaxExpansion = 1032;

// Where a reader is, for its errors and bounds.
struct Hdf5Place {
  std::string where;  // "x.h5:/a"
  ErrorKind kind = ErrorKind::input;
  std::uint64_t file_bytes = 0;
  [[noreturn]] void refuse(const std::string& what) const { throw Error(kind, one_line(where + ": " + what)); }
};

// The extents of a dataset; empty for a scalar. Rejects a missing shape, more than 32 dimensions, and sizes beyond 63
// bits.
std::vector<std::int64_t> shape_of(hid_t set, const Hdf5Place& place);

// Only deflate, shuffle and Fletcher-32, only data inside this file, only chunks that were written, and no more than
// `bytes` of data, which the file can hold.
void check_storage(hid_t set, std::uint64_t bytes, const Hdf5Place& place);

// Opens the dataset, a hard link, with a chunk cache in which no chunk is decoded twice by a sequential reader (up to
// 256 MiB of chunks side by side, and one chunk of any size).
Hdf5Handle open_dataset(hid_t file, const std::string& name, const Hdf5Place& place);

// Private to goldens/: text attributes of an HDF5 object, fixed-length, null-padded UTF-8 scalars.

// Error{place.kind} when the library fails. An empty value is stored as one zero byte: HDF5 has no empty strings.
void write_attribute(hid_t object, const std::string& key, const std::string& value, const Hdf5Place& place);

// All attributes in the order of their creation; refuses other types, more than `most`, and values over `longest`.
Attributes read_attributes(hid_t object, std::size_t most, std::size_t longest, const Hdf5Place& place);

// Private to goldens/: an HDF5 file that is already in memory.

// Opens the bytes in place, read-only; they must outlive the handle. Error{place.kind} when they are no HDF5 file.
Hdf5Handle open_image(std::span<const std::byte> bytes, const Hdf5Place& place);

// Private to goldens/: an open HDF5 dataset read sequentially, in pieces of any size.

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
