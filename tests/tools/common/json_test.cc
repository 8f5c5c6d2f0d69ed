#include "tools/common/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mxcheck {
namespace {

TEST(JsonNumber, makes_strings_of_what_json_lacks) {
  EXPECT_EQ(to_text(json_number(0.1), {-1}), "0.1");
  EXPECT_EQ(to_text(json_number(NAN), {-1}), "\"nan\"");
  EXPECT_EQ(to_text(json_number(-INFINITY), {-1}), "\"-inf\"");
}

TEST(PrintJson, ends_its_text_with_a_line) {
  testing::internal::CaptureStdout();
  print_json({{"name", "\xFF"}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{\n  \"name\": \"\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace mxcheck
