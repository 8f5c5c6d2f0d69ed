#include "goldens/make/builtin_suites.h"

#include <gtest/gtest.h>

#include <set>

#include "goldens/make/suite.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

TEST(BuiltinSuites, have_their_files_names_and_reach_every_kind_and_shape) {
  std::set<std::string> names, shapes, recipes;
  std::set<GoldenKind> kinds;
  std::set<std::string> layer_recipes;
  for (const GoldenSuite& suite : builtin_suites()) {
    EXPECT_EQ(&builtin_suite(suite.name), &suite);
    EXPECT_NE(suite.description, "");
    EXPECT_TRUE(names.insert(suite.name).second);
    for (const GoldenSpec& golden : suite.goldens) {
      kinds.insert(golden.kind);
      if (golden.kind == GoldenKind::layer) layer_recipes.insert(golden.layer.recipe->name);
      if (golden.kind != GoldenKind::quantize) continue;
      shapes.insert(to_text(golden.block));
      recipes.insert(golden.recipe);
    }
  }
  EXPECT_EQ(kinds.size(), 13U);
  EXPECT_EQ(shapes.size(), kBlockShapes.size());
  EXPECT_EQ(layer_recipes.size(), all_layer_recipes().size());
  EXPECT_EQ(recipes.size(), all_recipes().size());
}

TEST(BuiltinSuites, are_the_files_of_the_tree_byte_for_byte) {
  ASSERT_EQ(builtin_texts().size(), builtin_suites().size());
  for (std::size_t i = 0; i < builtin_texts().size(); ++i) {
    const BuiltinText& text = builtin_texts()[i];
    EXPECT_EQ(builtin_suites()[i].name, text.name);
    EXPECT_EQ(test::read_file(std::string(MXCHECK_GOLDENS_DATA) + "/../suites/" + text.name + ".json"), text.text);
  }
}

}  // namespace
}  // namespace mxcheck
