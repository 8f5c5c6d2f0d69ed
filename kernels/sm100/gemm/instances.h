#pragma once
// The tiles that there are kernels for. Stages: as many as 232,448 bytes of shared memory hold, and 512 columns their
// scales.

#include "kernels/sm100/gemm/tile.h"

namespace mxcheck::sm100::gemm {

using Single64 = Tile<1, 64, 8>;
using Single128 = Tile<1, 128, 6>;
using Single192 = Tile<1, 192, 5>;
using Single256 = Tile<1, 256, 4>;
using Pair128 = Tile<2, 128, 8>;
using Pair192 = Tile<2, 192, 7>;
using Pair256 = Tile<2, 256, 6>;

using HalfSingle128 = BasicTile<Operands::half, 1, 128, 6>;
using HalfPair256 = BasicTile<Operands::half, 2, 256, 6>;
using PromotedSingle128 = BasicTile<Operands::promoted, 1, 128, 6>;
using PromotedPair128 = BasicTile<Operands::promoted, 2, 128, 8>;

// Calls f<T>() for that tile; false where there is none.
template <class F>
bool with_tile(Operands operands, int cta_group, int n, const F& f) {
  if (operands == Operands::half) {
    if (cta_group == 1 && n == 128) return f.template operator()<HalfSingle128>(), true;
    if (cta_group == 2 && n == 256) return f.template operator()<HalfPair256>(), true;
    return false;
  }
  if (operands == Operands::promoted) {
    if (cta_group == 1 && n == 128) return f.template operator()<PromotedSingle128>(), true;
    if (cta_group == 2 && n == 128) return f.template operator()<PromotedPair128>(), true;
    return false;
  }
  if (cta_group == 1 && n == 64) return f.template operator()<Single64>(), true;
  if (cta_group == 1 && n == 128) return f.template operator()<Single128>(), true;
  if (cta_group == 1 && n == 192) return f.template operator()<Single192>(), true;
  if (cta_group == 1 && n == 256) return f.template operator()<Single256>(), true;
  if (cta_group == 2 && n == 128) return f.template operator()<Pair128>(), true;
  if (cta_group == 2 && n == 192) return f.template operator()<Pair192>(), true;
  if (cta_group == 2 && n == 256) return f.template operator()<Pair256>(), true;
  return false;
}

}  // namespace mxcheck::sm100::gemm
