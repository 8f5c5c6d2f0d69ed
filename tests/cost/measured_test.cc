#include "cost/measured.h"

#include <sstream>
#include <string>
#include <vector>

#include "tests/cost/cost_testing.h"

namespace mxcheck {
namespace {

// The table below a heading: cells of its rows, which are numbers with an optional text in brackets after them.
std::vector<std::vector<std::string>> rows_below(const std::string& page, const std::string& heading) {
  std::istringstream lines(page.substr(page.find("\n" + heading + "\n") + 1));
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.starts_with("#")) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream cell_text(line);
    std::string cell;
    while (std::getline(cell_text, cell, '|')) cells.push_back(cell);
    rows.push_back(cells);
  }
  return rows;
}

double number_in(std::string cell) {
  std::erase(cell, ',');
  return std::stod(cell);
}

const MeasuredLayer& measured(const std::string& recipe, std::size_t number) {
  for (const MeasuredLayer& m : measured_layers()) {
    if (m.recipe == recipe && number-- == 0) return m;
  }
  throw Error(ErrorKind::internal, "not measured: " + recipe);
}

TEST(MeasuredLayers, of_three_shapes_are_the_rates_of_the_page) {
  const std::string page = test::read_file(MXCHECK_SOURCE_DIR "/docs/performance_log.md");
  std::size_t compared = 0;
  for (const auto& cells : rows_below(page, "### Every case of whole layers")) {
    const std::string recipe = cells[1].substr(2, cells[1].rfind('`') - 2);
    const bool forward = cells[2] == " forward ";
    if (!forward && cells[2] != " backward ") continue;  // the table of memory
    for (std::size_t i = 0; i < 3; ++i) {
      const MeasuredLayer& m = measured(recipe, i);
      const double products = product({m.shape.tokens, m.shape.top_k, m.shape.d_expert, m.shape.d_model});
      const double rate = (forward ? 6 * products / m.forward_us : 12 * products / m.backward_us) / 1e6;
      EXPECT_NEAR(rate, number_in(cells[3 + i]), 1e-6) << recipe << " " << i;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2 * 3 * 9U);
}

TEST(MeasuredLayers, in_nvfp4_are_the_times_of_the_page) {
  const std::string page = test::read_file(MXCHECK_SOURCE_DIR "/docs/performance.md");
  const auto rows = rows_below(page, "### Layers in NVFP4");
  ASSERT_EQ(rows.size(), 4U);
  for (const auto& cells : rows) {
    const std::string recipe = cells[1].substr(2, cells[1].rfind('`') - 2);
    const MeasuredLayer& m = measured(recipe, recipe == "bf16" ? 3 : 0);
    EXPECT_EQ(m.forward_us, number_in(cells[2])) << recipe;
    EXPECT_EQ(m.backward_us, number_in(cells[3])) << recipe;
    EXPECT_EQ(m.source, "docs/performance.md, Layers in NVFP4");
  }
}

TEST(Estimate, of_every_measured_layer_is_within_a_quarter) {
  for (const MeasuredLayer& m : measured_layers()) {
    const Estimate e = estimate(m.shape, layer_recipe_named(m.recipe), card_named(m.card));
    EXPECT_NEAR(e.forward.us() / m.forward_us, 1, 0.25) << m.recipe << " forward, d_expert " << m.shape.d_expert;
    EXPECT_NEAR(e.backward.us() / m.backward_us, 1, 0.25) << m.recipe << " backward, d_expert " << m.shape.d_expert;
  }
}

// Quantization's share of a pass, too, so that no errors of two kinds cancel: docs/performance_log.md, in percent.
TEST(Estimate, of_quantizations_share_is_within_a_quarter) {
  const LayerShape s{32768, 4096, 1024, 128, 8};
  struct Share {
    const char* recipe;
    double forward, backward;
  };
  for (const Share& share : {Share{"mxfp8", 15.2, 18.7}, Share{"dsv3", 16.4, 17.4}, Share{"dsv3_pow2", 14.9, 16.6}}) {
    const Estimate e = estimate(s, layer_recipe_named(share.recipe), card_named("H200"));
    EXPECT_NEAR(100 * e.forward.us_of(StepKind::quantize) / e.forward.us() / share.forward, 1, 0.25) << share.recipe;
    EXPECT_NEAR(100 * e.backward.us_of(StepKind::quantize) / e.backward.us() / share.backward, 1, 0.25) << share.recipe;
  }
}

}  // namespace
}  // namespace mxcheck
