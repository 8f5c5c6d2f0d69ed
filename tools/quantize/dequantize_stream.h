#pragma once
// A quantized file's values written while its codes are read, panel by panel: memory does not grow with the matrix, its
// scales apart.

#include <functional>
#include <string>

#include "goldens/format/quantized_stream.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"

namespace mxcheck {

// Values of this type (fp32 or bf16) to FILE.npy, or as the tensor `values` of FILE.safetensors: what dequantize() or
// dequantize_bf16() give. Where the SIMD library offers the format it computes, and the reference checks one row of
// blocks in 64. Errors: those of reading, writing and dequantize(); Error{internal} where library and reference differ.
// Nothing is written when before_it_appears throws.
void dequantize_stream(QuantizedReader& reader, Format values, const std::string& output, Progress& progress,
                       const std::function<void()>& before_it_appears = {});

}  // namespace mxcheck
