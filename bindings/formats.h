#pragma once
// Formats by the names that callers have for them: "e4m3", or as PyTorch and ml_dtypes have it, "float8_e4m3fn".

#include <string_view>

#include "numerics/format/format.h"
#include "reference/common/matrix.h"

namespace mxcheck::c {

Format format_of(std::string_view name);        // Error{usage} lists all
Format value_format_of(std::string_view name);  // fp32, bf16 or fp16
Format element_of(std::string_view name);       // what blocks are quantized to
BlockShape block_of(std::string_view text);     // a name, or ROWSxCOLS of 1 or more each

}  // namespace mxcheck::c
