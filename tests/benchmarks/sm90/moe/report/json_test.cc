#include "benchmarks/sm90/moe/report/json.h"

#include <gtest/gtest.h>

#include "tests/benchmarks/sm90/moe/report/sample.h"

namespace mxcheck::bench {
namespace {

const Json& at(const Json& json, std::string_view key) {
  const Json* const found = json.find(key);
  EXPECT_NE(found, nullptr) << key;
  static const Json none;
  return found == nullptr ? none : *found;
}
const Json& first(const Json& json) { return json.get_if<Json::Array>()->front(); }

TEST(MoeJson, has_every_pass_and_step) {
  const Json json = json_of(sample_results());
  const Json& shape = first(at(json, "shapes"));
  EXPECT_EQ(*at(shape, "d").get_if<std::int64_t>(), 4096);
  const Json& recipe = first(at(shape, "recipes"));
  EXPECT_EQ(*at(recipe, "recipe").get_if<std::string>(), "bf16");
  for (const char* pass : {"forward", "backward"}) EXPECT_EQ(at(at(recipe, pass), "steps").size(), 4U);
  EXPECT_EQ(*at(at(recipe, "forward"), "us_with_router").get_if<double>(), 20050);
  EXPECT_EQ(*at(first(at(at(recipe, "forward"), "steps")), "kind").get_if<std::string>(), "check");
}

TEST(MoeJson, can_be_read_again) {
  const std::string text = to_text(json_of(sample_results()));
  EXPECT_EQ(to_text(parse_json(text, "the results", 16, ErrorKind::input), {2, JsonOrder::by_name, NotUtf8::refused}),
            to_text(json_of(sample_results()), {2, JsonOrder::by_name, NotUtf8::refused}));
}

}  // namespace
}  // namespace mxcheck::bench
