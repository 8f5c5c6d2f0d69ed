#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "numerics/names.h"
#include "numerics/one_line.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

TEST(Text, joins_with_separators_between) {
  EXPECT_EQ(join(std::vector<std::string>{}), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(join(std::vector<std::string>{"a", "", "b"}), "a, , b");
  EXPECT_EQ(join(std::vector<int>{1, 2}, "x", [](int n) { return std::to_string(n); }), "1x2");
}

TEST(Text, splits_at_separators) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("", ','), Parts{});
  EXPECT_EQ(split("a,b,,c", ','), (Parts{"a", "b", "", "c"}));
  EXPECT_EQ(split("a,", ','), (Parts{"a"}));
  EXPECT_EQ(split(",a", ','), (Parts{"", "a"}));
}

TEST(Text, takes_a_number_that_is_the_whole_text) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<std::uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<std::uint32_t>("ff", 16), 255U);
  EXPECT_EQ(parse_number<double>("2.5e-1"), 0.25);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.0", "a"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint8_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1.0f"), std::nullopt);
}

TEST(OneLine, spells_control_characters_out) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("a b~\xC3\xA4"), "a b~\xC3\xA4");
  EXPECT_EQ(one_line(std::string_view("a\nb\0\x1F\x7F", 6)), "a\\x0Ab\\x00\\x1F\\x7F");
}

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
