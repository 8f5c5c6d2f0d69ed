#pragma once
// Tensors with the metadata that explains them, in either of two files that say the same:
//
//   FILE.safetensors   tensors, and the metadata as __metadata__
//   FILE.h5, .hdf5     the tensors as datasets of the root group (floats as their bits in unsigned integers), the
//   metadata
//                      as its attributes, in the format of goldens (goldens/format/writer.h)
//
// The metadata's mxcheck_file names the kind of file: "quantized", "routes". Errors are those of write_safetensors and
// GoldenWriter; a write that fails leaves no file, and
// so does what before_it_appears throws.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "goldens/io/tensor_writers.h"

namespace mxcheck {

bool is_hdf5_path(const std::string& path);       // by its extension, as all three
bool is_described_path(const std::string& path);  // .safetensors, .h5, .hdf5

// The format of a tensor's elements, by its name in the attribute `format` ("float8_e4m3fn", "int32"); of HDF5 alone.
using FormatOf = std::function<std::string_view(const NamedHead&)>;

// Declared in full, filled piece by piece in any order, there on commit.
class DescribedWriter {
 public:
  DescribedWriter(const std::string& path, const std::vector<NamedHead>& tensors,
                  const std::map<std::string, std::string>& metadata, const FormatOf& format_of);
  ~DescribedWriter();
  DescribedWriter(const DescribedWriter&) = delete;
  DescribedWriter& operator=(const DescribedWriter&) = delete;

  void append(std::size_t tensor, std::span<const std::byte> rows);  // the next whole rows (elements, for rank 1)
  void commit(const std::function<void()>& before_it_appears = {});

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

void write_described(const std::string& path, const SafetensorsFile& file, const FormatOf& format_of,
                     const std::function<void()>& before_it_appears = {});

}  // namespace mxcheck
