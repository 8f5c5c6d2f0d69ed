#include "benchmarks/sm90/gemm/report.h"

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/sm90/gemm/request.h"
#include "goldens/json/json.h"
#include "tests/testing.h"

namespace mxcheck::bench {
namespace {

using namespace test;

// Results that nobody measured, for the tests of what is made of them.

GemmRun sample_run(const std::string& beside) {
  return {{"NVIDIA H200", 132, 1980, 3201, "580.65.06", 13000}, "ours 1", "libcublasLt.so", 130100, "", beside, 25};
}

// 4 x 8 x 128 in 2 us, beside a library that takes 1 us for the kernel and 3 for the call.
GemmResult sample_result() {
  GemmResult r;
  r.request.contract = "sm90_fp8+promote128";
  r.request.scale = MXCHECK_FP32, r.request.block = 128, r.request.b_rows = 128;
  r.request.m = 4, r.request.n = 8, r.request.k = 128;
  r.check = {true, true, 32, 1e-6, ""};
  r.beside = GemmCheck{true, true, 32, 0, ""};
  r.times = {{"ours", 2, 1.5, 2.5}, {"fp8", 1.6, 1, 2}, {kBesideName, 1, 1, 1}, {kBesideWholeName, 3, 3, 3}};
  r.algorithms = {{"fp8", "2 of 8"}};
  return r;
}

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& words) {
  std::vector<std::byte> bytes(words.size() * 2);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(GemmText, has_columns_of_the_library_beside_ours) {
  const GemmRun run = sample_run("deepgemm 54e2261");
  const std::string head = text_head(run);
  expect_contains(head,
                  {"NVIDIA H200, 132 processors", "beside it deepgemm 54e2261", "       beside", "beside, whole"});
  const std::string row = text_of(run, sample_result());
  expect_contains(row, {"sm90_fp8+promote128 fp32 128x128 dense 4x8x128", "0.800 (0)", "0.500 (0)", "1.500 (0)"});
  EXPECT_EQ(std::ranges::count(row, '\n'), 1) << row;
}

TEST(GemmText, has_no_such_columns_without_one) {
  GemmResult r = sample_result();
  r.beside.reset(), r.times.resize(2);
  EXPECT_EQ(text_head(sample_run("")).find("beside"), std::string::npos);
  EXPECT_EQ(text_of(sample_run(""), r).find("1.500"), std::string::npos);
}

TEST(GemmText, says_what_the_library_beside_ours_does_not_offer_or_computes_otherwise) {
  GemmResult r = sample_result();
  r.beside->equal = false, r.beside->message = "1 of 32 outputs differ";
  expect_contains(text_of(sample_run("x"), r), "    beside: DIFFERS from ours: 1 of 32 outputs differ\n");
  EXPECT_TRUE(r.wrong());
  r.beside->offered = false, r.beside->message = "not of this shape";
  expect_contains(text_of(sample_run("x"), r), "    beside: not offered: not of this shape\n");
  EXPECT_FALSE(r.wrong());
}

TEST(GemmJson, has_the_times_and_ratios_of_every_contender) {
  GemmResult other;
  other.check.offered = false;
  const std::string text =
      json_head(sample_run("a \"peer\"")) + "\n" + json_of(sample_result()) + ",\n" + json_of(other) + json_tail();
  const Json json = parse_json(text, "the results", 16, ErrorKind::input);
  EXPECT_EQ(*json.find("beside")->get_if<std::string>(), "a \"peer\"");
  const auto& cases = *json.find("cases")->get_if<Json::Array>();
  ASSERT_EQ(cases.size(), 2U);
  const Json& times = *cases[0].find("times");
  EXPECT_EQ(*times.find("ours")->find("ratio")->get_if<double>(), 1);
  EXPECT_EQ(*times.find("beside")->find("us")->get_if<double>(), 1);
  EXPECT_EQ(*times.find("beside")->find("ratio")->get_if<double>(), 0.5);
  EXPECT_EQ(*times.find("beside, whole")->find("ratio")->get_if<double>(), 1.5);
  EXPECT_EQ(*times.find("fp8")->find("algorithm")->get_if<std::string>(), "2 of 8");
  EXPECT_TRUE(*cases[0].find("beside_check")->find("equal")->get_if<bool>());
  EXPECT_EQ(cases[1].find("beside_check"), nullptr);
}

TEST(GemmOutputs, are_compared_bit_for_bit) {
  GemmRequest r;
  r.m = 2, r.n = 3;
  const std::vector<std::byte> ours = bytes_of({0, 1, 2, 3, 4, 0x8000});
  EXPECT_TRUE(compare_outputs(r, ours, ours).equal);
  EXPECT_EQ(compare_outputs(r, ours, ours).compared, 6U);
  const GemmCheck check = compare_outputs(r, ours, bytes_of({0, 1, 2, 3, 5, 0}));
  EXPECT_FALSE(check.equal);
  EXPECT_EQ(check.message, "2 of 6 outputs differ, first at row 1 column 1: ours 0004, theirs 0005");
}

TEST(GemmOutputs, are_not_compared_past_the_count_of_a_masked_group) {
  GemmRequest r;
  r.grouping = MXCHECK_MASKED, r.experts = 2, r.m = 4, r.n = 1, r.rows = 1;
  const std::vector<std::byte> ours = bytes_of({1, 2, 3, 4});
  EXPECT_TRUE(compare_outputs(r, ours, bytes_of({1, 9, 3, 9})).equal);
  EXPECT_EQ(compare_outputs(r, ours, ours).compared, 2U);
  EXPECT_FALSE(compare_outputs(r, ours, bytes_of({1, 2, 9, 4})).equal);
}

TEST(GemmOutputs, of_two_sizes_or_none_are_not_equal) {
  GemmRequest r;
  r.m = r.n = 1;
  EXPECT_FALSE(compare_outputs(r, {}, {}).equal);
  EXPECT_EQ(compare_outputs(r, bytes_of({1}), bytes_of({1, 2})).message, "outputs of 2 and 4 bytes");
}

TEST(GemmRequests, have_the_weight_gradients_and_the_small_groups_of_a_layer) {
  std::set<std::string> names;
  for (const GemmRequest& r : all_gemm_requests(false)) {
    EXPECT_TRUE(names.insert(r.text()).second) << r.text();
    const std::vector<std::int64_t> ends = ends_of(r);
    if (r.grouping == MXCHECK_ROWS || r.grouping == MXCHECK_DEPTH) {
      EXPECT_EQ(ends.back(), r.grouping == MXCHECK_ROWS ? r.m : r.k) << r.text();
    }
  }
  for (const char* const name :
       {"fp32 128x128 dense 4096x2048x7168", "fp32 128x128 rows64 32768x4096x2048", "fp32 1x128 depth4 4096x7168x32768",
        "fp32 1x128 depth8 4096x7168x32768", "fp32 1x128 depth8 7168x2048x32768", "fp32 1x128 dense+c 4096x4096x7168",
        "fp32 128x128 masked16_of_160 16384x4096x7168"}) {
    EXPECT_TRUE(names.contains(std::string("sm90_fp8+promote128 ") + name)) << name;
  }
}

}  // namespace
}  // namespace mxcheck::bench
