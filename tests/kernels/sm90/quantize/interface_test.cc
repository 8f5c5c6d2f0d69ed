// What the Hopper library refuses before it enqueues anything, and what its plan kernel refuses on the device: a
// status, a sentence, and no output byte changed. Needs a GPU; without one every test is skipped.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "tests/kernels/loaded_library.h"

namespace {

constexpr std::int64_t kRows = 70;
constexpr std::int64_t kCols = 96;
constexpr std::size_t kArena = std::size_t{1} << 20;
constexpr std::size_t kCodesAt = 256 << 10;
constexpr std::size_t kScalesAt = 512 << 10;
constexpr std::size_t kOffsetsAt = 600 << 10;
constexpr std::size_t kIndexAt = 610 << 10;
constexpr std::size_t kWorkspaceAt = 640 << 10;
constexpr std::size_t kReportAt = 1000 << 10;
constexpr unsigned char kPoison = 0xA5;

// quantize 32x1 of 70 x 96 BF16 ones, in one allocation whose outputs are poisoned; tests change what they like.
class Sm90Interface : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&arena), kArena), cudaSuccess);
    ASSERT_EQ(cudaMemset(arena, kPoison, kArena), cudaSuccess);
    const std::vector<std::uint16_t> ones(2 * kRows * kCols, 0x3F80);
    put(0, ones.data(), ones.size() * 2);
    put(kReportAt, std::array<char, sizeof(mxcheck_device_report)>{}.data(), sizeof(mxcheck_device_report));
    policy.size = sizeof(policy), policy.format = "e4m3", policy.recipe = "rceil";
    policy.block_rows = 32, policy.block_cols = 1, policy.rows = kRows, policy.cols = kCols;
    inputs = {tensor(0, {kDLBfloat, 16, 1}, shapes[0])};
    outputs = {tensor(kCodesAt, {kDLUInt, 8, 1}, shapes[1]), tensor(kScalesAt, {kDLUInt, 8, 1}, shapes[2])};
    call.size = sizeof(call), call.policy = &policy;
    call.message = message, call.message_bytes = sizeof(message);
    call.workspace = arena + kWorkspaceAt, call.workspace_bytes = 256 << 10;
    call.report = reinterpret_cast<mxcheck_device_report*>(arena + kReportAt);
    quantize = &mxcheck::operation(*mxcheck_candidate(), "quantize");
  }
  void TearDown() override { cudaFree(arena); }

  void put(std::size_t at, const void* from, std::size_t bytes) {
    ASSERT_EQ(cudaMemcpy(arena + at, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  DLTensor tensor(std::size_t at, DLDataType type, std::int64_t* shape) const {
    DLTensor t{};
    t.data = arena + at, t.device = {kDLCUDA, 0}, t.ndim = 2, t.dtype = type, t.shape = shape;
    return t;
  }
  void add_offsets(const std::vector<std::int64_t>& offsets) {
    put(kOffsetsAt, offsets.data(), offsets.size() * 8);
    shapes[3][0] = static_cast<std::int64_t>(offsets.size());
    inputs.push_back(tensor(kOffsetsAt, {kDLInt, 64, 1}, shapes[3]));
    inputs.back().ndim = 1;
  }
  void add_index(const std::vector<std::int32_t>& index) {
    put(kIndexAt, index.data(), index.size() * 4);
    shapes[4][0] = static_cast<std::int64_t>(index.size());
    inputs.push_back(tensor(kIndexAt, {kDLInt, 32, 1}, shapes[4]));
    inputs.back().ndim = 1;
  }

  mxcheck_status run() {
    call.num_inputs = static_cast<std::int32_t>(inputs.size()), call.inputs = inputs.data();
    call.num_outputs = static_cast<std::int32_t>(outputs.size()), call.outputs = outputs.data();
    const mxcheck_status status = quantize->run(&call);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return status;
  }
  bool untouched() const {
    std::vector<unsigned char> bytes(kOffsetsAt - kCodesAt);
    EXPECT_EQ(cudaMemcpy(bytes.data(), arena + kCodesAt, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (const unsigned char byte : bytes) {
      if (byte != kPoison) return false;
    }
    return true;
  }
  void expect_refused(const char* words) {
    EXPECT_EQ(run(), MXCHECK_INVALID);
    EXPECT_NE(std::string(message).find(words), std::string::npos) << message;
    EXPECT_TRUE(untouched());
  }
  void expect_refused_on_the_device(const char* words, std::int64_t index, std::int64_t value) {
    EXPECT_EQ(run(), MXCHECK_OK) << message;
    mxcheck_device_report report{};
    ASSERT_EQ(cudaMemcpy(&report, call.report, sizeof(report), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(report.status, MXCHECK_INVALID);
    EXPECT_NE(std::string(report.message).find(words), std::string::npos) << report.message;
    EXPECT_EQ(report.index, index);
    EXPECT_EQ(report.value, value);
    EXPECT_TRUE(untouched());
  }

  unsigned char* arena = nullptr;
  const mxcheck_operation* quantize = nullptr;
  mxcheck_policy policy{};
  mxcheck_call call{};
  char message[256] = "";
  std::int64_t shapes[5][2] = {{kRows, kCols}, {kRows, kCols}, {3, kCols}, {0, 0}, {0, 0}};
  std::int64_t strides[2] = {kCols, 1};
  std::vector<DLTensor> inputs;
  std::vector<DLTensor> outputs;
};

TEST_F(Sm90Interface, the_good_call_is_good) {
  EXPECT_EQ(run(), MXCHECK_OK) << message;
  EXPECT_FALSE(untouched());
}

TEST_F(Sm90Interface, a_host_pointer_is_refused) {
  static std::vector<std::uint16_t> host(kRows * kCols);
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
