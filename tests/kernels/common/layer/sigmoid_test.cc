// The kernels' table of q against the definition: every BF16 gate, and every code times a power of two.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/common/layer/sigmoid.h"
#include "numerics/format/codec.h"
#include "reference/layer/swiglu.h"

namespace {

using mxcheck::Format, mxcheck_kernels::kSigmoidEntries, mxcheck_kernels::kSigmoids, mxcheck_kernels::sigmoid_place;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

void expect_sigmoid(float g) {
  if (std::isnan(g)) return;
  const int at = sigmoid_place(bits(g));
  ASSERT_TRUE(at >= 0 && at < kSigmoidEntries) << g;
  EXPECT_EQ(bits(kSigmoids.q[at]), bits(mxcheck::swiglu_sigmoid(g))) << std::hexfloat << g;
}

TEST(LayerSigmoid, of_every_bf16_gate_is_the_definition) {
  for (std::uint32_t word = 0; word < 0x10000; ++word) expect_sigmoid(std::bit_cast<float>(word << 16));
}

TEST(LayerSigmoid, of_every_code_and_scale_is_the_definition) {
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    for (std::uint32_t code = 0; code < 256; ++code) {
      for (int e = -127; e <= 127; ++e) {
        const double value = std::ldexp(mxcheck::decode(format, code), e);
        expect_sigmoid(static_cast<float>(value));
      }
    }
  }
}

}  // namespace
