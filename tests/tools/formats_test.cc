#include <nlohmann/json.hpp>

#include <cmath>

#include "numerics/format/codec.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using FormatsTool = test::ToolTest;
using nlohmann::json;

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(FormatsTool, lists_every_format_with_its_range) {
  EXPECT_EQ(lines(mxcheck("formats").out), 1 + kAllFormats.size());
  const json rows = json::parse(mxcheck("formats --json").out);
  ASSERT_EQ(rows.size(), kAllFormats.size());
  const json e4m3{{"name", "e4m3"},
                  {"dtype", "float8_e4m3fn"},
                  {"bits", 8},
                  {"layout", "1-4-3"},
                  {"bias", 7},
                  {"max", 448},
                  {"min_normal", 0.015625},
                  {"min_subnormal", 0.001953125},
                  {"inf", nullptr},
                  {"nan", "0x7f"}};
  const json e5m2{{"name", "e5m2"},
                  {"dtype", "float8_e5m2"},
                  {"bits", 8},
                  {"layout", "1-5-2"},
                  {"bias", 15},
                  {"max", 57344},
                  {"min_normal", 6.103515625e-05},
                  {"min_subnormal", 1.52587890625e-05},
                  {"inf", "0x7c"},
                  {"nan", "0x7f"}};
  EXPECT_EQ(rows[0], e4m3);
  EXPECT_EQ(rows[1], e5m2);
  EXPECT_EQ(rows[2]["min_subnormal"], nullptr);
  EXPECT_EQ(rows[2]["min_normal"], 0x1p-127);
  EXPECT_EQ(rows[2]["max"], 0x1p127);
  EXPECT_EQ(rows[5]["nan"], nullptr);
}

TEST_F(FormatsTool, prints_the_whole_code_table_of_e2m1) {
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const json codes = json::parse(mxcheck("formats e2m1 --json").out)["codes"];
  ASSERT_EQ(codes.size(), 16U);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(codes[i]["value"], (i < 8 ? 1 : -1) * magnitudes[i % 8]);
  }
  EXPECT_EQ(codes[13], json({{"code", "0xd"}, {"fields", "1.10.1"}, {"hexfloat", "-0x1.8p+1"}, {"value", -3}}));
}

TEST_F(FormatsTool, prints_codes_that_decode_to_what_is_printed) {
  for (const Format format : kAllFormats) {
    if (format == Format::fp32) continue;
    const std::string name(spec(format).name);
    const json codes = json::parse(mxcheck("formats --json " + name).out)["codes"];
    ASSERT_EQ(codes.size(), std::size_t{1} << spec(format).bits) << name;
    for (std::uint32_t code = 0; code < codes.size(); ++code) {
      const double value = decode(format, code);
      const json& row = codes[code];
      ASSERT_EQ(std::stoul(row["code"].get<std::string>(), nullptr, 16), code);
      std::string bits = row["fields"];
      std::erase(bits, '.');
      ASSERT_EQ(bits.size(), static_cast<std::size_t>(spec(format).bits)) << name;
      ASSERT_EQ(std::stoul(bits, nullptr, 2), code) << name;
      if (std::isfinite(value)) {
        ASSERT_EQ(row["value"].get<double>(), value) << name << " " << code;
        ASSERT_EQ(std::stod(row["hexfloat"].get<std::string>()), value) << name << " " << code;
      } else {
        ASSERT_EQ(row["value"], std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf") << name << " " << code;
      }
    }
  }
}

TEST_F(FormatsTool, prints_text_one_line_a_code_and_takes_dtype_names) {
  const test::Answer a = mxcheck("formats float8_e4m3fn");
  EXPECT_EQ(lines(a.out), 257U);
  EXPECT_NE(a.out.find("0x7e     0.1111.110           0x1.cp+8             448\n"), std::string::npos);
  EXPECT_NE(a.out.find("0xff     1.1111.111           nan                  nan\n"), std::string::npos);
  EXPECT_EQ(lines(mxcheck("formats bf16").out), 65537U);
}

TEST_F(FormatsTool, refuses_fp32_and_unknown_names) {
  expect_refused(2, "fp32 has 2^32 codes", "formats fp32");
  expect_refused(2, "unknown format 'e9m9'; known are e4m3, e5m2, e8m0", "formats e9m9");
  expect_refused(2, "not expected: e5m2", "formats e4m3 e5m2");
}

}  // namespace
}  // namespace mxcheck
