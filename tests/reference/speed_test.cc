// The bar of the reference: 64 M elements a minute, for every block shape, element and kind of scale. Held in optimised
// builds only; the figures are printed and recorded, they stand around fifty times above it.

#include <ctime>

#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

#if defined(NDEBUG) && defined(__OPTIMIZE__)
constexpr bool kOptimised = !kSanitized;
#else
constexpr bool kOptimised = false;
#endif

constexpr double kElementsPerSecond = 64e6 / 60;

template <class Work>
double rate(std::int64_t elements, Work work) {
  const std::clock_t start = std::clock();  // of the process, which has one thread: other work does not count
  work();
  return static_cast<double>(elements) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - start + 1);
}

TEST(Speed, of_quantize_and_dequantize_is_64_M_elements_a_minute_and_thread) {
  if (!kOptimised) GTEST_SKIP() << "not an optimised build";
  const std::int64_t side = 512;
  const TestMatrix m(Format::bf16, side, side, random_values(side * side, 29));
  for (const Format element : {Format::e4m3, Format::e5m2, Format::e2m1, Format::e5m6}) {
    for (const auto& [name, block] : kAskedBlockShapes) {
      for (const std::string recipe : {"rceil", "fp32"}) {
        QuantizedTensor q;
        const double forth =
            rate(side * side, [&, b = block] { q = quantize(m.view(), element, b, recipe_named(recipe), {}, 1); });
        const double back = rate(side * side, [&] { dequantize_bf16(q, {}, 1); });
        std::cout << spec(element).name << " " << name << " " << recipe << ": quantize " << forth / 1e6
                  << " M/s, dequantize " << back / 1e6 << " M/s\n";
        EXPECT_GE(forth, kElementsPerSecond) << spec(element).name << " " << name << " " << recipe;
        EXPECT_GE(back, kElementsPerSecond) << spec(element).name << " " << name << " " << recipe;
      }
    }
  }
}

}  // namespace
}  // namespace mxcheck
