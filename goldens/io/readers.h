#pragma once
// Private to goldens/ and its tests: the readers behind read_tensor and open_rows, one a file format.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "goldens/io/byte_source.h"
#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_file.h"
#include "goldens/io/tensor_writers.h"

namespace mxcheck {

// Where in a file a tensor's bytes are: one an element that are as in memory, but of e2m1, which files have two a byte.
struct TensorRegion {
  std::string name;
  TensorHead head;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

TensorRegion find_npy(const ByteSource& source);
// The named tensor, or the only one when the name is empty.
TensorRegion find_safetensors(const ByteSource& source, const std::string& name);

// Names, types, shapes and metadata, without the data. Error{input} for a tensor of a type that is not read.
struct SafetensorsHeads {
  std::vector<NamedHead> tensors;
  std::map<std::string, std::string> metadata;
};
SafetensorsHeads heads_of_safetensors(const ByteSource& source);

Tensor load(const ByteSource& source, const TensorRegion& region);
std::unique_ptr<RowReader> open_region(std::unique_ptr<ByteSource> source, const TensorRegion& region);

SafetensorsFile read_safetensors(const ByteSource& source);

// In a child process with limits on memory and time: the HDF5 library does not promise to survive hostile files.
std::unique_ptr<RowReader> open_hdf5(const std::string& path, const std::string& dataset);
// The same without the child.
std::unique_ptr<RowReader> open_hdf5_in_this_process(const std::string& path, const std::string& dataset);

// The bytes of a whole tensor, with room taken first.
Tensor read_whole(RowReader& rows, const std::string& where);

// The position in a tensor that is read from front to back, with the number of bytes that are left.
class ReadPosition {
 public:
  explicit ReadPosition(std::uint64_t bytes) : left_(bytes) {}
  // Moves on by `count` bytes and returns where they begin; Error{usage} when fewer are left.
  std::uint64_t advance(std::uint64_t count, const std::string& where);
  [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
  std::uint64_t at_ = 0;
  std::uint64_t left_;
};

// Error{usage} unless data holds exactly what dtype and shape call for.
void check_tensor(const Tensor& tensor, const std::string& where);

}  // namespace mxcheck
