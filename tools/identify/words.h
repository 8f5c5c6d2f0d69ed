#pragma once
// A file's tensor as words, one an element; as numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "numerics/format/format.h"

namespace mxcheck {

std::vector<std::uint32_t> words_of(const Tensor& tensor);

// The values of a tensor of F32, BF16 or F16, and its type. Error{input} for others.
std::vector<float> values_of(const Tensor& tensor, const std::string& location, Format& type);

}  // namespace mxcheck
