#include "goldens/io/tensor_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "goldens/io/byte_source.h"
#include "goldens/make/embedded.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(ReadTensor, finds_the_file_in_names_with_colons_and_extensions) {
  const test::TemporaryDirectory dir;
  const Tensor t{"x.npy:y", Dtype::u8, {1}, {std::byte{7}}};
  std::filesystem::create_directory(dir / "a.safetensors:b");
  for (const std::string path : {"x.npy", "a:b.npy", "a.npy.npy", "a.safetensors:b/c.npy"}) {
    write_npy(dir / path, t);
    EXPECT_EQ(read_tensor(dir / path).data, t.data) << path;
  }
  write_safetensors(dir / "x:y.safetensors", {{t}, {}});
  EXPECT_EQ(read_tensor(dir / "x:y.safetensors").data, t.data);
  EXPECT_EQ(read_tensor((dir / "x:y.safetensors") + ":x.npy:y").data, t.data);
}

TEST(ReadTensor, says_what_it_can_read) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "x.h5", "");
  std::filesystem::create_directory(dir / "d.npy");
  ASSERT_EQ(::mkfifo((dir / "pipe.npy").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"x.bin", "not a known kind of file"},
      {"", "not a known kind of file"},
      {"missing.npy", "cannot be opened"},
      {"missing.safetensors:t", "cannot be opened"},
      {"missing.h5:/t", "cannot be opened"},
      {"x.h5", "which dataset?"},
      {"d.npy", "not a regular file but a directory"},
      {"pipe.npy", "not a regular file"},
  };
  for (const auto& [name, text] : cases) expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(dir / n); });
  expect_error(ErrorKind::input, "FILE.npy, FILE.safetensors:TENSOR or FILE.h5:/DATASET", [] { read_tensor("x"); });
}

TEST(CheckedBytes, is_exact_up_to_63_bits_and_refuses_beyond) {
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  const auto bytes = [](std::vector<std::int64_t> shape, std::size_t size) { return checked_bytes(shape, size, "t"); };
  EXPECT_EQ(bytes({}, 4), 4U);
  EXPECT_EQ(bytes({3, 5}, 2), 30U);
  EXPECT_EQ(bytes({kBig}, 1), static_cast<std::uint64_t>(kBig));
  EXPECT_EQ(bytes({kBig, kBig, 0}, 8), 0U);
  EXPECT_EQ(bytes({0, kBig, kBig}, 8), 0U);
  expect_error(ErrorKind::input, "overflows", [&] { bytes({kBig}, 2); });
  expect_error(ErrorKind::input, "overflows", [&] { bytes({kBig, 2}, 1); });
  expect_error(ErrorKind::input, "overflows", [&] { bytes({1 << 30, 1 << 30, 1 << 30}, 1); });
  expect_error(ErrorKind::input, "negative", [&] { bytes({-1}, 1); });
  expect_error(ErrorKind::input, "negative", [&] { bytes({0, -1}, 1); });
}

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

}  // namespace
}  // namespace mxcheck
