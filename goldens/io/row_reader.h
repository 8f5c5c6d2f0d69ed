#pragma once
// A tensor read from front to back in pieces, so that one larger than memory can be worked on.
//
//   const auto rows = open_rows("x.h5:/activations");
//   std::vector<float> row(static_cast<std::size_t>(rows->head().shape[1]));  // rows->head().dtype == Format::fp32
//   rows->read(std::as_writable_bytes(std::span(row)));                       // the next row

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"

namespace mxcheck {

struct TensorHead {
  Format dtype = Format::uint8;
  std::vector<std::int64_t> shape;
};

class RowReader {
 public:
  RowReader() = default;
  virtual ~RowReader() = default;
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  [[nodiscard]] virtual const TensorHead& head() const = 0;
  // The tensor's next to.size() bytes, little-endian and row-major. Error{input} when the file ends before, or is
  // damaged; Error{usage} when more is requested than the shape holds.
  virtual void read(std::span<std::byte> to) = 0;
};

// "FILE.npy", "FILE.safetensors[:TENSOR]" or "FILE.h5:/DATASET", with the refusals of read_tensor. HDF5 is read by a
// child process, row by row as it is requested.
std::unique_ptr<RowReader> open_rows(const std::string& location);

}  // namespace mxcheck
