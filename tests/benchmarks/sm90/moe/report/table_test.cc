#include "benchmarks/sm90/moe/report/table.h"

#include <gtest/gtest.h>

#include "tests/benchmarks/sm90/moe/report/sample.h"

namespace mxcheck::bench {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MoeTable, has_a_line_for_each_pass) {
  const std::string text = passes_text(sample_results().shapes[0]);
  EXPECT_TRUE(
      holds(text, "T=32768 d=4096 n=1024 E=128 K=8, uniform routes (the busiest expert has 1.10 of the mean)\n"))
      << text;
  EXPECT_TRUE(holds(text, "router: 50.0 us")) << text;
  EXPECT_TRUE(
      holds(text,
            "mxfp8              forward     16000.0   15900.0-16100.0     412.3    1.250   16050.0        0.751  "
            "    5.6%\n"))
      << text;
}

TEST(MoeTable, says_where_the_router_was_not_measured) {
  ShapeResult r = sample_results().shapes[0];
  r.router.reset();
  EXPECT_TRUE(holds(passes_text(r), "router: not measured"));
}

TEST(MoeTable, has_a_line_for_each_step) {
  const MoeResults r = sample_results();
  const std::string text = steps_text(r.shapes[0], r.copy_bytes_per_second);
  EXPECT_TRUE(holds(
      text, "up                                 gemm           6000.0   85.7%    6.000    1.00   733.0     0.741\n"))
      << text;
  EXPECT_TRUE(holds(
      text, "<aggregate>                        elementwise     600.0    8.6%    2.400    4.00       -     1.000\n"))
      << text;
  EXPECT_TRUE(
      holds(text, "   7000.0   the call: 16000.0   check 0.1%   quantize 5.6%   gemm 85.7%   elementwise 8.6%\n"))
      << text;
}

TEST(MoeTable, compares_what_is_kept_with_sonic_moe) {
  ShapeResult r = sample_results().shapes[0];
  r.recipes[1].kept_bytes = std::uint64_t{1} << 30;
  r.recipes[1].passes[1].tensor_bytes = std::uint64_t{3} << 30;
  r.recipes[1].passes[1].workspace_bytes = std::uint64_t{1} << 29;
  const std::string text = memory_text(r);
  EXPECT_TRUE(holds(text, "gives 1.250.")) << text;
  EXPECT_TRUE(holds(text, "mxfp8                 1.000        0.800")) << text;
  EXPECT_TRUE(holds(text, "     3.000      0.500      3.500\n")) << text;
}

}  // namespace
}  // namespace mxcheck::bench
