#pragma once
// Quantized files (goldens/format/quantized_file.h) written and read row by row: no more than the scales is held whole.
//
//   QuantizedWriter writer("q.safetensors", head, recipe, Format::bf16);
//   writer.append_codes(rows);  ...
//   writer.append_scales(scales);
//   writer.commit();
//
//   QuantizedReader reader("q.safetensors");       reader.file().matrix.scales are there, codes are not
//   reader.read_codes(rows);  ...

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "goldens/format/described_file.h"
#include "goldens/format/quantized_file.h"
#include "goldens/io/row_reader.h"

namespace mxcheck {

// Errors: those of DescribedWriter.
class QuantizedWriter {
 public:
  // head: a QuantizedFile whose matrix has neither codes nor scales yet.
  QuantizedWriter(const std::string& path, QuantizedFile head, const Recipe& recipe, Format source);

  void append_codes(std::span<const std::byte> rows);  // the next whole rows; E5M6's as words of 16 bits
  void append_scales(std::vector<std::byte> compact);  // all of them
  void commit(const std::function<void()>& before_it_appears = {});

 private:
  QuantizedFile file_;
  DescribedWriter writer_;
};

// Errors: those of read_safetensors and from_safetensors.
class QuantizedReader {
 public:
  explicit QuantizedReader(const std::string& path);
  [[nodiscard]] const QuantizedFile& file() const { return file_; }
  void read_codes(std::span<std::byte> to);  // the next bytes

 private:
  QuantizedFile file_;
  std::unique_ptr<RowReader> codes_;
};

}  // namespace mxcheck
