#include "numerics/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {
namespace {

// The text of the error of this kind that an action throws.
template <class Action>
std::string error_of(ErrorKind kind, Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.kind() == kind ? e.what() : std::string("of another kind: ") + e.what();
  }
  return "nothing thrown";
}

TEST(Tensor, has_the_bits_of_its_elements) {
  const std::vector<float> values{1, -2, 0x1p-149F, 3, 4, 5};
  const Tensor t = tensor_of(Format::fp32, {2, 3}, values);
  EXPECT_EQ(t.rows(), 2);
  EXPECT_EQ(t.cols(), 3);
  EXPECT_EQ(t.size(), 6U);
  EXPECT_EQ(t.as<float>()[2], 0x1p-149F);
  EXPECT_EQ(t.code(2), 1U);
  EXPECT_EQ(t.code(1), std::bit_cast<std::uint32_t>(-2.0F));
  EXPECT_EQ(t, tensor_of(Format::fp32, {2, 3}, values));
  EXPECT_NE(t, tensor_of(Format::fp32, {3, 2}, values));
}

TEST(Tensor, keeps_each_code_in_the_bytes_of_its_format) {
  for (const Format format : kAllFormats) {
    Tensor t = make_tensor(format, {7});
    EXPECT_EQ(t.data.size(), 7 * size_of(format)) << spec(format).name;
    EXPECT_EQ(size_of(bits_of(format)), size_of(format));
    EXPECT_GE(8 * size_of(format), static_cast<std::size_t>(spec(format).bits));
    for (std::uint32_t i = 0; i < 7; ++i) t.set_code(i, spec(format).max_code - i % 3);
    for (std::uint32_t i = 0; i < 7; ++i) EXPECT_EQ(t.code(i), spec(format).max_code - i % 3) << spec(format).name;
  }
}

TEST(Tensor, empty_and_scalar_shapes_hold_none_and_one) {
  EXPECT_TRUE(make_tensor(Format::bf16, {0, 5}).empty());
  EXPECT_EQ(make_tensor(Format::bf16, {}).size(), 1U);
}

TEST(Tensor, transposed_twice_is_the_same) {
  for (const Format format : {Format::e4m3, Format::e5m6, Format::fp32, Format::int64}) {
    Tensor t = make_tensor(format, {3, 5});
    for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<std::byte>(i);
    const Tensor across = transposed(t);
    EXPECT_EQ(across.shape, (std::vector<std::int64_t>{5, 3}));
    EXPECT_EQ(transposed(across), t);
    if (size_of(format) > 4) continue;
    EXPECT_EQ(across.code(1 * 3 + 2), t.code(2 * 5 + 1));
  }
}

TEST(Tensor, refuses_what_no_memory_holds) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(error_of(ErrorKind::usage,
                     [] {
                       make_tensor(Format::e4m3, {3, -1}, "codes");
                     }),
            "codes: an extent of -1: extents must be 0 or more, and have a product of at most 2^63 - 1");
  EXPECT_EQ(error_of(ErrorKind::usage,
                     [] {
                       make_tensor(Format::e4m3, {kMost, 3});
                     }),
            "tensor: an extent of 3: extents must be 0 or more, and have a product of at most 2^63 - 1");
  EXPECT_EQ(error_of(ErrorKind::environment, [] { make_tensor(Format::fp32, {kMost}, "codes"); }),
            "codes: no memory for 9223372036854775807 values of 4 bytes");
  const Tensor t = make_tensor(Format::e4m3, {4});
  EXPECT_EQ(error_of(ErrorKind::internal, [&] { (void)t.as<float>(); }), "elements of e4m3 have 1 bytes, not 4");
}

}  // namespace
}  // namespace mxcheck
