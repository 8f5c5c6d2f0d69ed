#include "properties/operations/moe/expand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "goldens/make/embedded.h"
#include "properties/core/input.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

// value * 2^exponent, the product exact. Millions of weights are drawn in a run: neither ldexp nor a codec.
std::uint16_t bf16(float value, int exponent = 0) {
  return layer_bf16(value * std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23));
}
float bell(std::uint64_t word) { return static_cast<float>(four_uniforms(word) * 1.75); }  // of 20 bits
std::uint64_t place_of(std::int64_t i, std::int64_t j) { return static_cast<std::uint64_t>(i << 31 | j); }

constexpr int kRowBits = 20;  // of the place of a row among those of all experts

constexpr std::array<std::uint16_t, 12> kSpecials{0x7FC0, 0x7F80, 0xFF80, 0xFFFF, 0x8000, 0x0000,
                                                  0x0001, 0x8001, 0x0080, 0x7F7F, 0xFF7F, 0x3F80};

// What tells the tensors apart: where they come from, and how large an element usually is.
enum class What : std::uint8_t { x, w1, w2, d_o };

class MoeElements {
 public:
  explicit MoeElements(const Case& c) : c_(c), data_(c.data) {}

  // Element (i, j) of X, dO, and of the weights of all experts, whose rows follow one another; depth: the elements of a
  // sum that it is part of. `line` is what special values are chosen by: a token, an expert.
  [[nodiscard]] std::uint16_t at(What what, std::int64_t i, std::int64_t j, std::int64_t depth,
                                 std::int64_t line) const {
    const std::uint64_t word = random_word(salted(what), place_of(i, j));
    const bool is_weight = what == What::w1 || what == What::w2;
    switch (data_) {
      case Data::zeros: return 0;
      case Data::boundaries: return cancelling(what, i, j, depth, line);
      case Data::codes: return few_bits(what, depth, word);
      case Data::wide: return wide(what, i, word);
      case Data::sparse:
        if (random_word(salted(what) ^ 0x5BA2, place_of(i / (is_weight ? 32 : 1), j / 32)) % 4 != 0)
          return (word & 3) == 0 ? 0x8000 : 0;
        break;
      case Data::slots: return of_place(what, i, j, depth);
      case Data::every_word:
        if (!is_weight) return j == (i * 7 + static_cast<std::int64_t>(c_.seed % 1024)) % depth ? 0x3F80 : 0;
        break;
      case Data::real: return real(what, i, j);
      case Data::specials:
        if (is_special(what, line, i, j)) return kSpecials[(word >> 16) % kSpecials.size()];
        break;
      default: break;
    }
    return usual(what, i, depth, word);
  }

