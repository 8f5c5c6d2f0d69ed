#include "numerics/one_line.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

TEST(OneLine, spells_control_characters_out) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("a b~\xC3\xA4"), "a b~\xC3\xA4");
  EXPECT_EQ(one_line(std::string_view("a\nb\0\x1F\x7F", 6)), "a\\x0Ab\\x00\\x1F\\x7F");
}

}  // namespace
}  // namespace mxcheck
