#pragma once
// The fields of the operations on blocks that share a scale: quantize, quantize_dual, dequantize, scale_layout, cast.
//
//   op=quantize format=e4m3 recipe=rceil block=1x32 layout=tcgen05 x=bf16 ... pad=255

#include <cstdint>
#include <string>

#include "numerics/format/format.h"
#include "properties/core/case.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct ScaledBlocksVariant {
  Format format = Format::e4m3;  // of the elements
  std::string recipe = "rceil";
  BlockShape block;
  int layout = 0;  // mxcheck_layout
  friend bool operator==(const ScaledBlocksVariant&, const ScaledBlocksVariant&) = default;
};
struct ScaledBlocksCase {
  std::uint8_t pad = 0;            // what padding of tiled scales holds
  std::uint32_t tensor_scale = 0;  // two levels: the bits of the outer scale as it is stored; 0: by seed and matrix
  friend bool operator==(const ScaledBlocksCase&, const ScaledBlocksCase&) = default;
};

inline const ScaledBlocksVariant& blocks_of(const Variant& v) { return v.own.get<ScaledBlocksVariant>(); }
inline ScaledBlocksVariant& blocks_of(Variant& v) { return v.own.edit<ScaledBlocksVariant>(); }
inline const ScaledBlocksCase& blocks_case(const Case& c) { return c.own.get<ScaledBlocksCase>(); }
inline ScaledBlocksCase& blocks_case(Case& c) { return c.own.edit<ScaledBlocksCase>(); }

}  // namespace mxcheck