 private:
  [[nodiscard]] std::uint64_t salted(What what) const {
    return c_.seed ^ mix64(0x3A7E + static_cast<std::uint64_t>(what));
  }
  // log2 of what an element of this tensor is about.
  static int magnitude(What what, std::int64_t depth) {
    if (what == What::x) return 0;
    if (what == What::d_o) return -10;
    return -static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, depth))) / 2);
  }

  [[nodiscard]] std::uint16_t usual(What what, std::int64_t i, std::int64_t depth, std::uint64_t word) const {
    int exponent = magnitude(what, depth);
    if (what == What::w1 || what == What::w2) return bf16(bell(word), exponent);
    const std::uint64_t row = random_word(salted(what) ^ 0x2074, static_cast<std::uint64_t>(i));
    if (what == What::x) exponent += static_cast<int>(row % 4) - 2 + (mix64(word) % 256 == 0 ? 3 : 0);
    if (what == What::d_o) exponent += static_cast<int>(row % 8) - 4 + (mix64(word) % 256 == 0 ? 5 : 0);
    return bf16(bell(word), exponent);
  }

  // Experts in threes: the second has W1 of the first and -W2, the third a W2 that is 2^-18 of the others'. Rows of a
  // token cancel, so that sums in another order differ in more than the last bits of FP32, which BF16 does not show.
  [[nodiscard]] std::uint16_t cancelling(What what, std::int64_t i, std::int64_t j, std::int64_t depth,
                                         std::int64_t line) const {
    const bool is_weight = what == What::w1 || what == What::w2;
    const bool is_second = is_weight && line % 3 == 1;
    if (is_second) i -= std::int64_t{1} << kRowBits;
    const std::uint16_t element = edge(what, i, j, depth, random_word(salted(what), place_of(i, j)));
    if (what != What::w2 || line % 3 == 0) return element;
    if (is_second) return static_cast<std::uint16_t>(element ^ 0x8000);
    return bf16(std::bit_cast<float>(std::uint32_t{element} << 16), -18);
  }

  // Every 32nd element is the block's largest: 448, its neighbours in BF16, or a power of two; others are midpoints of
  // E4M3, with or without a bit below.
  [[nodiscard]] std::uint16_t edge(What what, std::int64_t i, std::int64_t j, std::int64_t depth,
                                   std::uint64_t word) const {
    const std::uint64_t tile = random_word(salted(what) ^ 0x7113, place_of(i / 32, j / 32));
    const int exponent = magnitude(what, depth) - 8 + static_cast<int>(tile % 5) - 2;
    static constexpr std::array<float, 6> kLargest{448, 450, 446, 256, 512, 464};
    const float sign = (word & 1) != 0 ? -1.0F : 1.0F;
    if ((i + j) % 32 == static_cast<std::int64_t>((tile >> 8) % 32))
      return bf16(sign * kLargest[(tile >> 16) % kLargest.size()], exponent);
    const float midpoint = 16 + static_cast<float>((word >> 8) % 16);  // of four bits: three are an E4M3 code's
    const float beside = static_cast<float>((word >> 16) % 3) - 1;
    return bf16(sign * (midpoint + beside * 0.125F), exponent + static_cast<int>((word >> 24) % 5) - 2);
  }

  static std::uint16_t few_bits(What what, std::int64_t depth, std::uint64_t word) {
    return bf16(static_cast<float>(word % 15) - 7, magnitude(what, depth) - 2);
  }

  [[nodiscard]] std::uint16_t wide(What what, std::int64_t i, std::uint64_t word) const {
    const std::uint64_t row = random_word(salted(what) ^ 0x2074, static_cast<std::uint64_t>(i));
    const int low = what == What::x ? -20 : -40;
    const int exponent = low + static_cast<int>(row % 21) + static_cast<int>((word >> 40) % 20);
    return bf16(bell(word), exponent);
  }

  [[nodiscard]] std::uint16_t of_place(What what, std::int64_t i, std::int64_t j, std::int64_t depth) const {
    const auto number = static_cast<std::uint64_t>(i * 131 + j * 17) + c_.seed;
    const int exponent = magnitude(what, depth) - static_cast<int>((i * 3 + j) % 5);
    return bf16((number % 3 == 0 ? -1.0F : 1.0F) * (128 + static_cast<float>(number % 128)), exponent - 7);
  }

  // A few columns of one row of X or dO in eight, one element in 256 of every other expert's weights.
  [[nodiscard]] bool is_special(What what, std::int64_t line, std::int64_t i, std::int64_t j) const {
    const std::uint64_t word = random_word(salted(what) ^ 0x5BEC, static_cast<std::uint64_t>(line));
    const bool is_weight = what == What::w1 || what == What::w2;
    if (is_weight ? (static_cast<std::uint64_t>(line) + c_.seed) % 2 != 0 : word % 8 != 0) return false;
    if (is_weight && (word >> 8) % 8 != static_cast<std::uint64_t>(i % 8)) return false;
    return (word >> 16) % 8 == static_cast<std::uint64_t>(j % 8) && mix64(word ^ place_of(i, j / 8)) % 4 == 0;
  }

  [[nodiscard]] std::uint16_t real(What what, std::int64_t i, std::int64_t j) const {
    static constexpr std::array<std::array<std::string_view, 2>, 4> kNames{
        {{"layer0.x", "layer3.x"}, {"layer0.w1", "layer3.w1"}, {"layer0.w2", "layer3.w2"}, {"layer0.dO", "layer3.dO"}}};
    const Tensor& t = real_tensor(kNames[static_cast<std::size_t>(what)][c_.seed % 2]);
    const std::int64_t row = (i + static_cast<std::int64_t>(c_.seed / 2 % 97)) % t.shape[0];
    std::uint16_t bits = 0;
    std::memcpy(&bits, t.data.data() + 2 * (row * t.shape[1] + j % t.shape[1]), 2);
    return bits;
  }

  const Case& c_;
  Data data_;
};

}  // namespace

MoeInputs expand_moe(const Case& c) {
  const MoeElements elements(c);
  const std::int64_t d = c.cols;
  const std::int64_t n = moe_case(c).inner;
  const std::int64_t experts = moe_experts(c);
  MoeInputs in;
  const auto tokens = [&](What what) {
    std::vector<std::uint16_t> to;
    to.reserve(static_cast<std::size_t>(c.rows * d));
    for (std::int64_t t = 0; t < c.rows; ++t) {
      for (std::int64_t j = 0; j < d; ++j) to.push_back(elements.at(what, t, j, d, t));
    }
    return to;
  };
  in.x = tokens(What::x);
  if (is_moe_backward(c.variant)) in.d_o = tokens(What::d_o);
  const bool halves = moe_of(c.variant).gate_up == MXCHECK_HALVES;
  // The same gates and up values in either order.
  const auto row_of_expert = [](std::int64_t e, std::int64_t i) { return e << kRowBits | i; };
  in.w1.reserve(static_cast<std::size_t>(experts * d * 2 * n));
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t j = 0; j < 2 * n; ++j) {
        const std::int64_t pair = halves ? j % n : j / 2;
        const bool is_up = halves ? j >= n : j % 2 == 1;
        in.w1.push_back(elements.at(What::w1, row_of_expert(e, i), pair << 1 | (is_up ? 1 : 0), d, e));
      }
    }
  }
  in.w2.reserve(static_cast<std::size_t>(experts * n * d));
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < d; ++j) in.w2.push_back(elements.at(What::w2, row_of_expert(e, i), j, n, e));
    }
  }
  in.slots = expand_moe_slots(c);
  return in;
}

}  // namespace mxcheck
