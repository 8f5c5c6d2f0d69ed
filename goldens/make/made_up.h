#pragma once
// Private to goldens/: tensors from a few numbers of the spec (InputSpec::cycle, InputSpec::normal). The same on every
// machine: integers added up, and one rounding.

#include "goldens/io/tensor_file.h"
#include "goldens/make/suite.h"

namespace mxcheck {

// The bits over and over, row after row. Cycles of lengths without a common divisor meet in every pair.
Tensor repeated_bits(const InputSpec& input);

// Twelve uniform numbers added up, less their mean, times 2^exponent, rounded to the nearest: within six standard
// deviations, which are 2^exponent.
Tensor normal_numbers(const InputSpec& input);

}  // namespace mxcheck
