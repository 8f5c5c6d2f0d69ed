#pragma once
// Parses a policy of quantize_nvfp4; throws Refusal for anything that the library does not offer.

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/candidate.h"

namespace mxcheck_kernels {

// How a block's scale and its codes follow from the tensor's scale. All recipes have L = 448 but four_six, which has
// 256; vmax is 6, S the number by which elements are multiplied, and s the one by which products are.
enum class Nvfp4Recipe : std::uint8_t {
  exact,     // "nvfp4": a / (6 s) and x / (b s) as if exact; stored is s
  te,        // "nvfp4_te": a * (S * (1/6)), x * (1 / (b s)), S = 2688 / stored
  te_2_8,    // "nvfp4_te_2_8": (a / 6) * S, otherwise as te
  vllm,      // "nvfp4_vllm": (a * (1/6)) * S, x * (1 / (b s)), stored is S
  four_six,  // "nvfp4_46": (a / 6) * S, and 1.5 times as much; S = 1536 / stored
};

enum class Nvfp4Values : std::uint8_t { bf16, fp32, fp16 };

struct Nvfp4Policy {
  Nvfp4Recipe recipe = Nvfp4Recipe::exact;
  Nvfp4Values values = Nvfp4Values::bf16;
  int block_rows = 1;  // 1 or 16; all blocks have 16 columns
  bool tiled = false;  // MXCHECK_TCGEN05
};

struct OfferedNvfp4Recipe {
  std::string_view name;
  Nvfp4Recipe recipe;
};

// Throws Refusal: INVALID for a policy that cannot be read, UNSUPPORTED for what is not offered.
Nvfp4Policy read_nvfp4_policy(const mxcheck_policy* policy, DLDataType type,
                              std::span<const OfferedNvfp4Recipe> recipes, bool fp16_offered);

DLDataType dl_type(Nvfp4Values values);

}  // namespace mxcheck_kernels
