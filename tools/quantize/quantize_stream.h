#pragma once
// A matrix quantized while it is read and written, panel by panel: memory does not grow with it, its scales apart.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "goldens/format/quantized_stream.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/ms_eden.h"
#include "reference/quantize/word_order.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"

namespace mxcheck {

// The words of a published kernel, in place of those of an element's number.
struct OrderedWords {
  NamedWords named;
  std::uint64_t first = 0;  // call
  WordBytes bytes = WordBytes::instruction;
};

struct QuantizeRequest {
  Format element = Format::e4m3;
  BlockShape block{1, 32};
  Recipe recipe;
  std::vector<std::int64_t> offsets;
  ScaleLayout layout = ScaleLayout::compact;
  std::uint8_t pad_byte = 0;
  // For the recipes that take them (QuantizeExtras).
  bool outer_of_rows = false;
  std::vector<float> outer;
  std::optional<std::uint64_t> seed;  // of the random words
  bool has_bytes = false;             // stochastic rounding by bytes
  std::optional<OrderedWords> words;  // likewise, of a kernel
  std::optional<MsEden> ms_eden;      // in place of the recipe, which then is what the file's metadata says
  std::optional<Hadamard> hadamard;   // of the matrix, along its rows, before all else
};

// Two levels of scales: the matrix and its codes are held whole, since the outer scale comes first. So they are with a
// seed, and for a transform.
//
// Reads the matrix from its first row, and writes the file that write_quantized would write, by a PanelQuantizer.
// before_it_appears is given the file but for its codes and scales; nothing is written when it throws.
// Errors: those of reading and writing, and of PanelQuantizer. Nothing is written then.
void quantize_stream(MatrixPanels& matrix, const QuantizeRequest& request, const std::string& output,
                     Progress& progress, const std::function<void(const QuantizedFile&)>& before_it_appears = {});

// A quantized file's values written while its codes are read, panel by panel: memory does not grow with the matrix, its
// scales apart.

// Values of this type (fp32 or bf16) to FILE.npy, or as the tensor `values` of FILE.safetensors: what dequantize() or
// dequantize_bf16() give. Where the SIMD library offers the format it computes, and the reference checks one row of
// blocks in 64. Errors: those of reading, writing and dequantize(); Error{internal} where library and reference differ.
// Nothing is written when before_it_appears throws.
void dequantize_stream(QuantizedReader& reader, Format values, const std::string& output, Progress& progress,
                       const std::function<void()>& before_it_appears = {});

}  // namespace mxcheck
