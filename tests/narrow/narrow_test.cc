// The gate's quick suite against libraries that are wrong in a narrow part of the domain: from a width on, from the
// ninth expert on, at one address, for one value of a policy's field. Each is found, by the statement that is named
// here; the whole suite is run on each at night.

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/tools/shell.h"

namespace {

struct Narrow {
  const char* name;       // in faults.h
  const char* statement;  // that finds it
  int exit_code = 1;
  const char* library = MXCHECK_CPU_LIBRARY;
  const char* suite = "quick";
  friend void PrintTo(const Narrow& one, std::ostream* out) { *out << one.name; }
};

constexpr const char* kMatmul = MXCHECK_HOST_MATMUL;
constexpr const char* kQuantizes = "quantize_equals_the_reference";
constexpr const char* kRounds = "route_round_equals_the_reference";
constexpr const char* kMultiplies = "matmul_equals_its_contract";

constexpr Narrow kAll[] = {
    {"truncates_from_512_columns", kQuantizes},
    {"truncates_from_700_columns", kQuantizes},
    {"truncates_from_1280_columns", kQuantizes},
    {"truncates_from_250000_elements_in_other_blocks", kQuantizes},
    {"wrong_columns_from_1280_rows", kQuantizes},
    {"wrong_in_the_ninth_expert", kQuantizes},
    {"crashes_where_no_expert_has_a_row", kQuantizes, 6},
    {"x_beside_16_bytes", kQuantizes},
    {"codes_beside_4_bytes", kQuantizes},
    {"rows_lost_with_more_than_8_threads", kQuantizes},
    {"rows_lost_with_5_to_7_threads", kQuantizes},
    {"keeps_4_kilobytes_a_call", "ten_thousand_calls_keep_no_memory"},
    {"counts_of_the_300th_expert", "route_metadata_equals_the_reference"},
    {"experts_beyond_the_8th_are_one", "route_metadata_equals_the_reference"},
    {"tiles_above_128_in_metadata", "route_metadata_equals_the_reference"},
    {"tiles_above_128_in_rounding", kRounds},
    {"sigmoid_of_the_last_token_beyond_1024", "route_equals_the_reference"},
    {"a_scale_of_0_is_none", "route_equals_the_reference"},
    {"a_negative_scale_loses_its_sign", "route_equals_the_reference"},
    {"a_seed_of_48_bits", kRounds},
    {"gemm_last_row_of_the_18th_expert", kMultiplies, 1, kMatmul},
    {"gemm_last_row_from_a_k_of_8192", kMultiplies, 1, kMatmul},
    {"gemm_row_191_from_column_4096", kMultiplies, 1, kMatmul},
    {"gemm_d_beside_16_bytes", kMultiplies, 1, kMatmul},
    {"gemm_a_row_index_of_16_bits", kMultiplies, 1, kMatmul},
    {"column_codes_of_wide_tensors_that_end_in_one_row", "quantize_dual_equals_the_reference"},
    {"three_threads_forget_a_row", kQuantizes},
    {"a_wide_row_of_a_strided_tensor", "cast_equals_the_reference"},
    {"scale_254_with_64_experts", "dequantize_equals_the_reference"},
    {"padding_of_many_experts_is_zero", "scale_layout_equals_the_reference"},
    {"an_expert_of_8_bits", "route_equals_the_reference"},
    {"a_step_of_32_bits", kRounds},
    {"gradient_of_the_33rd_slot", "route_backward_equals_the_reference"},
    {"a_width_of_2880_with_a_ragged_end", kQuantizes},
    {"eight_of_384_experts", "route_equals_the_reference"},
    {"wide_e5m2_beside_4_bytes", kQuantizes, 1, MXCHECK_CPU_LIBRARY, "full"},
    {"gemm_alpha_of_a_negative_zero", kMultiplies, 1, kMatmul},
    {"gemm_rows_beyond_65535", kMultiplies, 1, kMatmul},
    {"gemm_an_empty_last_group_in_depth", kMultiplies, 1, kMatmul},
};

class NarrowFaults : public testing::TestWithParam<Narrow> {};

TEST_P(NarrowFaults, are_found) {
  const Narrow& one = GetParam();
  const mxcheck::test::ShellAnswer ran = mxcheck::test::run_shell(
      std::string("NARROW=") + one.name + " NARROW_OF=" + one.library + " " MXCHECK_TOOL " gate --candidate " +
      MXCHECK_NARROW_LIBRARY " --seed 1 --save '' --suite " + one.suite + " --only " + one.statement + " 2>&1");
  EXPECT_EQ(ran.code, one.exit_code) << ran.out;
  EXPECT_TRUE(ran.says(std::string("FAILED        ") + one.statement)) << ran.out;
}

INSTANTIATE_TEST_SUITE_P(All, NarrowFaults, testing::ValuesIn(kAll),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
