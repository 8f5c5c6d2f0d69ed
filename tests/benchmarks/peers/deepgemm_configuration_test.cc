#include "benchmarks/peers/deepgemm/configuration.h"

#include "benchmarks/peers/deepgemm/shapes.h"
#include "tests/testing.h"

namespace mxcheck_peers::deepgemm {
namespace {

// Choices of DeepGEMM's own get_best_config<SM90ArchSpec> (54e2261) for these shapes on 132 processors, compiled with
// torch's types replaced. It agreed with 20,000 random shapes of every kind, too.
struct Chosen {
  Shape shape;
  int block_m, block_n, cluster_m, cluster_n, stages, shared_bytes, swizzle;
};
constexpr std::array kChosen{
    Chosen{{Kind::dense, 4096, 4096, 7168}, 256, 128, 1, 2, 3, 216544, 128},
    Chosen{{Kind::dense, 32768, 7168, 2048}, 256, 128, 1, 2, 3, 216384, 128},
    Chosen{{Kind::dense, 16, 4096, 7168}, 16, 32, 1, 1, 16, 101856, 64},
    Chosen{{Kind::dense, 64, 4096, 7168}, 64, 32, 1, 1, 16, 205280, 64},
    Chosen{{Kind::dense, 128, 4096, 7168}, 64, 64, 1, 1, 13, 224992, 128},
    Chosen{{Kind::dense, 256, 4096, 7168}, 64, 128, 1, 1, 8, 215520, 128},
    Chosen{{Kind::dense, 256, 7168, 2048}, 128, 112, 1, 1, 6, 216448, 32},
    Chosen{{Kind::rows, 32768, 4096, 7168, 8}, 128, 192, 2, 1, 4, 215744, 128},
    Chosen{{Kind::rows, 32768, 4096, 2048, 64}, 128, 192, 2, 1, 4, 215424, 128},
    Chosen{{Kind::masked, 1024, 4096, 7168, 16, 32}, 64, 128, 2, 1, 8, 215520, 128},
    Chosen{{Kind::masked, 1024, 4096, 7168, 16, 160}, 128, 192, 2, 1, 4, 215744, 128},
    Chosen{{Kind::sum, 4096, 4096, 7168}, 128, 152, 2, 1, 4, 226048, 0},
    Chosen{{Kind::depth, 4096, 7168, 32768, 4}, 128, 152, 2, 1, 4, 226560, 0},
    Chosen{{Kind::depth, 4096, 7168, 32768, 8}, 128, 152, 1, 1, 4, 226560, 0},
    Chosen{{Kind::depth, 256, 384, 2048, 4}, 64, 24, 1, 2, 16, 193280, 0},
};

TEST(DeepGemmConfiguration, is_what_deepgemm_itself_chooses) {
  for (const Chosen& e : kChosen) {
    const Configuration c = configuration_of(e.shape);
    EXPECT_EQ(std::tuple(c.block_m, c.block_n, c.cluster_m, c.cluster_n, c.stages, c.shared_bytes,
                         output_swizzle(e.shape.kind, c.block_n)),
              std::tuple(e.block_m, e.block_n, e.cluster_m, e.cluster_n, e.stages, e.shared_bytes, e.swizzle))
        << static_cast<int>(e.shape.kind) << " " << e.shape.m << "x" << e.shape.n << "x" << e.shape.k;
  }
}

TEST(DeepGemmConfiguration, exists_for_every_shape_that_is_compiled) {
  const auto check = [](const auto& shapes) {
    for (const Shape& s : shapes) {
      const Configuration c = configuration_of(s);
      EXPECT_GE(c.stages, 3) << s.m << "x" << s.n << "x" << s.k;
      EXPECT_LE(c.shared_bytes, 232448) << s.m << "x" << s.n << "x" << s.k;
      EXPECT_EQ(std::ranges::count(shapes, s), 1) << s.m << "x" << s.n << "x" << s.k;
    }
  };
  check(kDenseShapes), check(kRowsShapes), check(kMaskedShapes), check(kSumShapes), check(kDepthShapes);
}

}  // namespace
}  // namespace mxcheck_peers::deepgemm
