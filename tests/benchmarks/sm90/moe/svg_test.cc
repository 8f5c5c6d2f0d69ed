#include "benchmarks/sm90/moe/svg.h"

#include <gtest/gtest.h>

#include "tests/benchmarks/sm90/moe/sample.h"

namespace mxcheck::bench {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(MoeSvg, has_a_bar_for_each_step_and_kind) {
  const std::string svg = time_line_svg(sample_results());
  // Steps of two passes of two recipes, the legend, and the ground.
  EXPECT_EQ(count_of(svg, "<rect "), 2U * 2 * 4 + 4 + 1);
  EXPECT_EQ(count_of(svg, "bf16 forward: 20.00 ms"), 1U);
  EXPECT_EQ(count_of(svg, "mxfp8 backward: 32.00 ms"), 1U);
}

TEST(MoeSvg, is_one_file_that_escapes_names) {
  const std::string svg = time_line_svg(sample_results());
  EXPECT_EQ(count_of(svg, "<aggregate>"), 0U);
  EXPECT_EQ(count_of(svg, "&lt;aggregate&gt;"), 2U * 2 * 2);  // beside the bar and as its title
  EXPECT_EQ(count_of(svg, "http"), 1U);                       // the name space
  EXPECT_EQ(count_of(svg, "<svg"), count_of(svg, "</svg>"));
}

TEST(MoeSvg, begins_a_bar_where_the_one_before_ends) {
  const std::string svg = time_line_svg(sample_results());
  // The longest pass takes 13000 us, 380 wide; in bf16's forward pass 10.5 us are before "up", 6010.5 to its end.
  EXPECT_NE(svg.find(R"(x="190.31" y="141" width="175.38")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(x="365.69" y="157" width="17.54")"), std::string::npos) << svg;
}

TEST(MoeSvg, of_nothing_is_a_picture_too) { EXPECT_EQ(count_of(time_line_svg(MoeResults{}), "</svg>"), 1U); }

}  // namespace
}  // namespace mxcheck::bench
