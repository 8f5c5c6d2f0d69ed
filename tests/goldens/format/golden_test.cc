#include "goldens/format/golden.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

TEST(Golden, every_format_has_a_name_of_its_own_that_leads_back) {
  std::set<std::string> names;
  for (const Format format : kAllFormats) {
    const std::string name(spec(format).dtype_name);
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_EQ(format_of_attribute(name), format);
  }
  EXPECT_EQ(format_of_attribute("float8_e8m0fnu"), Format::e8m0);
  EXPECT_EQ(format_of_attribute("bfloat16"), Format::bf16);
}

TEST(Golden, refuses_names_that_are_no_format) {
  for (const std::string name : {"", "e4m3", "bf16", "float8_e4m3", "int32", "int64", "Bfloat16"}) {
    test::expect_error(ErrorKind::golden, "'" + name + "' is no number format", [&] { format_of_attribute(name); });
  }
}

TEST(Golden, finds_attributes_and_datasets_by_name) {
  const GoldenInfo info{{{"a", "1"}, {"b", ""}}, {{.name = "x"}, {.name = "y", .role = Role::input}}};
  EXPECT_EQ(attribute(info.attributes, "a"), "1");
  EXPECT_EQ(attribute(info.attributes, "b"), "");
  EXPECT_EQ(attribute(info.attributes, "c"), "");
  ASSERT_NE(info.find("y"), nullptr);
  EXPECT_EQ(info.find("y")->role, Role::input);
  EXPECT_EQ(info.find("z"), nullptr);
}

}  // namespace
}  // namespace mxcheck
