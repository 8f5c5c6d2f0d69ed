#include "goldens/make/logits.h"

#include <array>
#include <bit>
#include <cstring>

#include "numerics/elementary/elementary.h"

namespace mxcheck {
namespace {

// Seeds of philox_word, one a purpose: synthetic logits are the same everywhere.
constexpr std::uint64_t kTies = 1, kOthers = 2, kChosen = 3, kGradient = 4;

std::uint32_t word(std::uint64_t seed, std::int64_t i) {
  return philox_word(seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0);
}

constexpr std::array<std::uint32_t, 16> kTied32{0x3F800000, 0x3F800001, 0x3F7FFFFF, 0x3F800010, 0x00000000, 0x80000000,
                                                0x00000001, 0x80000001, 0x3F000000, 0xBF000000, 0xBF000001, 0x40000000,
                                                0x3F800003, 0xBF800000, 0x3FC00000, 0x3F810000};
constexpr std::array<std::uint32_t, 16> kTied16{0x3F80, 0x3F81, 0x3F7F, 0x3F90, 0x0000, 0x8000, 0x0001, 0x8001,
                                                0x3F00, 0xBF00, 0xBF01, 0x4000, 0x3F83, 0xBF80, 0x3FC0, 0xBF81};

class Logits {
 public:
  explicit Logits(const InputSpec& input)
      : fp32_(input.dtype == Format::fp32),
        tensor_{"x", fp32_ ? Dtype::f32 : Dtype::bf16, {input.rows, input.cols}, {}} {
    tensor_.data.resize(static_cast<std::size_t>(input.rows * input.cols) * size_of(tensor_.dtype));
  }
  void set_bits(std::int64_t i, std::uint32_t bits) {
    const std::size_t width = size_of(tensor_.dtype);
    std::memcpy(tensor_.data.data() + static_cast<std::size_t>(i) * width, &bits, width);
  }
  void set(std::int64_t i, float value) {  // one that BF16 holds
    const auto bits = std::bit_cast<std::uint32_t>(value);
    set_bits(i, fp32_ ? bits : bits >> 16);
  }
  [[nodiscard]] bool fp32() const { return fp32_; }
  Tensor take() { return std::move(tensor_); }

 private:
  bool fp32_;
  Tensor tensor_;
};

// Rounds of dealing: every expert that still lacks a token gets one.
std::vector<std::int64_t> dealt(std::vector<std::int64_t> loads) {
  std::vector<std::int64_t> expert_of_token;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (loads[e] == 0) continue;
      --loads[e], any = true;
      expert_of_token.push_back(static_cast<std::int64_t>(e));
    }
  }
  return expert_of_token;
}

}  // namespace

Tensor tied_logits(const InputSpec& input) {
  Logits logits(input);
  for (std::int64_t i = 0; i < input.rows * input.cols; ++i) {
    const std::uint32_t pick = word(kTies, i) >> 28;
    logits.set_bits(i, logits.fp32() ? kTied32[pick] : kTied16[pick]);
  }
  return logits.take();
}

Tensor loaded_logits(const InputSpec& input) {
  constexpr std::int64_t kKindsOfRow = 4;
  Logits logits(input);
  const std::vector<std::int64_t> expert_of_token = dealt(input.loads);
  for (std::int64_t t = 0; t < input.rows; ++t) {
    const std::int64_t kind = t % kKindsOfRow;
    for (std::int64_t e = 0; e < input.cols; ++e) {  // from -1.875 to 0
      logits.set(t * input.cols + e, -0.125F * static_cast<float>(word(kOthers, kind * input.cols + e) >> 28));
    }
    const std::int64_t chosen = expert_of_token[static_cast<std::size_t>(t)];
    logits.set(t * input.cols + chosen, 2 + 0.25F * static_cast<float>(word(kChosen, kind) >> 30));
  }
  return logits.take();
}

std::vector<float> synthetic_gradient(std::int64_t count) {
  std::vector<float> gradient;
  for (std::int64_t i = 0; i < count; ++i) {
    gradient.push_back(static_cast<float>(static_cast<std::int32_t>(word(kGradient, i)) >> 8) * 0x1p-23F);
  }
  return gradient;
}

}  // namespace mxcheck
