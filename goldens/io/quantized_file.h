#pragma once
// A quantized matrix as a safetensors file that explains itself.
//
//   codes   U8 [rows, cols], or U16 for e5m6
//   scales  compact   U8 [scale rows, scale cols], or F32 for rules with FP32 scales
//           tcgen05   U8, flat: 128 x 4 tiles, of the transpose for column blocks, each expert padded on its own
//           deepgemm  U32, flat: packed words, likewise
//   __metadata__  mxcheck_file = "quantized", file_version = "1", format, block, layout, pad_byte, rows, cols,
//                 scale_rows, scale_cols, offsets, source_dtype, and every field of the recipe
//                 (numerics/scale/recipe_words.h)
//
// The same matrix and options give the same bytes: no time, no path, no version of the tool.

#include <cstdint>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

struct QuantizedFile {
  Quantized matrix;
  std::vector<std::int64_t> offsets;
  ScaleLayout layout = ScaleLayout::compact;
  std::uint8_t pad_byte = 0;
};

// A format that matrices are quantized to; Error{usage} that lists them for any other name.
Format element_format_named(const std::string& name);

// Error{usage} for layouts that cannot hold these scales: two-dimensional blocks, FP32 scales, E5M6.
void check_layout(ScaleLayout layout, Format element, BlockShape block, ScaleRule rule);

SafetensorsFile to_safetensors(const QuantizedFile& file, const Recipe& recipe, Format source);

// To FILE.safetensors, or to FILE.h5: the same tensors as datasets /codes and /scales (FP32 scales as their bits in
// uint32), the same metadata as attributes of the root group.
void write_quantized(const std::string& path, const SafetensorsFile& file);

// Error{input} for anything that a file written by to_safetensors would not hold; path is for messages.
QuantizedFile from_safetensors(SafetensorsFile file, const std::string& path);

}  // namespace mxcheck
