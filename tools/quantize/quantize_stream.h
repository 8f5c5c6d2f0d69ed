#pragma once
// A matrix quantized while it is read and written, panel by panel: memory does not grow with it, its scales apart.

#include <string>

#include "goldens/format/quantized_stream.h"
#include "goldens/io/row_reader.h"
#include "numerics/scale/recipe.h"
#include "tools/common/matrix_input.h"
#include "tools/common/progress.h"

namespace mxcheck {

struct QuantizeRequest {
  MatrixHead matrix;
  Format element = Format::e4m3;
  BlockShape block{1, 32};
  Recipe recipe;
  std::vector<std::int64_t> offsets;
  ScaleLayout layout = ScaleLayout::compact;
  std::uint8_t pad_byte = 0;
};

// Reads the matrix from the start of the tensor that `rows` is of, and writes the file that write_quantized would
// write. Where the SIMD library offers the recipe it computes, and the reference checks one row of blocks in 64;
// elsewhere the reference computes. Returns the file but for its codes and scales. Errors: those of reading and
// writing, and of quantize(); Error{internal} where library and reference differ. Nothing is written then.
QuantizedFile quantize_stream(RowReader& rows, const QuantizeRequest& request, const std::string& output,
                              Progress& progress);

}  // namespace mxcheck
