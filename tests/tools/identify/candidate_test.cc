// Libraries behind the candidate interface: the reference as one, which declares what it is told to and follows what it
// is told to.

#include "goldens/json/json.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

class IdentifyCandidate : public ToolTest {
 protected:
  Answer identify(const std::string& settings, const std::string& arguments) {
    return mxcheck("identify --candidate '" MXCHECK_REFERENCE_CANDIDATE "' " + arguments,
                   "export REFERENCE='" + settings + "'; ");
  }
  static bool says(const Answer& a, const std::string& text) { return a.out.find(text) != std::string::npos; }
};

constexpr const char* kPlain =
    "--op matmul --only 'format=e4m3 format_b=e4m3 block=none block_b=none scales=none groups=none d=fp32'";

TEST_F(IdentifyCandidate, a_library_that_is_what_it_declares_holds) {
  const auto a =
      identify("operations=matmul;contracts=sm90_fp8+promote128,sm90_bf16", "--op matmul --only 'format_b=e4m3'");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_TRUE(says(a, "as declared   op=matmul:sm90_fp8+promote128 format=e4m3")) << a.out;
  EXPECT_TRUE(says(a, "block=1x128 block_b=128x128 scales=fp32")) << a.out;
}

TEST_F(IdentifyCandidate, a_contract_that_is_declared_wrongly_is_said_with_the_right_one) {
  const auto a = identify("operations=matmul;contracts=sm90_fp8+promote128;follows=sm90_fp8+promote64", kPlain);
  EXPECT_EQ(a.code, 1) << a.out;
  EXPECT_TRUE(says(a, "OTHERWISE     op=matmul:sm90_fp8+promote128")) << a.out;
  EXPECT_TRUE(says(a, "declared      sm90_fp8+promote128, which is WRONG: ")) << a.out;
  EXPECT_TRUE(says(a, "explained by  sm90_fp8+promote64, every bit")) << a.out;
}

TEST_F(IdentifyCandidate, the_order_of_scales_that_it_follows_is_named_whatever_it_declares) {
  for (const char* order : {"+a_first", "+b_first"}) {
    const auto a = identify(
        std::string("operations=matmul;contracts=sm90_fp8+promote128;follows=sm90_fp8+promote128") + order,
        "--op matmul --only 'format=e4m3 format_b=e4m3 block=1x128 block_b=128x128 scales=fp32 groups=none d=fp32'");
    EXPECT_EQ(a.code, 1) << a.out;
    EXPECT_TRUE(says(a, std::string("explained by  sm90_fp8+promote128") + order + ", every bit")) << a.out;
  }
}

TEST_F(IdentifyCandidate, recipes_scales_and_routers_that_are_declared_wrongly_are_said) {
  const auto q = identify("operations=quantize;follows=floor", "--op quantize --only 'format=e4m3 recipe=rceil'");
  EXPECT_EQ(q.code, 1) << q.out;
  EXPECT_TRUE(says(q, "declared      rceil, which is WRONG")) << q.out;
  EXPECT_TRUE(says(q, "explained by  floor, every bit")) << q.out;
  const auto s = identify("operations=quantize;follows=floor", "--op scale --only 'format=e4m3 recipe=rceil'");
  EXPECT_EQ(s.code, 1) << s.out;
  EXPECT_TRUE(says(s, "explained by  floor, every bit")) << s.out;
  EXPECT_TRUE(says(s, "words of 3 probes")) << s.out;
  const auto r = identify("operations=route;follows=sigmoid", "--op route --only variant=topk-softmax");
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_TRUE(says(r, "explained by  sigmoid, every bit")) << r.out;
  const std::string refusing = "op=route variant=sigmoid x=bf16 nan=refuse bias=0 limited=0";  // the only one offered
  const auto n = identify("operations=route;variant=" + refusing, "");
  EXPECT_EQ(n.code, 0) << n.out;
  EXPECT_TRUE(says(n, "as declared   " + refusing)) << n.out;
  const auto t = identify("operations=quantize_transposed;follows=floor", "--only 'format=e4m3 recipe=rceil'");
  EXPECT_EQ(t.code, 1) << t.out;
  EXPECT_TRUE(says(t, "OTHERWISE     op=quantize_transposed") && says(t, "explained by  floor, every bit")) << t.out;
  const auto c = identify("operations=cast", "--op cast");
  EXPECT_EQ(c.code, 0) << c.out;
  EXPECT_TRUE(says(c, "op=cast format=e4m3")) << c.out;
}

