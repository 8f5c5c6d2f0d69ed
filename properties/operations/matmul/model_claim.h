#pragma once
// The GEMMs that the GPU model (properties/gpu_model/gpu_model.h) can compute, so that it has the reference's bits:
//
//   sm90_fp8, sm90_bf16, sm90_fp16, sm90_tf32   with or without +promoteN; scales with +promoteN alone, blocks of 1 row
//                                               of a, 1 or 128 of b, that promotion divides
//   sm90_bf16+decode                            E4M3 with E8M0 scales of 1 x 32
//   +from_c                                     where there is no C
//
// C in FP32 alone, D in FP32 or BF16; groups along depth that start where blocks and intervals do. Of anything else (an
// order of scales or intervals, another sum) nothing is known.

#include <optional>

#include "properties/core/call.h"
#include "properties/core/case.h"

namespace mxcheck {

// The model's arguments for the case; nothing where it cannot compute it.
std::optional<DeviceModel> model_of(const Case& c);

// Whether there are cases of the variant for which it can.
bool model_knows(const Variant& v);

}  // namespace mxcheck
