#pragma once
// The inputs of black boxes that cast and quantize: values at which roundings differ, amax values at which rules of
// scales do, special values. The same on every run.
//
// Errors: Error{usage} for types that no box reads.

#include <string>
#include <utility>
#include <vector>

#include "properties/identify/blocks.h"

namespace mxcheck {

// Every code's value, every middle between two and the values beside it, and special ones; rounded to `type`.
std::vector<float> cast_probe(Format format, Format type);
// Where published rules of scales differ; positive, but for NaN.
std::vector<float> amax_probe(Format format, Format type);
std::vector<std::pair<std::string, QuantizeCall>> quantize_probes(Format format, BlockShape block, Format type);

}  // namespace mxcheck