// Probes lie where they are aligned, all of them; the gate's cases do not.
TEST_F(IdentifyCandidate, what_is_wrong_in_a_case_of_the_gate_alone_is_not_as_declared) {
  const auto a = mxcheck("identify --candidate '" MXCHECK_TOY "'", "export TOY=ignores_byte_offset; ");
  EXPECT_EQ(a.code, 1) << a.out;
  EXPECT_TRUE(says(a, "UNEXPLAINED   op=quantize format=e4m3 recipe=rceil")) << a.out;
  EXPECT_TRUE(says(a, "declared      rceil, which is WRONG in a case of the gate, though it explains")) << a.out;
  EXPECT_TRUE(says(a, "case          op=quantize") && says(a, "0 as declared, 0 otherwise, 1 unexplained")) << a.out;
  const auto right = mxcheck("identify --candidate '" MXCHECK_TOY "'");
  EXPECT_EQ(right.code, 0) << right.out;
  EXPECT_TRUE(says(right, " probes, ") && says(right, " cases of the gate in ") && says(right, " shapes")) << right.out;
  const auto limited = mxcheck("identify --candidate '" MXCHECK_TOY "' --memory-limit -1");
  EXPECT_EQ(limited.code, 2) << limited.out;
}

TEST_F(IdentifyCandidate, multiples_and_limits_of_a_library_are_kept) {
  const auto a = identify("operations=matmul,quantize,cast,route;contracts=sm90_fp8;rows_multiple=48;cols_multiple=80",
                          "--only 'format=e4m3 recipe=rceil'");
  EXPECT_EQ(a.code, 0) << a.out;
  const auto b = identify("operations=quantize,cast;max_rows=40;max_cols=128;with=1x32", "--only format=e5m2");
  EXPECT_EQ(b.code, 0) << b.out;
  const auto strict =
      mxcheck("identify --candidate '" MXCHECK_TOY "'", "export TOY=multiples; ");  // 48 rows, 80 columns
  EXPECT_EQ(strict.code, 0) << strict.out;
  const auto c = identify("operations=matmul;contracts=sm90_fp8;max_rows=4;max_cols=4", kPlain);
  EXPECT_EQ(c.code, 1) << c.out;
  EXPECT_TRUE(says(c, "no answer     ") && says(c, "it takes at most 4 rows, and the inputs have 16")) << c.out;
}

TEST_F(IdentifyCandidate, crashes_hangs_and_refusals_are_reported_and_the_next_policy_is_asked) {
  const auto crashed = identify("operations=matmul;contracts=sm90_fp8,sm90_bf16;ends=crashes", "");
  EXPECT_EQ(crashed.code, 6) << crashed.out;
  EXPECT_TRUE(says(crashed, "FAULT         op=matmul:sm90_fp8 ") && says(crashed, "FAULT         op=matmul:sm90_bf16 "))
      << crashed.out;
  EXPECT_TRUE(says(crashed, "the candidate's process died (signal 11")) << crashed.out;
  EXPECT_TRUE(says(crashed, "the rest of matmul:sm90_fp8, which ended its process 3 times")) << crashed.out;
  const auto hung = identify("operations=cast;ends=hangs", "--time-limit 0.2");
  EXPECT_EQ(hung.code, 6) << hung.out;
  EXPECT_TRUE(says(hung, "did not return within the time limit")) << hung.out;
  const auto refused = identify("operations=matmul,quantize;contracts=sm90_fp8;ends=refuses", "--only format=e4m3");
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_TRUE(says(refused, "status MXCHECK_INVALID (2: the arguments are wrong), \"not today\"")) << refused.out;
}

TEST_F(IdentifyCandidate, what_cannot_be_asked_is_said) {
  const auto nothing = identify("operations=dequantize", "");
  EXPECT_EQ(nothing.code, 4) << nothing.out;
  EXPECT_TRUE(says(nothing, "not probed    dequantize")) << nothing.out;
  expect_refused(2, "'divide' is no operation", "identify --candidate cpu --op divide");
  expect_refused(2, "--only 'format=e5m7' is in the text of no policy; known are ",
                 "identify --candidate cpu --op cast --only format=e5m7");
  expect_refused(2, "; did you mean 'format=e5m2'?", "identify --candidate cpu --op cast --only format=e5m7");
  expect_refused(2, "does not exist", "identify --candidate ./none.so");
  expect_refused(2, "one dump or one library", "identify --candidate cpu --x x.npy");
  expect_refused(2, "--time-limit must be", "identify --candidate cpu --time-limit 0");
}

TEST_F(IdentifyCandidate, json_has_every_policy_and_the_picture_is_of_one) {
  const auto a = identify("operations=matmul;contracts=sm90_fp8;follows=sm90_fp8+promote64",
                          std::string(kPlain) + " --json --svg order.svg");
  EXPECT_EQ(a.code, 1) << a.err;
  const Json json = parse_json(a.out, "stdout", 16, ErrorKind::input);
  const auto* policies = json.find("policies")->get_if<Json::Array>();
  ASSERT_EQ(policies->size(), 1U);
  const Json& match = *policies->front().find("match");
  EXPECT_EQ(*match.find("explaining")->get_if<Json::Array>()->front().get_if<std::string>(), "sm90_fp8+promote64");
  EXPECT_EQ(*match.find("declared")->find("holds")->get_if<bool>(), false);
  EXPECT_EQ(*match.find("order")->find("shape")->get_if<std::string>(), "fused steps of 32, promoted every 64");
  expect_contains(read_file(dir / "order.svg"), "data-terms=\"0 1 2");
}

}  // namespace
}  // namespace mxcheck
