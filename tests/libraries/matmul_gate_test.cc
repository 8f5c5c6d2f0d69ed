// The gate on GEMMs: a library that is the reference holds, and each fault is found and named.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_held, mxcheck::test::ShellAnswer, mxcheck::test::WrongLibrary;

ShellAnswer gate(const std::string& fault, const std::string& arguments) {
  return mxcheck::test::gate_on(MXCHECK_HOST_MATMUL, "MATMUL_FAULT=" + fault, arguments + " 2>&1");
}

// In two: each must be done well within a test's time, on a slow machine too.
TEST(MatmulGate, the_reference_as_a_candidate_equals_its_contracts) {
  expect_held(gate("", "--only 'matmul*' --cases 60 --seed 1"),
              {"matmul_equals_its_contract", "matmul_of_small_integers_is_exact", "matmul_sums_are_the_tensor_cores"});
}

TEST(MatmulGate, the_reference_as_a_candidate_behaves) {
  expect_held(gate("", "--only '[!m]*' --cases 40 --seed 1"),
              {"the_same_call_gives_the_same_bytes", "bad_arguments_are_refused_and_nothing_is_written"});
}

// By day: what does not make each call many times over, for GEMMs on the host are slow.
TEST(MatmulGate, the_reference_as_a_candidate_stays_inside_and_refuses) {
  expect_held(gate("", "--only '[bn]*' --cases 40 --seed 1"),
              {"nothing_is_accessed_outside_the_tensors", "bad_arguments_are_refused_and_nothing_is_written"});
}

TEST(MatmulGate, the_reference_as_a_candidate_repeats_itself_and_its_sums_are_right) {
  expect_held(gate("", "--only '*[el]_s[ua]*' --cases 40 --seed 1"),
              {"the_same_call_gives_the_same_bytes", "matmul_sums_are_the_tensor_cores"});
}

class MatmulFaults : public testing::TestWithParam<WrongLibrary> {
 protected:
  static void expect_found(const std::string& statements) {
    const ShellAnswer ran = gate(GetParam().name, "--only '" + statements + "' --cases 150 --seed 1");
    mxcheck::test::expect_found(ran, GetParam(), GetParam().found_by);
    EXPECT_TRUE(ran.says("D differs from")) << ran.out;
  }
};

// The statement that finds it, asked alone by day; all about GEMMs at night.
TEST_P(MatmulFaults, are_found_and_named) { expect_found(GetParam().found_by); }
TEST_P(MatmulFaults, are_found_and_named_among_all_statements) { expect_found("matmul_*"); }

INSTANTIATE_TEST_SUITE_P(All, MatmulFaults, testing::ValuesIn(mxcheck::test::tabled_libraries("matmul")),
                         [](const auto& info) { return info.param.name; });

TEST(MatmulGate, d_that_is_cleared_before_c_is_read_from_it_is_found) {
  const WrongLibrary wrong = mxcheck::test::wrong_library("matmul", "d_cleared_first");
  mxcheck::test::expect_found(gate(wrong.name, "--only " + wrong.found_by + " --cases 60 --seed 1"), wrong,
                              wrong.found_by);
}

// Without a promised order of sums: BF16, of which the library has one variant, and by night FP8, of which it has 120,
// under tensor cores that keep 13 bits.
ShellAnswer claimed(const std::string& fault, const std::string& claim, const std::string& only) {
  return gate(fault, "--claim " + claim + " --cases 60 --seed 1 --only " + only);
}
constexpr const char* kSums = "matmul_is_a_sum_of_its_products";
const std::string kBf16Claim = "sm90_bf16+from_c=any_order";
const std::string kFp8Claim = "sm90_fp8+promote128=any_order+f13";

void expect_outside(const std::string& fault, const std::string& claim) {
  const ShellAnswer ran = claimed(fault, claim, kSums);
  EXPECT_EQ(ran.code, 1) << ran.out;
  for (const std::string& text : {std::string("D is outside of what any order of its sums can give"),
                                  std::string("whatever the order: "), "--claim " + claim + " --reproduce"})
    EXPECT_TRUE(ran.says(text)) << fault << ": " << text << ran.out;
}

TEST(AnyOrderClaim, holds_of_right_sums_in_whatever_order) {
  expect_held(claimed("", kBf16Claim, "'matmul_[io]*'"), {"matmul_of_small_integers_is_exact", kSums});
  for (const char* order : {"backwards", "fp32_sums"}) expect_held(claimed(order, kBf16Claim, kSums), {kSums});
}

TEST(AnyOrderClaim, holds_of_an_order_that_changes_from_call_to_call) {
  const std::string once = "--only 'the_same_call*' --cases 60 --seed 1";
  EXPECT_TRUE(gate("order_changes", once).says("FAILED        the_same_call_gives_the_same_bytes"));
  expect_held(claimed("order_changes", kBf16Claim, kSums), {kSums});
}

TEST(AnyOrderClaim, finds_what_is_no_order_of_the_sums) {
  for (const char* fault : {"k_block_dropped", "last_row_zero", "c_forgotten"}) expect_outside(fault, kBf16Claim);
  for (const char* fault : {"k_block_dropped", "output_cut"}) expect_outside(fault, kFp8Claim);
}

TEST(AnyOrderClaim, holds_of_fp8_and_finds_its_faults_by_night) {
  for (const char* order : {"", "no_promotion", "promotes_every_256", "a_scale_first", "fp32_sums", "order_changes"})
    expect_held(claimed(order, kFp8Claim, kSums), {kSums});
  for (const char* fault : {"last_row_zero", "scale_before", "c_forgotten"}) expect_outside(fault, kFp8Claim);
}

TEST(AnyOrderClaim, that_is_of_nothing_is_refused_with_what_there_is) {
  const auto refused = [](const ShellAnswer& ran, const std::string& text) {
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_TRUE(ran.says(text)) << ran.out;
  };
  refused(gate("", "--claim any_order"),
          "has operation matmul:any_order twice; --claim CONTRACT=CLAIM is about one of them");
  refused(gate("", "--claim exact=any_order"),
          "has no such operation; the contracts of its operations are sm90_fp8+promote128, sm90_bf16+from_c");
  refused(gate("", "--claim sm90_fp8+promote128=any_oder"), "has a matmul that nobody can check");
  refused(gate("", "--claim sm90_fp8+promote128=any_order --record any_order.h5"),
          "promises no bits: leave --record out");
  refused(mxcheck::test::gate_on("cpu", "", "--claim any_order 2>&1"), "the contracts of its operations are none");
}

TEST(MatmulGate, a_counterexample_shows_the_steps) {
  const ShellAnswer ran = gate("fp32_sums", "--only matmul_sums_are_the_tensor_cores");
  EXPECT_TRUE(ran.says("expected, under sm90_bf16")) << ran.out;
  EXPECT_TRUE(ran.says("window 2^")) << ran.out;
}

}  // namespace
