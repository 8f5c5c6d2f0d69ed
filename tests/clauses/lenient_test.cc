// The gate against libraries that accept one kind of bad argument each, and are right otherwise: every kind is found,
// by the statement about bad arguments, and named.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <ostream>
#include <string>

namespace {

struct Lenient {
  const char* mode;  // of lenient.cc
  const char* says;  // part of the report
  const char* operation = "quantize";
  const char* library = MXCHECK_CPU_LIBRARY;
  friend void PrintTo(const Lenient& one, std::ostream* out) { *out << one.mode; }
};

constexpr const char* kMatmul = MXCHECK_HOST_MATMUL;

constexpr Lenient kAll[] = {
    {"small_size", "the call's size is 4, and the candidate returned MXCHECK_OK"},
    {"null_policy", "the policy is a null pointer"},
    {"null_inputs", "inputs is a null pointer"},
    {"null_outputs", "outputs is a null pointer"},
    {"workspace_null", "the workspace is a null pointer"},
    {"workspace_small", "the workspace is one byte too small"},
    {"first_input_missing", "the first input is missing"},
    {"input_more", "the last input is there twice"},
    {"output_missing", "the last output is missing"},
    {"output_more", "the last output is there twice"},
    {"rows", "the policy's rows are "},
    {"cols", "the policy's cols "},
    {"policy_size", "the policy's size is 8"},
    {"policy_size", "the policy's size is 8", "route"},
    {"threads", "the number of threads is negative"},
    {"layout", "the layout is "},
    {"block", "the blocks have "},
    {"null_data", "its data is a null pointer"},
    {"null_shape", "its shape is a null pointer"},
    {"first_extent_negative", "its first extent is negative"},
    {"last_extent_negative", "its last extent is negative"},
    {"row_missing", "it has one row too few"},
    {"row_more", "it has one row too many"},
    {"column_missing", "it has one column too few"},
    {"column_more", "it has one column too many"},
    {"column_more", "it has one column too many", "route_round"},
    {"dimension_missing", "it has one dimension too few"},
    {"dimension_more", "it has one dimension too many"},
    {"any_dtype", "it has another dtype"},
    {"lanes", "its dtype has two lanes"},
    {"device_kind", "it is on another kind of device"},
    {"device_number", "it is on device number 1"},
    {"column_stride", "its column stride is 2"},
    {"rows_overlap", "its rows overlap by an element"},
    {"row_stride_zero", "its row stride is 0"},
    {"row_stride_negative", "its row stride is negative"},
    {"gaps", "it has gaps between rows"},
    {"gaps", "it has gaps between rows", "dequantize"},
    {"integers_more", "there are offsets, which the operation has not", "cast"},
    {"integers_more", "there is a row index, which the operation has not", "dequantize"},
    {"rows", "the policy's rows are", "route"},
    {"no_format", "a router has a format", "route"},
    {"no_block", "a router has blocks", "route_backward"},
    {"layout", "the layout is", "route"},
    {"bias", "bias is 2", "route"},
    {"nan", "what happens to NaN is", "route_backward"},
    {"renormalize", "renormalize is 2", "route_round"},
    {"groups_kept", "groups are kept and there are none", "route"},
    {"groups", "groups", "route"},
    {"top_k", "top_k is ", "route_backward"},
    {"tile", "the tile is ", "route_round"},
    {"accumulate", "accumulate is 2", "matmul", kMatmul},
    {"depth", "depth", "matmul", kMatmul},
    {"scale_type", "the type of scales is ", "matmul", kMatmul},
    {"grouping", "groups", "matmul", kMatmul},
    {"block_b", "the blocks of the second operand ", "matmul", kMatmul},
    {"input_more", "is there twice", "matmul", kMatmul},
    {"lanes", "its dtype has two lanes", "matmul", kMatmul},
};

struct Ran {
  int code;
  std::string out;
};

Ran gate(const Lenient& one) {
  const std::string command = std::string("LENIENT_OF=") + one.library + " LENIENT_OPERATION=" + one.operation +
                              " LENIENT=" + one.mode +
                              " " MXCHECK_TOOL " gate --candidate " MXCHECK_LENIENT_LIBRARY
                              " --only bad_arguments_are_refused_and_nothing_is_written --cases 60 --seed 1 --save ''"
                              " --jobs 1 2>&1";
  Ran ran{-1, {}};
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) ran.out += buffer.data();
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

class LenientLibraries : public testing::TestWithParam<Lenient> {};

TEST_P(LenientLibraries, are_found_and_named) {
  const Ran ran = gate(GetParam());
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_NE(ran.out.find(GetParam().says), std::string::npos) << GetParam().says << "\n" << ran.out;
}

INSTANTIATE_TEST_SUITE_P(All, LenientLibraries, testing::ValuesIn(kAll),
                         [](const auto& info) { return std::string(info.param.mode) + "_" + info.param.operation; });

TEST(LenientLibraries, limits_that_no_shape_has_are_refused_by_name) {
  constexpr Lenient kLimits[] = {
      {"limit_negative", "has operation quantize with max_rows -1: must be 0 (no limit) or more"},
      {"multiple_zero", "has operation quantize with cols_multiple 0: must be 1 to 2^20"},
      {"multiple_negative", "has operation quantize with rows_multiple -32: must be 1 to 2^20"},
      {"multiple_huge", "has operation quantize with cols_multiple 9223372036854775807: must be 1 to 2^20"},
      {"multiple_above_limit", "has operation quantize with cols_multiple 32, which is above max_cols 31"},
  };
  for (const Lenient& one : kLimits) {
    const Ran ran = gate(one);
    EXPECT_EQ(ran.code, 2) << one.mode << ran.out;
    EXPECT_NE(ran.out.find(one.says), std::string::npos) << one.mode << ran.out;
  }
}

// The wrapper itself does no harm: with nothing that it lets through, the library is right.
TEST(LenientLibraries, that_accept_nothing_hold) {
  const Ran ran = gate({"nothing", ""});
  EXPECT_EQ(ran.code, 0) << ran.out;
}

}  // namespace
