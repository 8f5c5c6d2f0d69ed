// Calls that the Hopper library refuses before it enqueues anything, or its plan kernel on the device: a status, a
// sentence, and no output byte changed. Needs a GPU; without one every test is skipped.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/sm90/device_interface.h"

namespace {

constexpr std::int64_t kRows = 70;
constexpr std::int64_t kCols = 96;
constexpr std::size_t kCodesAt = 256 << 10;
constexpr std::size_t kScalesAt = 512 << 10;
constexpr std::size_t kOffsetsAt = 600 << 10;
constexpr std::size_t kIndexAt = 610 << 10;
constexpr std::size_t kWorkspaceAt = 640 << 10;
constexpr std::size_t kReportAt = 1000 << 10;

// quantize 32x1 of 70 x 96 BF16 ones.
class Sm90Interface : public mxcheck::test::DeviceInterface {
 protected:
  Sm90Interface()
      : DeviceInterface("quantize", {kCodesAt, kOffsetsAt, kWorkspaceAt, std::size_t{256} << 10, kReportAt}, policy) {
    put(0, std::vector<std::uint16_t>(2 * kRows * kCols, 0x3F80));
    policy.size = sizeof(policy), policy.format = "e4m3", policy.recipe = "rceil";
    policy.block_rows = 32, policy.block_cols = 1, policy.rows = kRows, policy.cols = kCols;
    inputs = {tensor(0, {kDLBfloat, 16, 1}, shapes[0])};
    outputs = {tensor(kCodesAt, {kDLUInt, 8, 1}, shapes[1]), tensor(kScalesAt, {kDLUInt, 8, 1}, shapes[2])};
  }
  void SetUp() override {
    if (!on_device) GTEST_SKIP() << "no CUDA device";
  }

  void add_offsets(const std::vector<std::int64_t>& offsets) {
    put(kOffsetsAt, offsets);
    shapes[3][0] = static_cast<std::int64_t>(offsets.size());
    inputs.push_back(tensor(kOffsetsAt, {kDLInt, 64, 1}, shapes[3], 1));
  }
  void add_index(const std::vector<std::int32_t>& index) {
    put(kIndexAt, index);
    shapes[4][0] = static_cast<std::int64_t>(index.size());
    inputs.push_back(tensor(kIndexAt, {kDLInt, 32, 1}, shapes[4], 1));
  }

  mxcheck_policy policy{};
  std::int64_t shapes[5][2] = {{kRows, kCols}, {kRows, kCols}, {3, kCols}, {0, 0}, {0, 0}};
  std::int64_t strides[2] = {kCols, 1};
};

TEST_F(Sm90Interface, the_good_call_is_good) {
  EXPECT_EQ(run(), MXCHECK_OK) << message;
  EXPECT_FALSE(untouched());
}

TEST_F(Sm90Interface, a_host_pointer_is_refused) {
  inputs[0].data = host.data();
  expect_refused("x does not start in memory of a CUDA device");
}

TEST_F(Sm90Interface, a_tensor_that_ends_beyond_its_allocation_is_refused) {
  shapes[0][0] = shapes[1][0] = policy.rows = std::int64_t{1} << 40;
  expect_refused("in memory of a CUDA device");
}

TEST_F(Sm90Interface, a_tensor_that_says_it_is_on_the_host_is_refused) {
  outputs[0].device = {kDLCPU, 0};
  expect_refused("codes is on DLPack device 1: must be on CUDA, 2");
}

TEST_F(Sm90Interface, values_that_are_not_aligned_to_their_size_are_refused) {
  inputs[0].byte_offset = 1;
  expect_refused("x starts at an address that is not a multiple of its element's 2 bytes");
}

TEST_F(Sm90Interface, outputs_that_overlap_are_refused) {
  outputs[1].data = arena + kCodesAt + kRows * kCols - 1;
  expect_refused("output 1 overlaps output 0");
}

TEST_F(Sm90Interface, an_output_that_overlaps_the_input_is_refused) {
  inputs[0].data = arena + kCodesAt + kRows * kCols - 2;
  expect_refused("output 0 overlaps input 0");
}

TEST_F(Sm90Interface, a_stride_below_the_columns_is_refused) {
  strides[0] = kCols - 1;
  inputs[0].strides = strides;
  expect_refused("x has row stride 95: must be at least 96");
}

TEST_F(Sm90Interface, sizes_that_overflow_are_refused) {
  strides[0] = std::int64_t{1} << 60;
  inputs[0].strides = strides;
  expect_refused("overflows");
}

TEST_F(Sm90Interface, scales_of_another_shape_are_refused) {
  shapes[2][0] = 2;
  expect_refused("scales has shape 2 x 96: must be 3 x 96");
}

TEST_F(Sm90Interface, a_workspace_that_is_too_small_is_refused) {
  add_offsets({0, 30, kRows});
  call.workspace_bytes = 64;
  expect_refused("the workspace has 64 bytes: must have");
}

TEST_F(Sm90Interface, a_workspace_that_is_not_aligned_is_refused) {
  add_offsets({0, 30, kRows});
  call.workspace = arena + kWorkspaceAt + 8;
  expect_refused("the workspace must be aligned to 256 bytes");
}

TEST_F(Sm90Interface, a_call_of_the_first_version_without_a_report_is_taken) {
  call.size = offsetof(mxcheck_call, report);
  EXPECT_EQ(run(), MXCHECK_OK) << message;
}

TEST_F(Sm90Interface, offsets_that_descend_are_refused_on_the_device) {
  add_offsets({0, 60, 30, kRows});
  expect_refused_on_the_device("must be at least the one before it", 2, 30);
}

TEST_F(Sm90Interface, negative_offsets_are_refused_on_the_device) {
  add_offsets({-5, 30, kRows});
  expect_refused_on_the_device("offsets[0] must be 0", 0, -5);
}

TEST_F(Sm90Interface, offsets_that_end_elsewhere_are_refused_on_the_device) {
  add_offsets({0, 30, kRows - 1});
  expect_refused_on_the_device("the last of the offsets must be the number of rows", 2, kRows - 1);
}

TEST_F(Sm90Interface, scales_that_do_not_fit_the_offsets_are_refused_on_the_device) {
  add_offsets({0, 1, 2, kRows});  // 1 + 1 + 3 rows of scales, where the tensor has 3
  expect_refused_on_the_device("scales have another size", 3, 5);
}

TEST_F(Sm90Interface, the_first_row_index_that_is_outside_is_named) {
  std::vector<std::int32_t> index(kRows, 3);
  index[40] = kRows, index[69] = -1;
  add_index(index);
  expect_refused_on_the_device("the row index must be", 40, kRows);
}

TEST_F(Sm90Interface, a_second_tensor_of_offsets_is_refused) {
  add_offsets({0, kRows});
  add_offsets({0, kRows});
  expect_refused("is a second tensor of offsets");
}

}  // namespace
