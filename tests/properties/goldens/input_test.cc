#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "goldens/data/embedded.h"
#include "numerics/bytes.h"
#include "properties/goldens/input.h"
#include "reference/common/matrix.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

template <class T>
std::vector<T> all_of(const InputRows& rows) {
  std::vector<T> values(static_cast<std::size_t>(rows.rows * rows.cols));
  rows.reader->read(std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(OpenInput, cuts_a_real_tensor_and_plants_bits) {
  InputSpec input;
  input.real = "layer0.w1";
  input.row_range = Range{3, 5}, input.col_range = Range{10, 12};
  input.plants = {{1, 0, 0x7F80}};
  const InputRows rows = open_input(input, ".");
  EXPECT_EQ(rows.dtype, Format::bf16);
  EXPECT_EQ(rows.source, "real tensor layer0.w1, rows 3 to 5, columns 10 to 12, 1 elements planted");
  const auto whole = values_in<std::uint16_t>(real_tensor("layer0.w1").data);
  EXPECT_EQ(all_of<std::uint16_t>(rows),
            (std::vector<std::uint16_t>{whole[3 * 512 + 10], whole[3 * 512 + 11], 0x7F80, whole[4 * 512 + 11]}));
  std::byte more{};
  expect_error(ErrorKind::usage, "more rows asked for than there are", [&] { rows.reader->read(std::span(&more, 1)); });
}

TEST(OpenInput, gives_every_pattern_of_a_type) {
  InputSpec input;
  input.patterns = "fp16", input.dtype = Format::fp16;
  input.rows = input.cols = 256;
  const auto patterns = all_of<std::uint16_t>(open_input(input, "."));
  for (std::size_t i = 0; i < patterns.size(); ++i) ASSERT_EQ(patterns[i], i);
}

TEST(OpenInput, reads_a_file_beside_the_spec_and_a_matrix_out_of_three) {
  const test::TemporaryDirectory dir;
  write_npy(dir / "t.npy",
            {"", Format::fp32, {3, 2, 2}, to_bytes(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})});
  InputSpec input;
  input.file = "t.npy", input.index = 1;
  const InputRows rows = open_input(input, dir.path());
  EXPECT_EQ(rows.source, "t.npy, matrix 1");
  EXPECT_EQ(all_of<float>(rows), (std::vector<float>{5, 6, 7, 8}));
  input.index = 3;
  expect_error(ErrorKind::usage, "holds matrices 0 to 2, not 3", [&] { open_input(input, dir.path()); });
  input.index.reset();
  expect_error(ErrorKind::input, "has 3 dimensions; two are needed", [&] { open_input(input, dir.path()); });
  write_npy(dir / "t.npy", {"", Format::uint16, {1, 2}, to_bytes(std::vector<std::uint16_t>{1, 2})});
  expect_error(ErrorKind::input, "has dtype U16; F32, BF16 or F16 is needed, or \"dtype\"",
               [&] { open_input(input, dir.path()); });
  input.file_dtype = "fp16";
  EXPECT_EQ(open_input(input, dir.path()).dtype, Format::fp16);
}

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
      EXPECT_EQ(t.format, Format::bf16);
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
    EXPECT_EQ(t.format, Format::bf16);
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

// Without ties and near ties the goldens would tell less than they say.
TEST(SyntheticLogits, tie_in_every_way) {
  InputSpec input;
  input.rows = 48, input.cols = 16;
  for (const Format dtype : {Format::fp32, Format::bf16}) {
    input.dtype = dtype;
    const Tensor t = tied_logits(input);
    const MatrixView view{dtype, t.data.data(), 48, 16, 16};
    int rows_with_ties = 0, boundary_ties = 0;
    std::set<std::uint32_t> values;
    for (std::int64_t row = 0; row < 48; ++row) {
      std::vector<float> x(16);
      view.read_row(row, x);
      for (const float v : x) values.insert(std::bit_cast<std::uint32_t>(v));
      std::sort(x.begin(), x.end(), std::greater<>());
      rows_with_ties += std::adjacent_find(x.begin(), x.end()) != x.end() ? 1 : 0;
      boundary_ties += x[3] == x[4] ? 1 : 0;
    }
    EXPECT_EQ(values.size(), 16U);
    EXPECT_GT(rows_with_ties, 40);
    EXPECT_GT(boundary_ties, 10);
  }
}

TEST(SyntheticLogits, give_every_expert_its_load) {
  InputSpec input;
  input.loads = {0, 3, 1, 7, 4};
  input.rows = 15, input.cols = 5;
  for (const Format dtype : {Format::fp32, Format::bf16}) {
    input.dtype = dtype;
    const Tensor t = loaded_logits(input);
    const MatrixView view{dtype, t.data.data(), 15, 5, 5};
    std::vector<std::int64_t> loads(5);
    for (std::int64_t row = 0; row < 15; ++row) {
      std::vector<float> x(5);
      view.read_row(row, x);
      const auto best = std::max_element(x.begin(), x.end());
      EXPECT_GE(*best, 2);
      EXPECT_EQ(std::count_if(x.begin(), x.end(), [](float v) { return v > 0; }), 1);
      ++loads[static_cast<std::size_t>(best - x.begin())];
    }
    EXPECT_EQ(loads, input.loads);
  }
}

TEST(SyntheticGradient, is_of_24_bits_on_both_sides_of_zero_and_does_not_depend_on_its_length) {
  const std::vector<float> gradient = synthetic_gradient(1000);
  const std::vector<float> start = synthetic_gradient(10);
  EXPECT_TRUE(std::equal(start.begin(), start.end(), gradient.begin()));
  const auto [least, most] = std::minmax_element(gradient.begin(), gradient.end());
  EXPECT_GE(*least, -1);
  EXPECT_LT(*least, -0.9F);
  EXPECT_LT(*most, 1);
  EXPECT_GT(*most, 0.9F);
  for (const float g : gradient) EXPECT_EQ(std::ldexp(g, 23), std::round(std::ldexp(g, 23)));
}

}  // namespace
}  // namespace mxcheck
