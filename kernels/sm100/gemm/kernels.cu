// The GEMM kernels for sm_100a: one entry for each tile and grouping. No library has them yet, as no card was there to
// run them; tests/kernels/sm100/gemm/kernels_test.py assembles them and compares what they are made of with a table.
#include "kernels/sm100/gemm/kernel.h"
#include "kernels/sm100/gemm/tile.h"

namespace mxcheck::sm100::gemm {

#define MXCHECK_SM100_GEMM(TILE, GROUPING)                         \
  extern "C" __global__ void __launch_bounds__(kThreads, 1)        \
      gemm_##TILE##_##GROUPING(const __grid_constant__ Params p) { \
    gemm<TILE, Grouping::GROUPING>(p);                             \
  }
#define MXCHECK_SM100_GEMMS(TILE, OPERANDS, CTAS, COLUMNS, STAGES) \
  MXCHECK_SM100_GEMM(TILE, dense)                                  \
  MXCHECK_SM100_GEMM(TILE, rows)                                   \
  MXCHECK_SM100_GEMM(TILE, depth)

// A short test has four kernels: each kind of operands once, pairs and single CTAs, each grouping.
#ifdef MXCHECK_SM100_FEW
MXCHECK_SM100_GEMM(Single192, rows)
MXCHECK_SM100_GEMM(HalfPair256, depth)
MXCHECK_SM100_GEMM(PromotedSingle128, dense)
MXCHECK_SM100_GEMM(Nvfp4Single128, rows)
#else
MXCHECK_SM100_TILES(MXCHECK_SM100_GEMMS)
#endif

}  // namespace mxcheck::sm100::gemm
