// The gate's way to the GPU model, on a driver of host memory and a model that is the reference.

#include "properties/core/layers/layers.h"
#include "properties/operations/matmul/fields.h"
#include "properties/records/record.h"
#include "properties/records/replay.h"
#include "properties/report/report.h"
#include "tests/libraries/fake_cuda.h"

namespace mxcheck {
namespace {

constexpr const char* kStatement = "large_products_equal_the_gpu_model";
constexpr const char* kDense =
    "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=128x128 scales=fp32 groups=none "
    "d=fp32 "
    "rows=70 cols=67 depth=384 data=normal seed=1";

class LargeMatmuls : public test::FakeCuda {
 protected:
  static GateOptions options() {
    GateOptions o = FakeCuda::options("libfake_matmul.so", kStatement);
    o.gpu_model = file("libfake_gpu_model.so");
    return o;
  }
  // The report on a library that is wrong in this way.
  static GateReport caught(const char* mode) {
    setenv("FAKE_CUDA", mode, 1);
    GateReport report = one(kDense);
    const test::WrongLibrary wrong = test::wrong_library("cuda_matmul", mode);
    expect_found(report, wrong);
    if (exit_code(report) == 1) {
      EXPECT_EQ(found(report), wrong.says);
    }
    return report;
  }
  static GateReport one(const std::string& c) { return reproduce(options(), std::string(kStatement) + ": " + c); }
  // The finding, or why there is none.
  static std::string found(const GateReport& report) {
    const std::string finding = FakeCuda::found(report);
    return finding.empty() ? report.statements.at(0).reason : finding;
  }
};

TEST_F(LargeMatmuls, without_the_library_they_are_not_offered_and_the_report_says_why) {
  GateOptions o = options();
  o.gpu_model = "/nowhere/libmxcheck_gpu_model.so";
  const GateReport report = gate(o);
  ASSERT_EQ(report.statements.size(), 1U);
  const StatementResult& r = report.statements[0];
  EXPECT_EQ(r.verdict, Verdict::not_offered);
  EXPECT_EQ(r.cases, 0);
  EXPECT_NE(r.reason.find("looked for /nowhere/libmxcheck_gpu_model.so"), std::string::npos) << r.reason;
  EXPECT_NE(not_offered_text(report).find("not offered"), std::string::npos);
  EXPECT_EQ(exit_code(report), 4);  // nothing ran
}

TEST_F(LargeMatmuls, every_variant_that_the_model_knows_is_compared) {
  GateOptions o = options();
  o.suite = Suite::full;
  const GateReport report = gate(o);
  EXPECT_EQ(exit_code(report), 0) << found(report);
  const StatementResult& r = report.statements.at(0);
  // Promoted: 2 kinds of scales and none, 2 blocks of B where there are scales, 3 groupings, 2 types of D; decoded: MX
  // blocks and NVFP4; sums. With 4 corners each, and each layer's two products
  // and two gradients once; but nothing is known of the contract with scales in another order.
  EXPECT_EQ(r.variants, 5 * 3 * 2 + 2 * 3 * 2 + 3);
  EXPECT_EQ(r.cases, 4 * r.variants + 4 * static_cast<std::int64_t>(production_layers().size()));
  EXPECT_EQ(r.not_applicable + r.options_not_offered, 0);
}

TEST_F(LargeMatmuls, the_model_is_asked_what_the_candidate_was_asked) {
  const char* promoted = "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 ";
  const char* decoded = "op=matmul:sm90_bf16+decode format=e4m3 format_b=e4m3 block=1x32 block_b=1x32 scales=e8m0 ";
  const char* nvfp4 = "op=matmul:sm90_bf16+decode format=e2m1 format_b=e2m1 block=1x16 block_b=1x16 scales=e4m3 ";
  for (const std::string& c :
       {std::string(kDense),
        std::string(promoted) + "block_b=1x128 scales=e8m0 groups=none d=bf16 rows=33 cols=40 depth=200 gather=21 "
                                "data=normal seed=1",
        std::string(promoted) + "block_b=128x128 scales=fp32 groups=rows d=fp32 rows=90 cols=40 depth=256 "
                                "experts=0,7,7,90 gather=95 data=normal seed=2 adds=1 alpha=0.5",
        std::string(promoted) + "block_b=1x128 scales=fp32 groups=depth d=fp32 rows=30 cols=9 depth=500 "
                                "experts=0,128,128,384,500 data=normal seed=3 adds=1",
        std::string(decoded) + "groups=none d=bf16 rows=20 cols=30 depth=77 data=wide seed=4",
        std::string(decoded) + "groups=rows d=fp32 rows=20 cols=30 depth=64 experts=0,3,20 gather=7 data=normal seed=5",
        std::string(decoded) + "groups=depth d=fp32 rows=20 cols=30 depth=100 experts=0,0,32,100 data=normal seed=6",
        std::string(nvfp4) + "groups=none d=bf16 rows=20 cols=30 depth=77 data=wide seed=4",
        std::string(nvfp4) + "groups=rows d=fp32 rows=20 cols=30 depth=64 experts=0,3,20 gather=7 data=normal seed=5",
        std::string(nvfp4) + "groups=depth d=fp32 rows=20 cols=30 depth=100 experts=0,0,48,100 data=normal seed=6",
        std::string("op=matmul:sm90_bf16+from_c format=bf16 format_b=bf16 block=none block_b=none scales=none "
                    "groups=none d=fp32 rows=50 cols=60 depth=70 data=boundaries seed=7")}) {
    const GateReport report = one(c);
    EXPECT_EQ(exit_code(report), 0) << c << "\n" << found(report);
    EXPECT_EQ(report.statements.at(0).cases, 1) << c;
  }
}

TEST_F(LargeMatmuls, what_the_model_does_not_know_is_not_claimed) {
  const GateReport report =
      one("op=matmul:sm90_bf16+from_c format=bf16 format_b=bf16 block=none block_b=none scales=none groups=none d=fp32 "
          "rows=5 cols=6 depth=7 data=normal seed=7 adds=1");
  EXPECT_EQ(report.statements.at(0).verdict, Verdict::inconclusive);
  EXPECT_EQ(found(report), "the statement says nothing about this case");
}

TEST_F(LargeMatmuls, one_wrong_bit_is_found_and_explained) {
  const GateReport report = caught("one_bit");
  const std::string text = counterexample_text(report, report.statements[0], "");
  for (const char* words : {"expected, under sm90_fp8+promote128", "k 0..31", "expected  0x", "observed  0x",
                            "1 of 4690 elements of d (70 x 67) differ; first at (0, 37)"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
  EXPECT_EQ(text.find("worst at"), std::string::npos) << text;
}

TEST_F(LargeMatmuls, a_failing_case_shrinks_to_the_first_output) {
  const GateReport report = gate(options(), "two_last");
  expect_found(report, test::wrong_library("cuda_matmul", "two_last"));
  ASSERT_TRUE(report.statements.at(0).counterexample);
  const Case& minimal = report.statements[0].counterexample->minimal;
  EXPECT_LE(minimal.rows * minimal.cols, 2) << to_text(minimal);
  EXPECT_LE(matmul_case(minimal).depth, 1) << to_text(minimal);
}

TEST_F(LargeMatmuls, writing_past_an_output_that_stays_on_the_device_is_caught) { caught("past_d"); }
TEST_F(LargeMatmuls, a_fault_of_the_candidate_is_the_candidates) { caught("faults"); }

TEST_F(LargeMatmuls, a_model_that_does_not_run_here_is_inconclusive) {
  setenv("FAKE_MODEL", "fails", 1);
  const GateReport report = gate(options());
  EXPECT_EQ(report.statements.at(0).verdict, Verdict::inconclusive);
  const test::WrongLibrary wrong = test::wrong_library("gpu_model", "fails");
  EXPECT_EQ(exit_code(report), wrong.exit_code());
  EXPECT_EQ(found(report), wrong.says);
}

TEST_F(LargeMatmuls, a_model_that_differs_from_the_reference_is_no_fault_of_the_candidate) {
  setenv("FAKE_MODEL", "is_wrong", 1);
  EXPECT_NE(found(one(kDense)).find(test::wrong_library("gpu_model", "is_wrong").says), std::string::npos);
}

TEST_F(LargeMatmuls, no_record_has_them) {
  GateOptions o = options();
  o.record = true;
  const GateReport report = gate(o);
  ASSERT_TRUE(report.record);
  EXPECT_EQ(exit_code(report), 0);
  EXPECT_TRUE(report.record->statements.empty());
  Record forged = *report.record;
  forged.statements = {kStatement};
  const ReplayReport replayed = replay(forged, 1, [](const ReplayedStatement&) {});
  EXPECT_EQ(replayed.unknown, std::vector<std::string>{kStatement});
}

}  // namespace
}  // namespace mxcheck
