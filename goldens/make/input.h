#pragma once
// Private to goldens/: the matrix that a spec's "input" names, read sequentially.

#include <memory>
#include <string>

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

}  // namespace mxcheck
