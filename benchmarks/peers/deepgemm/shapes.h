#pragma once
// The GEMMs that DeepGEMM's kernels are compiled for, those of mxcheck_sm90_gemm_bench: n and k are template arguments
// of them, as DeepGEMM itself has it. Another shape needs a line here.

#include <array>

#include "benchmarks/peers/deepgemm/configuration.h"

namespace mxcheck_peers::deepgemm {

constexpr std::array kDenseShapes{
    Shape{Kind::dense, 4096, 4096, 7168},  Shape{Kind::dense, 4096, 7168, 16384}, Shape{Kind::dense, 8192, 4096, 7168},
    Shape{Kind::dense, 32768, 7168, 2048}, Shape{Kind::dense, 4096, 2048, 7168},  Shape{Kind::dense, 32768, 4096, 7168},
    Shape{Kind::dense, 32768, 4096, 2048}, Shape{Kind::dense, 1, 4096, 7168},     Shape{Kind::dense, 16, 4096, 7168},
    Shape{Kind::dense, 64, 4096, 7168},    Shape{Kind::dense, 128, 4096, 7168},   Shape{Kind::dense, 256, 4096, 7168},
    Shape{Kind::dense, 256, 7168, 2048},   Shape{Kind::dense, 256, 384, 512},     Shape{Kind::dense, 128, 256, 1024},
};

constexpr std::array kRowsShapes{
    Shape{Kind::rows, 32768, 4096, 7168, 8},
    Shape{Kind::rows, 32768, 7168, 2048, 8},
    Shape{Kind::rows, 32768, 4096, 2048, 64},
    Shape{Kind::rows, 1024, 384, 512, 8},
};

constexpr std::array kMaskedShapes{
    Shape{Kind::masked, 1024, 4096, 7168, 16, 32},
    Shape{Kind::masked, 1024, 4096, 7168, 16, 96},
    Shape{Kind::masked, 1024, 4096, 7168, 16, 160},
    Shape{Kind::masked, 128, 384, 512, 8, 40},
};

constexpr std::array kSumShapes{
    Shape{Kind::sum, 4096, 4096, 7168},
    Shape{Kind::sum, 4096, 7168, 16384},
    Shape{Kind::sum, 256, 384, 512},
};

constexpr std::array kDepthShapes{
    Shape{Kind::depth, 4096, 7168, 16384, 4}, Shape{Kind::depth, 4096, 7168, 32768, 4},
    Shape{Kind::depth, 4096, 7168, 32768, 8}, Shape{Kind::depth, 7168, 2048, 32768, 8},
    Shape{Kind::depth, 256, 384, 2048, 4},
};

}  // namespace mxcheck_peers::deepgemm
