#pragma once
// Goldens of NVFP4: the kinds quantize_nvfp4 and dequantize_nvfp4 of properties/goldens/suite.h. Both are made in
// memory, whole.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/goldens/input.h"
#include "properties/goldens/kind.h"
#include "reference/common/matrix.h"
#include "reference/quantize/word_order.h"

namespace mxcheck {

// Codes that are rounded stochastically by the words of a kernel (reference/quantize/word_order.h).
struct WordsOfGolden {
  NamedWords named;
  WordSeed seed;
};

struct QuantizeNvfp4Golden {
  InputSpec input;
  BlockShape block;
  std::string recipe;
  std::optional<float> tensor_scale;  // as the recipe stores it; none: of the matrix's own amax
  std::vector<std::int64_t> offsets;
  bool tcgen05 = false;
  std::uint8_t pad_byte = 0;
  std::optional<WordsOfGolden> words;
};
struct DequantizeNvfp4Golden {
  std::string recipe;
  float tensor_scale = 1;
};

std::vector<const GoldenKind*> nvfp4_golden_kinds();

}  // namespace mxcheck
