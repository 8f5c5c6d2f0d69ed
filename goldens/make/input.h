#pragma once
// Private to goldens/: the matrix that a spec's "input" names, read sequentially.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "goldens/io/row_reader.h"
#include "goldens/make/suite.h"

namespace mxcheck {

struct InputRows {
  Format dtype = Format::bf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string source;  // for people: "layer0.w1, rows 0 to 70"
  std::unique_ptr<RowReader> reader;
};

InputRows open_input(const InputSpec& input, const std::string& directory);

// The whole of it; Error{usage} with `key` for another type than those named.
struct InputWords {
  std::vector<std::uint16_t> words;
  std::int64_t rows = 0, cols = 0;
  std::string source;
};
InputWords read_bf16(const InputSpec& input, const std::string& directory, const std::string& key);

struct InputFloats {
  std::vector<float> values;  // of BF16 or FP32
  std::int64_t rows = 0, cols = 0;
  std::string source;
};
InputFloats read_floats(const InputSpec& input, const std::string& directory, const std::string& key);

}  // namespace mxcheck
