// Slips of decoding NVFP4, each the values of a case with one thing done otherwise.

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "properties/core/input.h"
#include "properties/operations/nvfp4/dequantize.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {
namespace {

double as_fp32(double value) { return static_cast<double>(static_cast<float>(value)); }
double of_code(std::uint32_t code) { return decode(Format::e2m1, code); }
double of_byte(std::uint32_t byte) { return decode(Format::e4m3, byte); }
bool is_nan_byte(std::uint32_t byte) { return (byte & 0x7F) == 0x7F; }

// The codes, one a byte, and the scale byte of each.
struct Elements {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> bytes;
};

class ValueRows {
 public:
  explicit ValueRows(const DequantizeNvfp4Problem& p)
      : p_(p), recipe_(p.recipe()), stored_(p.tensor_scale[0]), index_(p.scale_index()) {}

  Table take() {
    tensor_scales();
    block_scales();
    places();
    roundings();
    return std::move(table_);
  }

 private:
  using Value = std::function<double(std::uint32_t code, std::uint32_t byte)>;
  using Cast = std::function<std::uint32_t(double value)>;

  [[nodiscard]] double under(double product) const { return under_tensor_scale(recipe_, product, stored_); }
  [[nodiscard]] Cast nearest() const {
    return [type = p_.c.variant.dtype](double v) {
      return encode(type, v, Rounding::nearest_even, Overflow::non_saturate);
    };
  }
  [[nodiscard]] Value right() const {
    return [this](std::uint32_t code, std::uint32_t byte) { return under(of_code(code) * of_byte(byte)); };
  }
  [[nodiscard]] Elements elements() const {
    Elements e{unpacked_rows(std::as_bytes(std::span(p_.codes)), p_.c.cols), {}};
    const std::vector<std::uint8_t> scales = p_.compact_scales();
    for (const std::int64_t at : index_) e.bytes.push_back(scales[static_cast<std::size_t>(at)]);
    return e;
  }
  [[nodiscard]] Bytes values(const Elements& e, const Value& value, const Cast& cast) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < e.codes.size(); ++i) all.push_back(value(e.codes[i], e.bytes[i]));
    return codes_of(p_.c.variant.dtype, all, cast);
  }

  void add(std::string name, Value value, Cast cast = {}) {
    if (!cast) cast = nearest();
    table_.push_back(definition_of_output(
        0, std::move(name), [this, v = std::move(value), c = std::move(cast)] { return values(elements(), v, c); }));
  }
  void add_placed(std::string name, std::function<void(Elements&)> move) {
    table_.push_back(definition_of_output(0, std::move(name), [this, m = std::move(move)] {
      Elements e = elements();
      m(e);
      return values(e, right(), nearest());
    }));
  }
  void add_stored(std::string name, double stored) {
    add(std::move(name), [this, stored](auto code, auto byte) {
      return under_tensor_scale(recipe_, of_code(code) * of_byte(byte), stored);
    });
  }
  void add_byte(std::string name, std::function<double(std::uint32_t byte)> scale) {
    add(std::move(name), [this, s = std::move(scale)](auto code, auto byte) { return under(of_code(code) * s(byte)); });
  }

  void tensor_scales() {
    add("the scale of the tensor is ignored", [](auto code, auto byte) { return of_code(code) * of_byte(byte); });
    add("the scale of the tensor is inverted",
        [this](auto code, auto byte) { return of_code(code) * of_byte(byte) / under(1); });
    add_stored("the scale of the tensor is rounded to BF16",
               decode(Format::bf16, encode(Format::bf16, stored_, Rounding::nearest_even, Overflow::saturate)));
    for (const StoredScale kind : {StoredScale::decode, StoredScale::encode, StoredScale::amax}) {
      const bool is_inverse = kind != StoredScale::amax && recipe_.two_level.stored != StoredScale::amax;
      if (is_inverse || kind == recipe_.two_level.stored) continue;
      constexpr std::array kNames{"s, by which products are multiplied", "S, by which they are divided", "the amax"};
      Recipe other = recipe_;
      other.two_level.stored = kind;
      add("the scale of the tensor is taken for " + std::string(kNames[static_cast<std::size_t>(kind)]),
          [this, other](auto code, auto byte) {
            return under_tensor_scale(other, of_code(code) * of_byte(byte), stored_);
          });
    }
    if (recipe_.two_level.stored == StoredScale::amax) {
      for (const float limit : {256.0F, 448.0F}) {
        if (limit == recipe_.two_level.limit) continue;
        Recipe other = recipe_;
        other.two_level.limit = limit;
        add("the largest block scale is taken for " + std::to_string(static_cast<int>(limit)),
            [this, other](auto code, auto byte) {
              return under_tensor_scale(other, of_code(code) * of_byte(byte), stored_);
            });
      }
    }
    if (recipe_.two_level.stored != StoredScale::decode) {
      add("products are multiplied by a scale of the tensor that was rounded to FP32",
          [this](auto code, auto byte) { return of_code(code) * of_byte(byte) * as_fp32(under(1)); });
    }
  }

  void block_scales() {
    add_byte("scales: the sign is dropped", [](auto byte) { return of_byte(byte & 0x7F); });
    add_byte("scales: a NaN is 480",
             [](auto byte) { return is_nan_byte(byte) ? (byte > 0x7F ? -480.0 : 480.0) : of_byte(byte); });
    add_byte("scales: a NaN is 448",
             [](auto byte) { return is_nan_byte(byte) ? (byte > 0x7F ? -448.0 : 448.0) : of_byte(byte); });
    add_byte("scales: a NaN is 0", [](auto byte) { return is_nan_byte(byte) ? 0.0 : of_byte(byte); });
    add_byte("scales: subnormal ones are 0",
             [](auto byte) { return (byte & 0x78) == 0 ? std::copysign(0.0, of_byte(byte)) : of_byte(byte); });
    add_byte("scales: as powers of two (E8M0)",
             [](auto byte) { return byte == 0xFF ? kPoisoned : std::ldexp(1.0, static_cast<int>(byte) - 127); });
    add_byte("scales: are ignored", [](auto) { return 1.0; });
    add_byte("scales: of float8_e5m2", [](auto byte) { return decode(Format::e5m2, byte); });
    add("a code of 0 is 0 under a scale of NaN",
        [this](auto code, auto byte) { return under(of_code(code) * ((code & 7) == 0 ? 1 : of_byte(byte))); });
  }

  void places() {
    add_placed("the nibbles of a byte are exchanged", [this](Elements& e) {
      const std::size_t cols = static_cast<std::size_t>(p_.c.cols), line = (cols + 1) / 2;
      for (std::size_t i = 0; i < e.codes.size(); ++i) {
        const std::uint8_t pair = p_.codes[i / cols * line + i % cols / 2];
        e.codes[i] = i % cols % 2 == 0 ? pair >> 4 : pair & 0xF;
      }
    });
    add_placed("the first and the second half of a block are in one byte", [this](Elements& e) {
      const auto cols = static_cast<std::size_t>(p_.c.cols);
      const std::vector<std::uint8_t> from = e.codes;
      for (std::size_t row = 0; row < from.size(); row += cols) {
        for (std::size_t block = 0; block + 16 <= cols; block += 16) {
          for (std::size_t i = 0; i < 16; ++i) e.codes[row + block + i / 2 + i % 2 * 8] = from[row + block + i];
        }
      }
    });
    for (const auto& [name, right, down] :
         {std::tuple("scales: of the block to the right", 1, 0), std::tuple("scales: of the block to the left", -1, 0),
          std::tuple("scales: of the block below", 0, 1), std::tuple("scales: of the block above", 0, -1)}) {
      add_placed(name, [this, r = right, d = down](Elements& e) { move_scales(e, r, d); });
    }
    add_placed("the signs are dropped", [](Elements& e) {
      for (std::uint8_t& code : e.codes) code &= 7;
    });
  }

  // Scales of the blocks so many further on; those at the edge keep theirs.
  void move_scales(Elements& e, std::int64_t right, std::int64_t down) const {
    const ScaleGeometry g = scale_geometry(p_.c, blocks_of(p_.c.variant).block);
    const std::vector<std::uint8_t> scales = p_.compact_scales();
    for (std::size_t i = 0; i < e.bytes.size(); ++i) {
      const std::int64_t row = index_[i] / g.cols + down, col = index_[i] % g.cols + right;
      if (row >= 0 && row < g.rows && col >= 0 && col < g.cols)
        e.bytes[i] = scales[static_cast<std::size_t>(row * g.cols + col)];
    }
  }

  void roundings() {
    const Format type = p_.c.variant.dtype;
    const auto cast = [type](Rounding rounding, Overflow overflow) -> Cast {
      return [type, rounding, overflow](double v) { return encode(type, v, rounding, overflow); };
    };
    add("values are truncated", right(), cast(Rounding::toward_zero, Overflow::non_saturate));
    // Products of six bits over S are no ties of FP32, and products by amax / 2688 not above the largest one.
    const bool is_fp32 = type == Format::fp32;
    if (!is_fp32 || recipe_.two_level.stored != StoredScale::encode)
      add("ties of values away from zero", right(), cast(Rounding::nearest_away, Overflow::non_saturate));
    if (!is_fp32 || recipe_.two_level.stored != StoredScale::amax || recipe_.two_level.limit != 448)
      add("values beyond the largest number taken for that", right(), cast(Rounding::nearest_even, Overflow::saturate));
    if (type == Format::bf16) {
      add("values are rounded to FP32 before they are rounded to BF16",
          [this](auto code, auto byte) { return as_fp32(under(of_code(code) * of_byte(byte))); });
    }
    add("the block scale under the tensor's is rounded to FP32 before it multiplies the code",
        [this](auto code, auto byte) { return of_code(code) * as_fp32(under(of_byte(byte))); });
    add("the block scale under the tensor's is rounded to BF16 before it multiplies the code",
        [this](auto code, auto byte) {
          const std::uint32_t bits =
              encode(Format::bf16, under(of_byte(byte)), Rounding::nearest_even, Overflow::non_saturate);
          return of_code(code) * decode(Format::bf16, bits);
        });
    add("values below the smallest normal flushed to zero", [this](auto code, auto byte) {
      const double v = under(of_code(code) * of_byte(byte));
      return std::fabs(v) < 0x1p-126 ? std::copysign(0.0, v) : v;
    });
    add("-0 becomes +0", [this](auto code, auto byte) {
      const double v = under(of_code(code) * of_byte(byte));
      return v == 0 ? 0.0 : v;
    });
  }

  const DequantizeNvfp4Problem& p_;
  Recipe recipe_;
  double stored_;
  std::vector<std::int64_t> index_;
  Table table_;
};

}  // namespace

Table nvfp4_values_table(const DequantizeNvfp4Problem& problem) {
  // Rows are evaluated later: what they refer to lives in one of them.
  const auto copy = std::make_shared<DequantizeNvfp4Problem>(problem);
  const auto rows = std::make_shared<ValueRows>(*copy);
  Table table = rows->take();
  return owning(owning(std::move(table), rows), copy);
}

}  // namespace mxcheck
