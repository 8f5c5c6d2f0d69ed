// The gate on libraries that are right: the reference itself, and many that offer less than it or behave unlike others.
// None may be called wrong, and what is not offered is said in words.

#include <nlohmann/json.hpp>

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_right;
using Ran = mxcheck::test::ShellAnswer;
const auto gate = mxcheck::test::gate_on_reference;

// Every format by every recipe, in rows and in columns; more blocks, layouts and types in whole_test.cc.
constexpr const char* kEveryRecipe =
    "operations=quantize,dequantize;"
    "with=block=1x32 layout=compact x=bf16,block=32x1 layout=compact x=bf16";

TEST(RightLibraries, the_reference_keeps_every_law_of_quantization_in_every_format_and_recipe) {
  for (const char* law :
       {"dequantize_inverts*", "the_sign*", "scaling_by*", "permuting_blocks*", "column_cast*", "padding*", "tails*"}) {
    SCOPED_TRACE(law);
    expect_right(gate(kEveryRecipe, std::string("--cases 60 --seed 1 --only '") + law + "'"));
  }
}
TEST(RightLibraries, the_reference_equals_itself_in_every_format_and_recipe) {
  expect_right(gate(kEveryRecipe, "--cases 60 --seed 1 --only 'quantize_equals_the_reference'"));
}

struct Library {
  const char* name;
  const char* settings;
  const char* arguments = "--cases 40 --seed 3";
  const char* says = "";
  friend void PrintTo(const Library& library, std::ostream* out) { *out << library.name; }
};

class UnusualLibraries : public testing::TestWithParam<Library> {};

TEST_P(UnusualLibraries, are_right) {
  const Ran ran = gate(GetParam().settings, GetParam().arguments);
  expect_right(ran);
  EXPECT_NE(ran.out.find(GetParam().says), std::string::npos) << ran.out;
}

#define TE "variant=op=quantize format=e4m3 recipe=te block=1x32 layout=compact x=bf16"
#define FEW "operations=quantize,quantize_dual,route;one_of=797"           // of each operation's variants, one in 797
#define GEMM "operations=matmul;contracts=sm90_fp8+promote128;one_of=397"  // one
#define LAYERS "operations=moe_forward,moe_backward;one_of=5"              // both operations, some of the recipes
#define MANY "one_of=397;contracts=sm90_fp8+promote128"                    // thirty, of every kind of operation

