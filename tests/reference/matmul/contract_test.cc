// A contract's text: parse_matmul_contract and to_text.

#include <gtest/gtest.h>

#include <string>

#include "numerics/error.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

TEST(MatmulContract, is_read_and_written) {
  for (const char* text : {"exact", "sm90_fp8+promote128", "sm90_fp8+promote64+a_first", "sm90_bf16+decode",
                           "sm90_bf16+from_c", "sm90_fp8+promote128+b_first+descending"}) {
    EXPECT_EQ(to_text(parse_matmul_contract(text)), text);
  }
  for (const char* text :
       {"", "sm90", "sm90_fp8+", "sm90_fp8+promote", "sm90_fp8+promote0", "sm90_fp8+promote33", "sm90_fp8+promote-1",
        "sm90_fp8+promotex", "exact+promote32", "sm90_fp8+a_first", "sm90_fp8+decode", "sm90_fp8+promote128+from_c",
        "sm100_mxf8f6f4+promote32", "exact+descending", "sm90_fp8+fast", "sm90_fp8_fp16+promote32"}) {
    EXPECT_THROW((void)parse_matmul_contract(text), Error) << text;
  }
}

TEST(MatmulContract, has_the_fields_that_its_text_says) {
  const MatmulContract c = parse_matmul_contract("sm90_fp8+descending+promote64+b_first");
  EXPECT_EQ(c.sum, &contract_named("sm90_fp8"));
  EXPECT_EQ(c.promotion, 64);
  EXPECT_EQ(c.order, MatmulContract::Order::b_first);
  EXPECT_TRUE(c.descending && !c.decodes && !c.from_c);
  EXPECT_EQ(to_text(c), "sm90_fp8+promote64+b_first+descending");
  const MatmulContract d = parse_matmul_contract("exact+from_c+decode");
  EXPECT_TRUE(d.decodes && d.from_c && !d.descending);
  EXPECT_EQ(d.promotion, 0);
}

TEST(MatmulContract, says_what_is_wrong_with_a_text) {
  const auto text = [](const char* contract) {
    try {
      (void)parse_matmul_contract(contract);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text("sm90_fp8+promote33"),
            "contract 'sm90_fp8+promote33': the interval must be a multiple of a step, which is 32");
  EXPECT_EQ(text("sm90_fp8+fast"),
            "contract 'sm90_fp8+fast': 'fast' is none of promoteN, a_first, b_first, decode, from_c, descending");
  EXPECT_EQ(text("sm91").substr(0, 41), "unknown contract 'sm91'; known are exact,");
}

}  // namespace
}  // namespace mxcheck
