#include "goldens/make/made_up.h"

#include <cmath>
#include <cstring>

#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

constexpr std::uint32_t kNormal = 0x6E6F726D;  // apart from the other uses of philox_word

Tensor tensor_of(const InputSpec& input) {
  const Dtype dtype = input.dtype == Format::fp32 ? Dtype::f32 : input.dtype == Format::bf16 ? Dtype::bf16 : Dtype::f16;
  Tensor tensor{"x", dtype, {input.rows, input.cols}, {}};
  tensor.data.resize(static_cast<std::size_t>(input.rows * input.cols) * size_of(dtype));
  return tensor;
}

template <class Bits>
Tensor filled(const InputSpec& input, Bits bits_of) {
  Tensor tensor = tensor_of(input);
  const std::size_t width = size_of(tensor.dtype);
  for (std::size_t i = 0; i * width < tensor.data.size(); ++i) {
    const std::uint32_t bits = bits_of(i);
    std::memcpy(tensor.data.data() + i * width, &bits, width);
  }
  return tensor;
}

}  // namespace

Tensor repeated_bits(const InputSpec& input) {
  return filled(input, [&](std::size_t i) { return input.bits[i % input.bits.size()]; });
}

Tensor normal_numbers(const InputSpec& input) {
  constexpr std::uint32_t kSummands = 12;  // whose variances of 1/12 add up to 1
  return filled(input, [&](std::size_t i) {
    std::int64_t sum = -static_cast<std::int64_t>(kSummands) << 30;
    for (std::uint32_t k = 0; k < kSummands; ++k)
      sum += philox_word(*input.normal, static_cast<std::uint32_t>(i), k, kNormal, 0) >> 1;
    const double value = std::ldexp(static_cast<double>(sum), input.exponent - 31);
    return encode(input.dtype, value, Rounding::nearest_even, Overflow::non_saturate);
  });
}

}  // namespace mxcheck