const Library kLibraries[] = {
    {"of_one_variant", TE, "--seed 3", "offers quantize in 1 variants"},
    {"of_a_few_variants_that_follow_no_rule", "one_of=97;contracts=sm90_fp8;operations=quantize,dequantize,route"},
    {"of_at_most_64_x_64", FEW ";max_rows=64;max_cols=64"},
    {"of_small_gemms_of_aligned_operands", GEMM ";max_rows=16;max_cols=16;refuses=misaligned", "--cases 10 --seed 3"},
    {"of_at_most_one_row", FEW ";max_rows=1"},
    {"of_at_most_one_column", FEW ";max_cols=1"},
    {"of_at_most_64_x_64_in_the_whole_suite",
     "operations=quantize,dequantize,route_metadata;one_of=797;max_rows=64;max_cols=64", "--seed 3"},
    {"of_at_most_one_row_in_the_whole_suite", "operations=quantize,dequantize,route_metadata;one_of=797;max_rows=1",
     "--seed 3"},
    {"of_multiples_of_128", MANY ";rows_multiple=128;cols_multiple=128"},
    {"of_multiples_of_96", MANY ";rows_multiple=96;cols_multiple=96"},
    {"of_one_row_of_20480",
     "operations=quantize,quantize_dual,dequantize,route_round;one_of=397;max_rows=1;cols_multiple=20480;max_cols="
     "20480",
     "--cases 40 --seed 3", "this suite has no case for what the candidate offers"},
    {"without_offsets", "operations=quantize;one_of=1597;refuses=offsets", "--cases 40 --seed 3",
     "refused       quantize: experts 1, ..., 512"},
    {"without_strides", "operations=quantize;one_of=97;refuses=strides", "--cases 40 --seed 3",
     "refused       quantize: row stride, beyond the columns "},
    {"of_any_column_stride", "operations=quantize,cast;one_of=797;col_stride=1"},
    {"without_a_row_index", "operations=quantize;one_of=397;refuses=index"},
    {"without_a_row_index_of_nvfp4", "operations=quantize_nvfp4;one_of=17;refuses=index", "--cases 40 --seed 3",
     "refused       quantize_nvfp4: row index "},
    {"without_any_option", "operations=quantize,route;one_of=1597;refuses=offsets,strides,index"},
    {"of_aligned_operands", "operations=matmul;one_of=7;refuses=misaligned;contracts=sm90_fp8"},
    {"of_any_nan",
     "operations=dequantize,matmul,route,route_backward;one_of=97;any_nan=1;contracts=sm90_fp8+promote128"},
    {"with_a_timer_and_a_thread", "operations=dequantize,route;one_of=97;has_timer=1"},
    {"that_print", "operations=quantize,route;one_of=1597;prints=1"},
    {"with_other_scripts", "operations=dequantize,route;one_of=97;other_script=1"},
    {"that_are_slow", TE ";sleep_us=1000", "--cases 10 --seed 3"},
    {"with_a_large_workspace", TE ";workspace=268435456", "--cases 2 --seed 3 --only 'every_amax*'"},
    {"of_dequantize_alone", "operations=dequantize;one_of=7", "--cases 40 --seed 3",
     "the candidate offers none of its variants\n"},
    {"of_route_metadata_alone", "operations=route_metadata"},
    {"of_route_metadata_alone_in_the_whole_suite", "operations=route_metadata", "--seed 3"},
    {"of_layers_of_a_few_recipes", LAYERS, "--cases 20 --seed 3"},
    {"of_layers_of_widths_of_128", LAYERS ";refuses=widths,misaligned", "--cases 5 --seed 3 --only 'nothing_is_acc*'",
     "refused       moe_forward: d 8-31"},
    {"of_layers_of_any_nan", LAYERS ";any_nan=1", "--cases 20 --seed 3 --only 'moe_*'"},
    {"of_layers_that_keep_their_weights", LAYERS ";kept_weights=1", "--cases 20 --seed 3 --only 'kept_weights*'"},
    {"of_layers_that_check_their_weights", LAYERS ";kept_weights=1", "--cases 10 --seed 3 --only 'a_check_of_kept*'"},
    {"of_layers_that_keep_their_weights_and_refuse_what_is_wrong", "operations=moe_forward;one_of=5;kept_weights=1",
     "--cases 10 --seed 3 --only '*refused*'"},
    {"of_layers_of_at_most_64_x_64", LAYERS ";max_rows=64;max_cols=64", "--cases 20 --seed 3"},
    {"of_ranks_of_at_most_64_x_64", "operations=dispatch,combine;max_rows=64;max_cols=64", "--cases 20 --seed 3"},
    {"of_ranks_of_one_token", "operations=dispatch,combine;max_rows=1", "--cases 20 --seed 3"},
    {"of_losses_of_at_most_one_row", "operations=route_balance_loss,route_z_loss;max_rows=1", "--cases 20 --seed 3"},
    {"of_one_contract", "operations=matmul;contracts=sm90_bf16+decode;one_of=47"},
};

INSTANTIATE_TEST_SUITE_P(All, UnusualLibraries, testing::ValuesIn(kLibraries),
                         [](const auto& info) { return std::string(info.param.name); });

// At night the same with more operations, GEMMs among them: what a call costs here is what the reference takes.
const Library kOfMany[] = {{"of_at_most_64_x_64", MANY ";max_rows=64;max_cols=64"},
                           {"of_at_most_one_row", MANY ";max_rows=1"},
                           {"of_at_most_one_column", MANY ";max_cols=1"},
                           {"without_offsets", "operations=quantize,quantize_dual;one_of=397;refuses=offsets",
                            "--cases 40 --seed 3", "refused       quantize: experts 1, ..., 512"},
                           {"without_any_option", MANY ";refuses=offsets,strides,index,misaligned"},
                           {"with_a_timer_and_a_thread", "one_of=397;has_timer=1;contracts=sm90_fp8"},
                           {"that_print", "one_of=397;prints=1;contracts=sm90_fp8"},
                           {"with_other_scripts", "one_of=397;other_script=1;contracts=sm90_fp8"}};

INSTANTIATE_TEST_SUITE_P(OfMany, UnusualLibraries, testing::ValuesIn(kOfMany),
                         [](const auto& info) { return std::string(info.param.name); });

// Whatever bytes a library's name has, and whatever it prints.
TEST(RightLibraries, what_is_written_for_machines_stays_whole) {
  const Ran ran = gate(TE ";other_script=1;prints=1", "--cases 5 --seed 3 --json 2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_FALSE(nlohmann::json::parse(ran.out, nullptr, false).is_discarded()) << ran.out;
}

}  // namespace
