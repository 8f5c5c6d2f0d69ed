#include "goldens/make/embedded.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(RealTensors, are_the_committed_file_in_bf16) {
  const std::string file = test::read_file(MXCHECK_REAL_MOE);
  ASSERT_EQ(file.size(), 2360528U);
  const SafetensorsFile committed = parse_safetensors(std::as_bytes(std::span(file)), "committed");
  ASSERT_EQ(real_tensors().tensors.size(), 14U);
  for (std::size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(real_tensors().tensors[i].name, committed.tensors[i].name);
    EXPECT_EQ(real_tensors().tensors[i].data, committed.tensors[i].data);
  }
  const std::vector<std::pair<std::string, std::int64_t>> rows{{"x", 192},   {"dO", 192}, {"w1", 192}, {"w2", 128},
                                                               {"dw1", 128}, {"h", 160},  {"dh", 160}};
  for (const std::string layer : {"layer0.", "layer3."}) {
    for (const auto& [name, n] : rows) {
      const Tensor& t = real_tensor(layer + name);
      EXPECT_EQ(t.dtype, Dtype::bf16);
      EXPECT_EQ(t.shape, (std::vector<std::int64_t>{n, 512}));
    }
  }
  expect_error(ErrorKind::usage, "no real tensor 'layer1.x'; there are layer0.dO", [] { real_tensor("layer1.x"); });
}

TEST(RealTensors, look_like_training_finite_and_with_gradients_below_1e_minus_4) {
  for (const Tensor& t : real_tensors().tensors) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < t.data.size(); i += 2) {
      const std::uint32_t bits =
          std::to_integer<std::uint32_t>(t.data[i]) | std::to_integer<std::uint32_t>(t.data[i + 1]) << 8;
      largest = std::max(largest, bits & 0x7FFF);
    }
    EXPECT_GT(largest, 0U) << t.name;
    EXPECT_LT(largest, 0x7F80U) << t.name << " holds NaN or Inf";
    const bool token_gradient = t.name.ends_with(".dO") || t.name.ends_with(".dh");
    if (token_gradient) {
      EXPECT_LT(largest, 0x38D2U) << t.name << ": 0x38D2 is 1e-4 in BF16";
    }
  }
}

TEST(RealRouterLogits, are_bf16_finite_and_of_two_layers) {
  ASSERT_EQ(real_router_logits().tensors.size(), 2U);
  for (const std::string name : {"layer0.router_logits", "layer3.router_logits"}) {
    const Tensor& t = real_tensor(name);
    EXPECT_EQ(t.dtype, Dtype::bf16);
    EXPECT_EQ(t.shape, (std::vector<std::int64_t>{2048, 32}));
    std::uint32_t largest = 0;
    for (const std::uint16_t bits : values_in<std::uint16_t>(t.data))
      largest = std::max<std::uint32_t>(largest, bits & 0x7FFF);
    EXPECT_GT(largest, 0x4000U);  // 2
    EXPECT_LT(largest, 0x4180U);  // 16
  }
  const std::string file = test::read_file(std::string(MXCHECK_GOLDENS_DATA) + "/real_router.safetensors");
  const SafetensorsFile committed = parse_safetensors(std::as_bytes(std::span(file)), "committed");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(real_router_logits().tensors[i].name, committed.tensors.at(i).name);
    EXPECT_EQ(real_router_logits().tensors[i].data, committed.tensors.at(i).data);
  }
}

TEST(TensorAt, takes_a_real_tensor_or_a_file) {
  EXPECT_EQ(tensor_at("real:layer0.x").data, real_tensor("layer0.x").data);
  EXPECT_EQ(tensor_at(std::string(MXCHECK_REAL_MOE) + ":layer3.w1").data, real_tensor("layer3.w1").data);
  expect_error(ErrorKind::usage, "no real tensor 'x'", [] { tensor_at("real:x"); });
  expect_error(ErrorKind::input, "not a known kind of file", [] { tensor_at("Real:layer0.x"); });
}

}  // namespace
}  // namespace mxcheck
