#include <nlohmann/json.hpp>

#include "numerics/scale/recipe.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using ScaleTool = test::ToolTest;
using nlohmann::json;

struct Cell {
  const char* amax;
  const char* rule;
  int byte;
};

// Measured on the implementations that the presets are named after; E4M3.
constexpr Cell kCells[] = {
    {"0", "rceil", 0},
    {"0", "deepgemm_host", 105},
    {"0", "thunderkittens", 88},
    {"0x04600001", "rceil", 1},  // one ulp above 448 * 2^-127
    {"0x04600001", "torchao", 0},
    {"0x04600002", "te_ftz", 0},
    {"0x04e00001", "torchao_old", 1},
    {"0x00800000", "triton", 1},  // 2^-126
    {"0x00800000", "deepgemm_device", 1},
    {"1e-5", "dsv3", 105},
    {"1.0", "te", 119},
    {"448", "rceil", 127},
    {"448", "torchao_ceil", 128},
    {"0x43e00001", "rceil", 128},
    {"0x43e00001", "ocp", 127},
    {"496", "even", 128},
    {"0x43ffffff", "microxcaling_python", 128},
    {"0x43ffffff", "microxcaling_cuda", 127},
    {"0x47e00001", "dsv3", 135},
    {"0x63e00001", "torchao_old", 191},
    {"0x1.fffffep127", "torchao_even", 255},
    {"0x1.fffffep127", "torchao_0_18_even", 247},
    {"0x1.fffffep127", "rceil", 247},
    {"inf", "te", 254},
    {"inf", "torchao", 255},
    {"inf", "torchao_0_18", 254},
    {"inf", "torchao_0_18_floor", 247},
    {"nan", "deepgemm_host", 254},
    {"nan", "triton", 0},
    {"0x047FFFFF", "torchao_floor", 0},
    {"0x047FFFFF", "torchao_floor_cuda", 1},
};

TEST_F(ScaleTool, prints_the_bytes_that_implementations_were_seen_to_write) {
  for (const Cell& cell : kCells) {
    const test::Answer a = mxcheck(std::string("scale --json --rule ") + cell.rule + " " + cell.amax);
    ASSERT_EQ(a.code, 0) << a.err;
    EXPECT_EQ(json::parse(a.out)["rows"][0]["byte"], cell.byte) << cell.amax << " by " << cell.rule;
  }
}

TEST_F(ScaleTool, answers_in_a_table_that_says_which_float_was_used) {
  EXPECT_EQ(mxcheck("scale --rule rceil 448 448.0001 0x1.8p3 nan").out,
            "amax           bits       hexfloat           rule                 byte hex  scale\n"
            "448            0x43e00000 0x1.cp+8           rceil                 127 0x7f 0x1p+0\n"
            "448.0001       0x43e00003 0x1.c00006p+8      rceil                 128 0x80 0x1p+1\n"
            "0x1.8p3        0x41400000 0x1.8p+3           rceil                 122 0x7a 0x1p-5\n"
            "nan            0x7fc00000 nan                rceil                 255 0xff nan\n");
}

TEST_F(ScaleTool, lists_every_recipe_with_what_it_was_checked_against) {
  const std::string text = mxcheck("scale --list").out;
  for (const Recipe& r : all_recipes()) {
    EXPECT_NE(text.find("\n" + r.name + " "), r.name == "rceil" ? 0 : std::string::npos) << r.name;
    EXPECT_NE(text.find(r.checked_against), std::string::npos) << r.name;
  }
  const json rules = json::parse(mxcheck("scale --list --json").out)["rules"];
  ASSERT_EQ(rules.size(), all_recipes().size());
  EXPECT_EQ(rules[0], (json{{"rule", "rceil"}, {"checked_against", ""}}));
  EXPECT_EQ(mxcheck("scale").code, 2);
}

TEST_F(ScaleTool, reads_decimals_hexfloats_and_bits) {
  const std::vector<std::pair<std::string, std::string>> spellings{
      {"0.1", "0x3dcccccd"},       // rounded once, to the nearest float
      {"16777217", "0x4b800000"},  // a tie, to even
      {"16777219", "0x4b800002"},  // a tie, to even
      {"1e-46", "0x00000000"},     // below half the smallest float
      {"0x1p-149", "0x00000001"},    {"0x1p3", "0x41000000"},      {"0x1.", "0x3f800000"},
      {"0x3F80", "0x00003f80"},      {"0X3f800000", "0x3f800000"}, {"1e5", "0x47c35000"},
      {"0x1e5", "0x000001e5"},       {"INF", "0x7f800000"},        {"infinity", "0x7f800000"},
      {"0x7f800000", "0x7f800000"},  {"0xffc00000", "0xffc00000"}, {"+1", "0x3f800000"},
      {"3.4028235e38", "0x7f7fffff"}};
  for (const auto& [text, bits] : spellings) {
    const test::Answer a = mxcheck("scale --json --rule rceil " + text);
    ASSERT_EQ(a.code, 0) << text << a.err;
    EXPECT_EQ(json::parse(a.out)["rows"][0]["bits"], bits) << text;
  }
}

TEST_F(ScaleTool, without_a_rule_asks_every_recipe_in_order) {
  const json rows = json::parse(mxcheck("scale --json --format e5m2 57344 1").out)["rows"];
  const auto recipes = all_recipes();
  ASSERT_EQ(rows.size(), 2 * recipes.size());
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    EXPECT_EQ(rows[i]["rule"], recipes[i].name);
    EXPECT_EQ(rows[i]["amax"], "57344");
    if (recipes[i].rule == ScaleRule::fp32) {
      EXPECT_TRUE(rows[i]["byte"].is_null());
      EXPECT_EQ(rows[i]["scale"], 1.0);
      EXPECT_EQ(rows[i]["scale_bits"], "0x3f800000");
    } else {
      EXPECT_EQ(rows[i]["byte"], scale_byte_for_amax(recipes[i], Format::e5m2, 57344)) << recipes[i].name;
    }
  }
}

TEST_F(ScaleTool, writes_what_json_cannot_hold_as_strings) {
  const json rows = json::parse(mxcheck("scale --json --rule torchao inf nan").out)["rows"];
  EXPECT_EQ(rows[0]["value"], "inf");
  EXPECT_EQ(rows[1]["value"], "nan");
  EXPECT_EQ(rows[0]["scale"], "nan");
}

TEST_F(ScaleTool, refuses_what_is_no_magnitude) {
  for (const std::string text : {"-1", "-0", "-inf", "0x80000000", "0xff800000", "-0x1p3"}) {
    expect_refused(2, "is negative", "scale --rule rceil -- " + text);
  }
  for (const std::string text : {"abc", "''", "1x", "' 1'", "1,5", "0x", "0xg", "1e", "--"}) {
    expect_refused(2, "is not a number", "scale --rule rceil -- " + text);
  }
  expect_refused(2, "beyond FP32's largest value", "scale 1e39");
  expect_refused(2, "more than the 8 hexadecimal digits", "scale 0x123456789");
  expect_refused(2, "required", "scale");
  expect_refused(2, "unknown rule or preset 'round'; known are rceil, floor", "scale --rule round 1");
  expect_refused(2, "unknown format 'e4m4'; known are e4m3, e5m2", "scale --format e4m4 1");
  expect_refused(2, "'bf16' is not a format of block elements; these are e4m3", "scale --format bf16 1");
}

}  // namespace
}  // namespace mxcheck
