#include "numerics/names.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace mxcheck {
namespace {

enum class Fruit { apple, pear, plum };

constexpr std::array<Named<Fruit>, 2> kFruit{{{"apple", Fruit::apple}, {"pear", Fruit::pear}}};

TEST(Names, are_found_in_either_direction) {
  EXPECT_EQ(name_in(kFruit, Fruit::pear), "pear");
  EXPECT_EQ(name_in(kFruit, Fruit::plum), "");
  EXPECT_EQ(value_in(kFruit, "apple"), Fruit::apple);
  EXPECT_EQ(value_in(kFruit, "Apple"), std::nullopt);
  EXPECT_EQ(names_in(kFruit), (std::vector<std::string>{"apple", "pear"}));
}

TEST(Names, an_entry_is_itself_and_an_unknown_one_is_refused_with_the_list) {
  EXPECT_EQ(&entry_named(kFruit, "fruit", "pear"), &kFruit[1]);
  try {
    (void)entry_named(kFruit, "fruit", "kiwi");
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_EQ(std::string(e.what()), "unknown fruit 'kiwi'; known are apple, pear");
  }
}

}  // namespace
}  // namespace mxcheck
