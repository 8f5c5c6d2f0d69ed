#pragma once
// Common parts of tests of verdicts on goldens: goldens, candidates that quantize their x in a way of their own, and
// the parts of a verdict.
//
//   const GoldenVerdict v = judged(gradients(), quantized_by(gradients(), {floored, nearest}));
//   first_cause(result_of(v, "scales"))    // "every scale is that of recipe floor ..."

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck::golden_parts {

using ByteList = std::vector<std::uint8_t>;
using Tensors = std::map<std::string, Tensor>;

// One golden of a suite, as text whose name is "g".
GoldenTensors made(const std::string& golden);

// The text of a golden of E4M3.
std::string quantize_of(const std::string& input, const std::string& block = "1x32",
                        const std::string& recipe = "rceil", const std::string& more = "");

// Real gradients with an infinity, a NaN, a block of zeros and small and large blocks.
const GoldenTensors& gradients();
const GoldenTensors& activations();

ByteList bytes_of(const Tensor& t);
void put(Tensor& t, const ByteList& bytes);

GoldenVerdict judged(const GoldenTensors& golden, const Tensors& candidate, const std::vector<std::string>& only = {});
// Throws Error{internal} where there is none.
const DatasetResult& result_of(const GoldenVerdict& verdict, const std::string& name);
std::string first_cause(const DatasetResult& r);  // "(none)" without

// Written again from x here, without the reference: block after block of 32 elements of a row.
struct Mine {
  std::function<int(double amax)> scale_byte;
  std::function<std::uint32_t(double scaled)> cast;
};
Tensors quantized_by(const GoldenTensors& golden, const Mine& mine);

int rceil(double amax);
int floored(double amax);
std::uint32_t nearest(double v);
std::uint32_t ties_away(double v);

}  // namespace mxcheck::golden_parts
