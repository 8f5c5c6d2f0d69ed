// The gate on GEMMs: a library that is the reference holds, and each fault is found and named.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_held, mxcheck::test::ShellAnswer, mxcheck::test::WrongLibrary;

ShellAnswer gate(const std::string& fault, const std::string& arguments) {
  const std::string format = fault.starts_with("nvfp4") ? " MATMUL_FORMAT=e2m1" : "";
  return mxcheck::test::gate_on(MXCHECK_HOST_MATMUL, "MATMUL_FAULT=" + fault + format, arguments + " 2>&1");
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

// NVFP4 operands too; and no probe has a C, which the contract of the BF16 operation would start from.
TEST(MatmulGate, the_reference_as_a_candidate_is_identified_as_what_it_declares) {
  const ShellAnswer ran =
      mxcheck::test::run_shell("MATMUL_FORMAT=e2m1 " MXCHECK_TOOL " identify --candidate " MXCHECK_HOST_MATMUL " 2>&1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_TRUE(ran.says("3 policies asked of 9 offered: 3 as declared")) << ran.out;
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

TEST(MatmulGate, counts_that_are_out_of_range_and_not_refused_are_found) {
  const WrongLibrary wrong = mxcheck::test::wrong_library("matmul", "masked_counts_clamped");
  mxcheck::test::expect_found(gate(wrong.name, "--only " + wrong.found_by + " --cases 60 --seed 1"), wrong,
                              wrong.found_by);
}

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

// The accuracy of a contract: of what the library follows, and of what is more accurate.
constexpr const char* kErrors = "matmul_is_as_accurate_as_its_contract";
const std::string kBf16Accuracy = "sm90_bf16+from_c=as_accurate_as:sm90_bf16+from_c";
const std::string kFp8Accuracy = "sm90_fp8+promote128=as_accurate_as:sm90_fp8+promote128";

void expect_less_accurate(const std::string& fault, const std::string& claim) {
  const ShellAnswer ran = claimed(fault, claim, kErrors);
  EXPECT_EQ(ran.code, 1) << ran.out;
  for (const std::string& text :
       {std::string("D is less accurate than its contract"), std::string(" and is larger in "),
        std::string("chance    below "), std::string("; level 1e-09 over "), std::string("of all the one that shows"),
        "--claim " + claim + " --suite quick --seed 1 --only"})
    EXPECT_TRUE(ran.says(text)) << fault << ": " << text << ran.out;
}

TEST(AccuracyClaim, holds_of_the_contract_and_of_sums_in_another_order) {
  const ShellAnswer same = claimed("", kBf16Accuracy, kErrors);
  expect_held(same, {kErrors});
  EXPECT_TRUE(same.says(" outputs compared, the error differs in 0")) << same.out;
  expect_held(claimed("backwards", kBf16Accuracy, kErrors), {kErrors});
}

// Tensor cores cut what FP32 sums round.
TEST(AccuracyClaim, finds_sums_that_are_cut_where_the_contract_rounds) {
  expect_less_accurate("", "sm90_bf16+from_c=as_accurate_as:ieee_fp32+from_c");
}

TEST(AccuracyClaim, finds_coarser_accumulators) { expect_less_accurate("no_promotion", kFp8Accuracy); }

TEST(AccuracyClaim, holds_of_fp8_and_finds_its_faults_by_night) {
  for (const char* order : {"", "a_scale_first", "backwards", "fp32_sums", "order_changes"})
    expect_held(claimed(order, kFp8Accuracy, kErrors), {kErrors});
  for (const char* fault : {"promotes_every_256", "output_cut"}) expect_less_accurate(fault, kFp8Accuracy);
  for (const char* fault : {"k_block_dropped", "last_row_zero", "scale_before", "c_forgotten"})
    expect_outside(fault, kFp8Accuracy);
}

TEST(AccuracyClaim, holds_of_bf16_and_finds_its_faults_by_night) {
  for (const char* order : {"fp32_sums", "order_changes"})
    expect_held(claimed(order, kBf16Accuracy, kErrors), {kErrors});
  expect_held(claimed("fp32_sums", "sm90_bf16+from_c=as_accurate_as:ieee_fp32+from_c", kErrors), {kErrors});
  expect_less_accurate("fp32_sums", "sm90_bf16+from_c=as_accurate_as:exact");
  // No other statement asks for bits of an operation under such a claim.
  expect_held(claimed("order_changes", kBf16Accuracy + " --claim " + kFp8Accuracy, "'[bmnt]*'"),
              {kErrors, kSums, "matmul_of_small_integers_is_exact"});
}

TEST(AccuracyClaim, is_of_all_cases_and_of_one_shard) {
  const std::string claim = "--claim " + kBf16Accuracy + " --only " + kErrors + " --seed 1 --cases 60";
  int with_cases = 0, without = 0;
  for (const char* shard : {"1/2", "2/2"}) {
    const ShellAnswer ran = gate("", claim + " --shard " + shard);
    with_cases += ran.says(" outputs compared, ") ? 1 : 0;
    without += ran.says("no case of it falls to this shard") ? 1 : 0;
  }
  EXPECT_EQ(with_cases, 1);
  EXPECT_EQ(without, 1);
  const ShellAnswer one =
      gate("", "--claim " + kBf16Accuracy + " --reproduce '" + kErrors +
                   ": op=matmul:as_accurate_as:sm90_bf16+from_c format=bf16 format_b=bf16 block=none "
                   "block_b=none scales=none groups=none d=fp32 rows=16 cols=16 depth=512 data=normal "
                   "seed=1'");
  EXPECT_EQ(one.code, 4) << one.out;
  EXPECT_TRUE(one.says("the verdict is of all cases together: one shows nothing")) << one.out;
}

TEST(AccuracyClaim, of_no_contract_is_refused) {
  for (const auto& [claim, text] :
       {std::pair{"as_accurate_as:any_order", "only a contract that promises bits"},
        std::pair{"as_accurate_as:sm90_fp8_fp16", "FP32 accumulators alone"},
        std::pair{"as_accurate_as:sm90_tf32", "no value is the exact one"},
        std::pair{"as_accurate_as:", "that nobody can check"}, std::pair{"as_accurate_as", "that nobody can check"}}) {
    const ShellAnswer ran = gate("", "--claim sm90_bf16+from_c=" + std::string(claim));
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_TRUE(ran.says(text)) << claim << ran.out;
  }
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
  refused(mxcheck::test::gate_on("cpu", "", "--claim any_order 2>&1"), "no operation of it has a contract");
}

TEST(MatmulGate, a_counterexample_shows_the_steps) {
  const ShellAnswer ran = gate("fp32_sums", "--only matmul_sums_are_the_tensor_cores");
  EXPECT_TRUE(ran.says("expected, under sm90_bf16")) << ran.out;
  EXPECT_TRUE(ran.says("window 2^")) << ran.out;
}

}  // namespace
