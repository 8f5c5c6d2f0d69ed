#include "goldens/json/strict_json.h"

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

const Json kSample = parse_json(R"({"text": "x", "number": 5, "flag": true, "list": [1, 2], "control": "a\u0007"})",
                                "t", 4, ErrorKind::usage);

TEST(JsonObject, gives_values_of_the_type_asked_for) {
  JsonObject o(kSample, "here");
  EXPECT_EQ(o.text("text"), "x");
  EXPECT_EQ(o.text_or("absent", "y"), "y");
  EXPECT_EQ(o.integer("number", 5, 5), 5);
  EXPECT_TRUE(o.flag("flag"));
  EXPECT_FALSE(o.flag("absent"));
  EXPECT_EQ(o.list("list", 2).size(), 2U);
  expect_error(ErrorKind::usage, "here: has \"control\", which means nothing here; known are flag, list, number, text",
               [&] { o.finish(); });
  (void)o.required("control");
  o.finish();
}

TEST(JsonObject, says_where_and_what_would_be_right) {
  JsonObject o(kSample, "here");
  expect_error(ErrorKind::usage, "here: lacks \"absent\"", [&] { (void)o.required("absent"); });
  expect_error(ErrorKind::usage, "here.number: must be a string", [&] { (void)o.text("number"); });
  expect_error(ErrorKind::usage, "here.control: must be one line", [&] { (void)o.text("control"); });
  expect_error(ErrorKind::usage, "here.number: must be an integer from 6 to 7",
               [&] { (void)o.integer("number", 6, 7); });
  expect_error(ErrorKind::usage, "here.text: must be true or false", [&] { (void)o.flag("text"); });
  expect_error(ErrorKind::usage, "here.list: must be a list of at most 1", [&] { (void)o.list("list", 1); });
  expect_error(ErrorKind::usage, "x: must be an object {...}", [] { JsonObject wrong(*kSample.find("list"), "x"); });
}

TEST(IntegerIn, takes_integers_of_63_bits_in_the_range) {
  const auto of = [](const char* text, std::int64_t low, std::int64_t high) {
    return integer_in(parse_json(text, "t", 1, ErrorKind::usage), low, high);
  };
  EXPECT_EQ(of("-3", -3, 0), -3);
  EXPECT_EQ(of("9223372036854775807", 0, INT64_MAX), INT64_MAX);
  for (const char* text : {"-4", "1", "9223372036854775808", "1.0", "\"1\"", "null"}) {
    EXPECT_EQ(of(text, -3, 0), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mxcheck
