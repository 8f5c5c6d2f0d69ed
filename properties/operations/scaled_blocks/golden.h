#pragma once
// Goldens about blocks that share a scale: the kinds formats, casts, scales, layout, dequantize and quantize of
// properties/goldens/suite.h.

#include <cstdint>
#include <string>
#include <vector>

#include "numerics/format/format.h"
#include "properties/goldens/input.h"
#include "properties/goldens/kind.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct FormatsGolden {
  std::vector<Format> formats;
};
struct FormatGolden {  // casts, scales, dequantize
  Format format = Format::e4m3;
};
struct LayoutGolden {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::uint8_t pad_byte = 0;
};
struct QuantizeGolden {
  InputSpec input;
  Format format = Format::e4m3;
  BlockShape block;
  std::string recipe = "rceil";
  std::vector<std::int64_t> offsets;
  bool tcgen05 = false, deepgemm = false, values = false;
  std::uint8_t pad_byte = 0;
};

std::vector<const GoldenKind*> blocks_golden_kinds();
const GoldenKind& quantize_golden_kind();

// "pad_byte" of a spec; 0 where it is absent.
std::uint8_t parse_pad_byte(JsonObject& o);

// Every finite value of the format, every midpoint between neighbours, and the midpoint and the value that would follow
// the largest; each with the floats one ulp below and above; both signs. Then specials.
std::vector<std::uint32_t> cast_boundaries(Format format);

// For every binade: the format's largest value times 2^k and the power of two 2^k, -1, 0, +1 ulp; then the list that
// distinguishes every two of the field's rules (docs/goldens.md), zeros, Inf and NaN.
std::vector<std::uint32_t> amax_boundaries(Format element);

}  // namespace mxcheck
