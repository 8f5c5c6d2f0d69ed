#include "goldens/json/json.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

Json parsed(std::string_view text) { return parse_json(text, "t", 4, ErrorKind::input); }
std::string one_line(const Json& json) { return to_text(json, {-1}); }

TEST(Json, keeps_members_in_the_order_given_or_sorts_them) {
  Json json{{"b", 1}, {"a", {{"d", 2.5}, {"c", "x"}}}, {"e", Json::array()}};
  json["b"] = -1;
  json["f"].push_back(true);
  json["f"].push_back(Json());
  EXPECT_EQ(one_line(json), R"({"b":-1,"a":{"d":2.5,"c":"x"},"e":[],"f":[true,null]})");
  EXPECT_EQ(to_text(json, {-1, JsonOrder::by_name}), R"({"a":{"c":"x","d":2.5},"b":-1,"e":[],"f":[true,null]})");
  EXPECT_EQ(to_text(Json{{"a", 1}}), "{\n  \"a\": 1\n}");
  json.update({{"e", 3}, {"g", 4}});
  EXPECT_EQ(one_line(json), R"({"b":-1,"a":{"d":2.5,"c":"x"},"e":3,"f":[true,null],"g":4})");
  EXPECT_EQ(json.size(), 5U);
}

TEST(Json, writes_every_kind_of_value) {
  EXPECT_EQ(one_line(Json(std::numeric_limits<std::uint64_t>::max())), "18446744073709551615");
  EXPECT_EQ(one_line(Json(std::numeric_limits<std::int64_t>::min())), "-9223372036854775808");
  EXPECT_EQ(one_line(Json(std::uint8_t{200})), "200");
  EXPECT_EQ(one_line(Json(1.0)), "1.0");
  EXPECT_EQ(one_line(Json(0.1)), "0.1");
  EXPECT_EQ(one_line(Json(NAN)), "null");
  EXPECT_EQ(one_line(Json(std::vector<std::string>{"a", "b"})), R"(["a","b"])");
  EXPECT_EQ(one_line(Json(std::vector<std::int64_t>{})), "[]");
  EXPECT_EQ(one_line(Json(std::map<std::string, std::int64_t>{{"b", 1}, {"a", 2}})), R"({"a":2,"b":1})");
  EXPECT_EQ(one_line(Json("\"\n\x01\xC3\xA9")), "\"\\\"\\n\\u0001\xC3\xA9\"");
}

TEST(Json, replaces_or_refuses_bytes_that_are_no_utf8) {
  EXPECT_EQ(one_line(Json("a\xFF"
                          "b")),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(valid_utf8("a\xFF"
                       "b\"<"),
            "a\xEF\xBF\xBD"
            "b\"<");
  expect_error(ErrorKind::usage, "no UTF-8", [] {
    (void)to_text(Json("\xFF"), {-1, JsonOrder::given, NotUtf8::refused});
  });
}

TEST(ParseJson, gives_the_values_with_members_sorted) {
  const Json json = parsed(R"( {"b": [1, -1, 1.5, "x", true, null], "a": {}} )");
  EXPECT_EQ(one_line(json), R"({"a":{},"b":[1,-1,1.5,"x",true,null]})");
  const auto& list = *json.find("b")->get_if<Json::Array>();
  EXPECT_EQ(*list[0].get_if<std::uint64_t>(), 1U);
  EXPECT_EQ(*list[1].get_if<std::int64_t>(), -1);
  EXPECT_EQ(list[0].get_if<double>(), nullptr);
  EXPECT_EQ(json.find("c"), nullptr);
  EXPECT_EQ(list[0].find("a"), nullptr);
  EXPECT_NE(parsed("18446744073709551616").get_if<double>(), nullptr);  // beyond 64 bits
}

TEST(ParseJson, refuses_what_is_no_json_deep_or_said_twice) {
  EXPECT_EQ(one_line(parsed("[[[[[]]]]]")), "[[[[[]]]]]");  // depth counts from 0
  expect_error(ErrorKind::input, "t: nested too deeply; 4 are used", [] { parsed("[[[[[[]]]]]]"); });
  expect_error(ErrorKind::input, "t: nested too deeply; 4 are used", [] { parsed(R"([[[[{"a": 1}]]]])"); });
  expect_error(ErrorKind::input, "t: names 'a' twice", [] { parsed(R"({"a": 1, "b": {"a": 2}, "a": 3})"); });
  expect_error(ErrorKind::input, R"(t: names '\x0A' twice)", [] { parsed(R"({"\n": 1, "\n": 3})"); });
  expect_error(ErrorKind::input, "t: is not valid JSON (at byte 4)", [] { parsed("[1,]"); });
  expect_error(ErrorKind::input, "t: is not valid JSON (at byte 3)", [] { parsed("1 2"); });
  for (const char* text : {"", "{", "[1", "nul", "'a'", "\"\xFF\"", "{a: 1}", "1e999", "[1] x", "\"\n\""})
    expect_error(ErrorKind::input, "t: is not valid JSON", [&] { parsed(text); });
}

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
  expect_error(ErrorKind::usage,
               "here: has \"control\", which is not a known key here; known are flag, list, number, text",
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
  for (const char* text : {"-4", "1", "9223372036854775808", "1.0", "\"1\"", "null"})
    EXPECT_EQ(of(text, -3, 0), std::nullopt) << text;
}

}  // namespace
}  // namespace mxcheck
