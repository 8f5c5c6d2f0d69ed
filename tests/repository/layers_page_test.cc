// docs/layers.md has a line for each of the layers that the gate draws, with their values, and no other.

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <fmt/format.h>

#include "properties/core/layers/layers.h"
#include "tests/repository/tree.h"

namespace mxcheck::repository {
namespace {

std::string row_of(const ProductionLayer& l) {
  std::string router = " |  | ";
  if (l.router) {
    const LayerRouter& r = *l.router;
    router = fmt::format("`{}`{} | {} | {}", r.variant, r.bias ? " + bias" : "",
                         r.groups > 1 ? fmt::format("{} of {}", r.groups_kept, r.groups) : "", r.scale);
  }
  return fmt::format("| [{}]({}) | {} | {} | {} | {} | {} | {} | [values]({}) |", l.model, l.source, l.d, l.n,
                     l.experts, l.active, l.shared, router, l.checked);
}

TEST(LayersPage, has_each_layer_as_it_is_drawn) {
  std::istringstream lines(contents(root() / "docs/layers.md"));
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| [")) continue;
    ASSERT_LT(at, production_layers().size()) << line;
    EXPECT_EQ(line, row_of(production_layers()[at++]));
  }
  EXPECT_EQ(at, production_layers().size());
}

}  // namespace
}  // namespace mxcheck::repository
