#include "tools/recipes/selection.h"

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

std::vector<std::string> names_of(const RecipeSelection& selection) {
  std::vector<std::string> names;
  for (const Combination& c : combinations(selection)) {
    names.push_back(c.recipe.name + " " + std::string(spec(c.format).name) + " " + to_text(c.block));
  }
  return names;
}

TEST(Combinations, are_the_product_each_once_in_the_order_named) {
  EXPECT_EQ(combinations({}).size(), 20U);
  EXPECT_EQ(names_of({{"e4m3", "e4m3"}, {"1x32"}, {"floor", "rceil", "floor"}, "both"}),
            (std::vector<std::string>{"floor e4m3 1x32", "rceil e4m3 1x32", "floor e4m3 32x1", "rceil e4m3 32x1"}));
  EXPECT_EQ(names_of({{"e2m1"}, {"32x32"}, {"rceil"}, "both"}), (std::vector<std::string>{"rceil e2m1 32x32"}));
  EXPECT_EQ(names_of({{"e4m3"}, {"1x128"}, {"te"}, "col"}), (std::vector<std::string>{"te e4m3 128x1"}));
}

TEST(Combinations, take_globs_and_all) {
  EXPECT_EQ(combinations({{"e4m3"}, {"1x32"}, {"all"}, "row"}).size(), all_recipes().size());
  const std::vector<Combination> some = combinations({{"e4m3"}, {"1x32"}, {"deepgemm*"}, "row"});
  EXPECT_GE(some.size(), 2U);
  for (const Combination& c : some) EXPECT_EQ(c.recipe.name.rfind("deepgemm", 0), 0U);
  expect_error(ErrorKind::usage, "--recipe 'x*' matches no recipe", [] {
    combinations({{"e4m3"}, {"1x32"}, {"x*"}, "row"});
  });
  expect_error(ErrorKind::usage, "'fp32' is not a format of block elements", [] {
    combinations({{"fp32"}, {"1x32"}, {}, "row"});
  });
}

TEST(Expanded, replaces_globs_of_real_tensors_alone) {
  EXPECT_EQ(expanded({"a*.npy", "real:layer0.d?", "real:x"}),
            (std::vector<std::string>{"a*.npy", "real:layer0.dO", "real:layer0.dh", "real:x"}));
  EXPECT_EQ(expanded({"real:*"}).size(), 14U);
  expect_error(ErrorKind::usage, "'real:y*' matches no real tensor", [] { expanded({"real:y*"}); });
}

}  // namespace
}  // namespace mxcheck
