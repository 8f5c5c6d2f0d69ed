#pragma once
// A quantized matrix as a safetensors file with self-describing metadata: what mxcheck quantize writes and dequantize
// reads.
//
//   const QuantizedFile q = from_safetensors(read_safetensors("q.safetensors"), "q.safetensors");
//   const std::vector<float> values = dequantize(q.matrix, q.offsets);
//
//   QuantizedFile mine{quantize(x, Format::e4m3, {1, 32}, recipe), {}, ScaleLayout::tcgen05, 0};
//   write_quantized("mine.safetensors", to_safetensors(mine, recipe, x.dtype));
//
//   codes   U8 [rows, cols], or U16 for e5m6
//   scales  compact   U8 [scale rows, scale cols] of E8M0 or E4M3, or F32 for rules with FP32 scales
//           tcgen05   U8, flat: 128 x 4 tiles, of the transpose for column blocks, each expert padded separately
//           deepgemm  U32, flat: packed words, likewise
//   tensor_scale  two levels: F32 [1, 1], or [rows, 1] where each row has one
//   __metadata__  mxcheck_file = "quantized", file_version = "1", format, block, layout, pad_byte, rows, cols,
//                 scale_rows, scale_cols, offsets, source_dtype, and every field of the recipe
//                 (numerics/scale/recipe_words.h); two levels: tensor_scale_of, "tensor" or "row"; made_with
//
// The same matrix and options give the same bytes: no time, no path, no version of the tool. Errors besides those
// stated below: those of write_safetensors, GoldenWriter and check_offsets.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

// Error{usage} for a path that is no OUT.safetensors of mxcheck quantize, by its name: OUT.h5, a .npy, one of the
// file's tensors. `command`: who takes it.
void check_quantized_path(const std::string& path, const std::string& command);

struct QuantizedFile {
  QuantizedTensor matrix;                     // scales always compact in memory
  std::vector<std::int64_t> offsets;          // expert offsets that the matrix was quantized with; empty: none
  ScaleLayout layout = ScaleLayout::compact;  // of the scales in the file
  std::uint8_t pad_byte = 0;                  // what the padding of tcgen05 and deepgemm holds
  // Further metadata, by key: what was done to the matrix before, as a Hadamard transform. Reading leaves it out.
  std::vector<std::pair<std::string, std::string>> made_with = {};
};

// A format that matrices are quantized to; Error{usage} that lists them for any other name.
Format element_format_named(const std::string& name);

// Error{usage} for layouts that cannot hold these scales: two-dimensional blocks, FP32 scales, E5M6.
void check_layout(ScaleLayout layout, Format element, BlockShape block, ScaleRule rule);

// recipe and source, the dtype that was quantized, are recorded; the file's scales are laid out by file.layout.
SafetensorsFile to_safetensors(const QuantizedFile& file, const Recipe& recipe, Format source);

// To FILE.safetensors, or to FILE.h5: the same tensors as datasets /codes and /scales (FP32 scales as their bits in
// uint32), the same metadata as attributes of the root group.
void write_quantized(const std::string& path, const SafetensorsFile& file,
                     const std::function<void()>& before_it_appears = {});

// Error{input} for anything that to_safetensors would not write; path is for messages.
QuantizedFile from_safetensors(const SafetensorsFile& file, const std::string& path);

}  // namespace mxcheck
