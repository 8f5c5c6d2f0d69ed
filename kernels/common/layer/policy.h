#pragma once
// Parses the policies of kernels/candidate_layer.h; throws Refusal: INVALID for a policy that is wrong, UNSUPPORTED for
// what the in-tree libraries do not offer.

#include <cstdint>

#include "kernels/candidate_layer.h"
#include "kernels/common/dtype.h"

namespace mxcheck_kernels {

// The rule that makes a scale of a block's largest magnitude (amax).
enum class CodeScale : std::uint8_t {
  rceil,  // E8M0, ceil(log2(amax / largest value))
  floor,  // E8M0, floor(log2 amax) - largest exponent
  fp32,   // RN(amax / largest value), 1 where that is 0; elements RN(x / scale)
};

// How values become codes: blocks of 1 x block, or of block x 1.
struct Coding {
  Element element = Element::e4m3;
  CodeScale scale = CodeScale::rceil;
  int block = 32;
};

constexpr DLDataType scale_type(CodeScale scale) { return scale == CodeScale::fp32 ? kFp32Type : kByteType; }

struct SwigluPlan {
  bool backward = false;
  bool interleaved = false;
  bool coded_h = false;  // h is codes of h_element with E8M0 scales of blocks 1 x 32
  Element h_element = Element::e4m3;
  bool values = false, rows = false, columns = false;  // what is written
  Coding coding;                                       // of rows and columns
  Element scaled = Element::e4m3;                      // of scaled_a's codes
};

// `wide`: the type of h's values, kByteType for codes.
SwigluPlan read_swiglu_policy(bool backward, const mxcheck_policy* policy, DLDataType wide);

// True if rows are weighted.
bool read_aggregate_policy(const mxcheck_policy* policy, DLDataType wide);

struct TransposePlan {
  Coding coding;
  Dtype dtype = Dtype::bf16;  // of x
};
TransposePlan read_transpose_policy(const mxcheck_policy* policy, DLDataType wide);

}  // namespace mxcheck_kernels
