#pragma once
// Private to goldens/: one dataset of a golden while it is written, chunk by chunk in the order of its elements.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "goldens/format/golden.h"
#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/storage.h"

namespace mxcheck {

class ChunkWriter {
 public:
  // Creates the dataset with its attributes. compression: 0 (none) to 9.
  ChunkWriter(hid_t file, const DatasetInfo& info, int compression, Hdf5Place place);

  // The next bytes, cut anywhere; the caller gives no more than all. A chunk is written when it is full.
  void write(std::span<const std::byte> bytes);
  void close();  // after the last byte

 private:
  void write_chunk(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t chunk_bytes() const;  // of the next chunk, less at the edges

  Hdf5Place place_;
  Hdf5Handle type_;
  Hdf5Handle set_;
  std::size_t element_;
  std::uint64_t rows_ = 0;
  std::uint64_t cols_ = 1;
  std::uint64_t chunk_rows_ = 1;
  std::uint64_t chunk_cols_ = 1;
  std::uint64_t row_ = 0;  // where the next chunk begins
  std::uint64_t col_ = 0;
  int rank_;
  std::vector<std::byte> pending_;
};

}  // namespace mxcheck
