#pragma once
// Private to goldens/format/: what quantized files consist of, for those written and read whole (quantized_file.h) and
// those in pieces (quantized_stream.h).

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "goldens/format/described_file.h"
#include "goldens/format/quantized_file.h"

namespace mxcheck {

std::map<std::string, std::string> metadata_of(const QuantizedFile& file, const Recipe& recipe, Format source);

// The tensors codes and scales, and tensor_scale of two levels, of a file whose matrix has a shape and need have
// nothing else yet.
std::vector<NamedHead> tensors_of(const QuantizedFile& file);
FormatOf format_of(Format element, Format scale);

// The bytes of the tensor scales, laid out.
std::vector<std::byte> scale_bytes(const QuantizedFile& file);

// The metadata of a file from outside, parsed: shapes and formats of codes and scales, which are empty yet.
// Error{input} where it contradicts itself, or the tensors are not those that it describes; path is for messages.
QuantizedFile parse_quantized(const std::map<std::string, std::string>& metadata, std::span<const NamedHead> tensors,
                              const std::string& path);
void set_scales(QuantizedFile& file, std::span<const std::byte> bytes);  // of the tensor scales

}  // namespace mxcheck
