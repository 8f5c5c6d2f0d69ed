#include "properties/process/worker_model.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/candidate_matmul.h"

namespace mxcheck {
namespace {

// A product of 70 x 60 over 256: tensors in the interface's order, each at an address that tells its number.
struct Product {
  mxcheck_matmul_policy policy{};
  wire::Message message;

  Product() {
    policy.policy.rows = 70, policy.policy.cols = 60, policy.depth = 256;
    policy.policy.block_cols = 128, policy.block_b_cols = 64, policy.block_b_rows = 32;
    policy.scale_type = MXCHECK_NO_SCALES, policy.grouping = MXCHECK_DENSE, policy.alpha = 2;
    message.model.a_format = MXCHECK_GPU_MODEL_E4M3, message.model.b_format = MXCHECK_GPU_MODEL_E5M2;
    message.model.promotion = 128;
    message.num_outputs = 1;
  }
  void input(std::int64_t rows, unsigned bits) {
    wire::Tensor& t = message.tensors[message.num_inputs++];
    t.shape[0] = rows, t.dtype_bits = static_cast<std::uint8_t>(bits);
  }
  MxcheckGpuModelCall call(unsigned output_bits = 32) {
    message.policy = pack(policy);
    message.tensors[message.num_inputs].dtype_bits = static_cast<std::uint8_t>(output_bits);
    return model_call(message, [](int i) { return static_cast<CudaPointer>(0x1000 * (i + 1)); });
  }
};

template <class T>
std::uint64_t number_of(const T* address) {
  return reinterpret_cast<std::uint64_t>(address) / 0x1000;  // from 1; 0: null
}

TEST(WorkerModel, a_plain_product_has_operands_and_an_output) {
  Product p;
  p.input(70, 8), p.input(60, 8);
  const MxcheckGpuModelCall call = p.call(16);
  EXPECT_EQ(call.a_format, MXCHECK_GPU_MODEL_E4M3);
  EXPECT_EQ(call.b_format, MXCHECK_GPU_MODEL_E5M2);
  EXPECT_EQ(call.m, 70);
  EXPECT_EQ(call.n, 60);
  EXPECT_EQ(call.k, 256);
  EXPECT_EQ(call.row_end, 70);
  EXPECT_EQ(call.alpha, 2);
  EXPECT_EQ(call.promotion, 128);
  EXPECT_EQ(number_of(call.a), 1U);
  EXPECT_EQ(number_of(call.b), 2U);
  EXPECT_EQ(number_of(call.d), 3U);
  EXPECT_EQ(call.output, MXCHECK_GPU_MODEL_OUT_BF16);
  EXPECT_EQ(call.experts, 1);
  EXPECT_EQ(number_of(call.scale_a) + number_of(call.scale_b) + number_of(call.c), 0U);
  EXPECT_EQ(number_of(call.offsets) + number_of(call.row_index), 0U);
}

TEST(WorkerModel, scales_a_sum_offsets_and_rows_have_their_places) {
  Product p;
  p.policy.scale_type = MXCHECK_FP32, p.policy.accumulate = 1, p.policy.grouping = MXCHECK_ROWS;
  p.input(300, 8), p.input(60, 8), p.input(300, 32), p.input(60, 32), p.input(70, 32);
  p.input(5, 64);   // offsets of four experts
  p.input(70, 32);  // row index
  const MxcheckGpuModelCall call = p.call();
  EXPECT_EQ(number_of(call.scale_a), 3U);
  EXPECT_EQ(number_of(call.scale_b), 4U);
  EXPECT_EQ(number_of(call.c), 5U);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(call.offsets), 0x6000U + 8U);  // ends alone
  EXPECT_EQ(number_of(call.row_index), 7U);
  EXPECT_EQ(number_of(call.d), 8U);
  EXPECT_EQ(call.experts, 4);
  EXPECT_EQ(call.a_rows, 300);
  EXPECT_EQ(call.groups, MXCHECK_GPU_MODEL_ALONG_M);
  EXPECT_EQ(call.scale_format, MXCHECK_GPU_MODEL_SCALE_FP32);
  EXPECT_EQ(call.scale_a_block, 128);
  EXPECT_EQ(call.scale_b_block, 64);
  EXPECT_EQ(call.scale_b_rows, 32);
  EXPECT_EQ(call.output, MXCHECK_GPU_MODEL_OUT_FP32);
}

TEST(WorkerModel, a_library_that_is_no_model_compares_nothing) {
  CudaDevice device;
  Product p;
  p.input(70, 8), p.input(60, 8);
  p.message.policy = pack(p.policy);
  const auto nowhere = [](int) { return CudaPointer{0}; };
  for (const auto& [library, words] :
       {std::pair<std::string, std::string>{"/nowhere/model.so", "the GPU model cannot be loaded: /nowhere/model.so"},
        {MXCHECK_NO_CANDIDATE, "lacks a function of gpu_model.h"}}) {
    GpuModel model(device, library);
    DeviceComparison comparison;
    model.compare(p.message, nowhere, nullptr, comparison);
    EXPECT_NE(std::string(comparison.problem).find(words), std::string::npos) << comparison.problem;
    EXPECT_EQ(comparison.compared, 0U);
  }
}

}  // namespace
}  // namespace mxcheck
