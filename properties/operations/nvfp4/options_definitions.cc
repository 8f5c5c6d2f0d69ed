// Rows about quantize_nvfp4 with options: other recipes, and slips of words, of the transform and of directions.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "properties/operations/nvfp4/options.h"

namespace mxcheck {
namespace {

class OptionRows {
 public:
  explicit OptionRows(const Nvfp4Problem& p) : p_(p) {}

  Table take() {
    recipes();
    if (p_.options().is_stochastic()) {
      for (NamedNvfp4Slip& named : nvfp4_word_slips(p_)) add(std::move(named.name), std::move(named.slip));
    }
    if (p_.options().hadamard != 0) signs_and_factors();
    if (p_.options().hadamard != 0) transforms();
    if (p_.options().has_both) directions();
    packing();
    return std::move(table_);
  }

 private:
  void add(std::string name, Nvfp4Slip slip, std::string source = {}) {
    table_.push_back(definition_of_all(
        std::move(name), [this, s = std::move(slip)] { return nvfp4_outputs(p_, s); }, memo_, std::move(source)));
  }
  void add_word(std::string name, std::function<std::uint32_t(const Nvfp4Word&)> word) {
    add(std::move(name), {.word = std::move(word)});
  }
  void add_nearest(std::string name, std::function<bool(const Nvfp4Word&)> is_nearest) {
    add(std::move(name), {.is_nearest = std::move(is_nearest)});
  }
  void add_recipe(std::string name, std::function<void(Recipe&)> change, std::string source = {}) {
    Nvfp4Slip slip;
    slip.recipe = std::move(change);
    add(std::move(name), std::move(slip), std::move(source));
  }
  void add_transform(std::string name, std::function<Input(const Input&, const Hadamard&)> transform) {
    Nvfp4Slip slip;
    slip.transform = std::move(transform);
    add(std::move(name), std::move(slip));
  }
  // The right transform with other parameters.
  void add_other_transform(std::string name, const std::function<void(Hadamard&)>& change) {
    add_transform(std::move(name), [change](const Input& x, Hadamard t) {
      change(t);
      return transformed(x, t);
    });
  }

  void recipes();
  void signs_and_factors();
  void transforms();
  void directions();
  void packing();

  const Nvfp4Problem& p_;
  std::shared_ptr<AnswerMemo> memo_ = std::make_shared<AnswerMemo>();
  Table table_;
};

void OptionRows::recipes() {
  const Recipe own = p_.recipe();
  const bool is_stochastic = p_.options().is_stochastic();
  for (const Recipe& recipe : two_level_recipes()) {
    if (recipe.name == own.name || recipe.two_level.stored != own.two_level.stored) continue;
    add_recipe(
        "recipe " + recipe.name,
        [recipe, is_stochastic](Recipe& r) {
          r = recipe;
          if (is_stochastic) r.rounding = Rounding::stochastic;
        },
        recipe.checked_against);
  }
  if (is_stochastic) return;
  add_recipe("codes: ties away from zero", [](Recipe& r) { r.rounding = Rounding::nearest_away; });
  add_recipe("codes: truncated", [](Recipe& r) { r.rounding = Rounding::toward_zero; });
}

Input scaled_by(const Input& x, int power) {
  return make_input(x.dtype, x.rows, x.cols, x.cols, [&](std::int64_t i, std::int64_t j) {
    return encode(x.dtype, std::ldexp(decode(x.dtype, x.bits(i, j)), power), Rounding::nearest_even,
                  Overflow::non_saturate);
  });
}

// Signs of a group as it is read with the elements in another order: to[i] = from[order(i)].
template <class Order>
void reorder_signs(Hadamard& t, const Order& order) {
  const std::array<std::uint32_t, 4> from = t.signs;
  t.signs = {};
  for (int i = 0; i < t.size; ++i) {
    const int at = order(i);
    t.signs[static_cast<std::size_t>(i / 32)] |= (from[static_cast<std::size_t>(at / 32)] >> at % 32 & 1U) << i % 32;
  }
}

void OptionRows::signs_and_factors() {
  add_transform("x is not transformed", [](const Input& x, const Hadamard&) { return x; });
  add_other_transform("the signs are not changed", [](Hadamard& t) { t.signs = {}; });
  add_other_transform("the opposite signs are changed", [](Hadamard& t) {
    for (int i = 0; i < t.size; i += 16) t.signs[static_cast<std::size_t>(i / 32)] ^= 0xFFFFU << i % 32;
  });
  for (const int by : {1, -1}) {
    add_other_transform(std::string("signs of the element ") + (by > 0 ? "after" : "before"),
                        [by](Hadamard& t) { reorder_signs(t, [&](int i) { return (i + by + t.size) % t.size; }); });
  }
  add_other_transform("signs in the opposite order",
                      [](Hadamard& t) { reorder_signs(t, [&](int i) { return t.size - 1 - i; }); });
  add_other_transform("signs of the first 16 elements for all of a group",
                      [](Hadamard& t) { reorder_signs(t, [](int i) { return i % 16; }); });
  add_transform("signs are changed in every second group alone", [](const Input& x, const Hadamard& t) {
    Input y = transformed(x, t);
    Hadamard plain = t;
    plain.signs = {};
    const Input other = transformed(x, plain);
    return make_input(y.dtype, y.rows, y.cols, y.cols, [&](std::int64_t i, std::int64_t j) {
      return j / t.size % 2 == 0 ? y.bits(i, j) : other.bits(i, j);
    });
  });
  add_transform("signs are changed after the transform in place of before", [](const Input& x, const Hadamard& t) {
    Hadamard plain = t;
    plain.signs = {};
    const Input y = transformed(x, plain);
    return make_input(y.dtype, y.rows, y.cols, y.cols, [&](std::int64_t i, std::int64_t j) {
      const auto at = static_cast<std::size_t>(j % t.size);
      return y.bits(i, j) ^ ((t.signs[at / 32] >> at % 32 & 1) != 0 ? sign_bit(y.dtype) : 0U);
    });
  });
  const int group = p_.options().hadamard;
  if (group != 16 && group != 64) return;
  const int power = group == 16 ? 2 : 3;
  add_transform("the transform is not divided by the root of its size",
                [power](const Input& x, const Hadamard& t) { return scaled_by(transformed(x, t), power); });
  add_transform("the transform is divided by its size in place of the root",
                [power](const Input& x, const Hadamard& t) { return scaled_by(transformed(x, t), -power); });
}

int reversed_bits(int j, int size) {
  int reversed = 0;
  for (int bit = 1; bit < size; bit *= 2) reversed = reversed * 2 + ((j & bit) != 0 ? 1 : 0);
  return reversed;
}

// Stages of FP32 as HadamardSum::butterfly, each result through `round`.
template <class Round>
Input in_stages(const Input& x, const Hadamard& t, bool has_large_first, const Round& round) {
  Input y = make_input(t.result, x.rows, x.cols, x.cols, [](std::int64_t, std::int64_t) { return 0U; });
  const auto n = static_cast<std::size_t>(t.size);
  const std::size_t width = value_bytes(t.result);
  const float factor = static_cast<float>(1 / std::sqrt(static_cast<double>(t.size)));
  std::vector<float> v(n);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t first = 0; first < x.cols; first += t.size) {
      for (std::size_t k = 0; k < n; ++k) {
        const float value = x.view().at(i, first + static_cast<std::int64_t>(k));
        v[k] = (t.signs[k / 32] >> k % 32 & 1) != 0 ? -value : value;
      }
      for (std::size_t s = 1; s < n; s *= 2) {
        const std::size_t h = has_large_first ? n / 2 / s : s;
        for (std::size_t k = 0; k < n; ++k) {
          if ((k & h) != 0) continue;
          const float low = v[k], high = v[k + h];
          v[k] = round(low + high), v[k + h] = round(low - high);
        }
      }
      for (std::size_t k = 0; k < n; ++k) {
        const std::uint32_t bits = encode(t.result, v[k] * factor, Rounding::nearest_even, Overflow::non_saturate);
        std::memcpy(y.bytes.data() + (static_cast<std::size_t>(i * x.cols + first) + k) * width, &bits, width);
      }
    }
  }
  return y;
}

float to_bf16(float value) {
  if (std::isnan(value)) return value;
  return static_cast<float>(
      decode(Format::bf16, encode(Format::bf16, value, Rounding::nearest_even, Overflow::non_saturate)));
}

// Rows in blocks of 16, which restart at experts: whole blocks along columns, rows of others along themselves.
Input down_blocks(const Input& x, const Hadamard& t, std::vector<std::int64_t> ends) {
  if (ends.empty()) ends = {0, x.rows};
  Input y{{}, t.result, x.rows, x.cols, x.cols};
  for (std::size_t e = 0; e + 1 < ends.size(); ++e) {
    for (std::int64_t first = ends[e]; first < ends[e + 1]; first += 16) {
      const std::int64_t rows = std::min<std::int64_t>(16, ends[e + 1] - first);
      const Input block = make_input(x.dtype, rows, x.cols, x.cols,
                                     [&](std::int64_t i, std::int64_t j) { return x.bits(first + i, j); });
      const Input done = transformed(block, t, rows == 16 ? Along::columns : Along::rows);
      y.bytes.insert(y.bytes.end(), done.bytes.begin(), done.bytes.end());
    }
  }
  return y;
}

void OptionRows::transforms() {
  for (const std::string_view sum : {"exact", "butterfly", "sm90_bf16", "sm100_f16", "ieee_fp32"}) {
    if (sum == p_.options().sum) continue;
    add_other_transform("the sums are those of " + std::string(sum), [sum](Hadamard& t) {
      const auto named = value_in(kHadamardSums, sum);
      t.sum = named.value_or(HadamardSum::matrix);
      if (!named) t.contract = sum;
    });
  }
  add_transform("the stages of the sums are rounded to BF16",
                [](const Input& x, const Hadamard& t) { return in_stages(x, t, false, to_bf16); });
  add_transform("the stages of the sums in the opposite order",
                [](const Input& x, const Hadamard& t) { return in_stages(x, t, true, [](float v) { return v; }); });
  for (const Format result : {Format::bf16, Format::fp32, Format::fp16}) {
    if (result == p_.options().result) continue;
    add_other_transform("the transform's result is " + std::string(spec(result).name),
                        [result](Hadamard& t) { t.result = result; });
  }
  add_transform("x is rounded to BF16 before the transform", [](const Input& x, const Hadamard& t) {
    return transformed(make_input(Format::bf16, x.rows, x.cols, x.cols,
                                  [&](std::int64_t i, std::int64_t j) {
                                    return encode(Format::bf16, decode(x.dtype, x.bits(i, j)), Rounding::nearest_even,
                                                  Overflow::non_saturate);
                                  }),
                       t);
  });
  add_transform("the transform is along the other axis",
                [](const Input& x, const Hadamard& t) { return transformed(x, t, Along::columns); });
  if (p_.options().hadamard == 16) {
    add_transform("blocks of 16 rows are transformed down their columns",
                  [experts = p_.c.experts](const Input& x, const Hadamard& t) { return down_blocks(x, t, experts); });
  }
  add_transform("outputs of the transform in the order of reversed bits", [](const Input& x, const Hadamard& t) {
    const Input y = transformed(x, t);
    return make_input(y.dtype, y.rows, y.cols, y.cols, [&](std::int64_t i, std::int64_t j) {
      return y.bits(i, j / t.size * t.size + reversed_bits(static_cast<int>(j % t.size), t.size));
    });
  });
  for (const int size : kHadamardSizes) {
    if (size == p_.options().hadamard) continue;
    add_other_transform("groups of " + std::to_string(size), [size](Hadamard& t) { t.size = size; });
  }
  add_transform("the last group is not transformed", [](const Input& x, const Hadamard& t) {
    const Input y = transformed(x, t);
    return make_input(y.dtype, y.rows, y.cols, y.cols, [&](std::int64_t i, std::int64_t j) {
      if (j < y.cols - t.size) return y.bits(i, j);
      return encode(y.dtype, decode(x.dtype, x.bits(i, j)), Rounding::nearest_even, Overflow::non_saturate);
    });
  });
  Nvfp4Slip amax;
  amax.has_scales_of_x = true;
  add("the block's amax is that of x before the transform", std::move(amax));
}

void OptionRows::directions() {
  const auto with = [this](const char* name, bool Nvfp4Slip::*flag) {
    Nvfp4Slip slip;
    slip.*flag = true;
    add(name, std::move(slip));
  };
  with("the scale of the rows' tensor for the columns", &Nvfp4Slip::has_one_tensor_scale);
  if (p_.options().hadamard != 0) {
    with("the rows are transformed too", &Nvfp4Slip::transforms_rows);
    with("the columns are not transformed", &Nvfp4Slip::has_columns_untransformed);
  }
  if (!p_.options().is_stochastic()) return;
  add_word("words of the columns by the counter of the rows", [](Nvfp4Word w) {
    w.counter = w.random.counter;
    return w.of_number(w.number());
  });
  add_word("words of the columns by the element's number in x", [](const Nvfp4Word& w) {
    const std::int64_t place = w.is_transposed ? w.col * w.rows + w.row : w.row * w.cols + w.col;
    return w.of_number(static_cast<std::uint64_t>(place) + w.random.offset);
  });
  add_nearest("the columns are rounded to nearest", [](const Nvfp4Word& w) { return w.is_transposed; });
}

// Codes that are right, and in other places.
void OptionRows::packing() {
  for (std::size_t output = 0; output < p_.outputs.size(); output += 2) {
    const std::string of = p_.outputs[output].name;
    const auto cols = output == 0 ? p_.c.cols : p_.c.rows;
    table_.push_back(definition_of_output(output, "the nibbles of a byte of " + of + " are exchanged", [this, output] {
      Bytes bytes = nvfp4_outputs(p_, {})[output];
      for (std::byte& byte : bytes) byte = byte << 4 | byte >> 4;
      return bytes;
    }));
    table_.push_back(definition_of_output(output, "the signs of " + of + " are dropped", [this, output, cols] {
      std::vector<std::uint8_t> codes = unpacked_rows(nvfp4_outputs(p_, {})[output], cols);
      for (std::uint8_t& code : codes) code &= 7;
      return packed_rows(codes, cols);
    }));
    if (output != 2) continue;
    table_.push_back(definition_of_output(output, "column codes of two columns in a byte in place of two rows", [this] {
      const std::vector<Nvfp4Matrix> matrices = nvfp4_matrices(p_);
      const QuantizedTensor q = nvfp4_quantized(p_, matrices[1]);
      const std::int64_t n = matrices[1].c.rows, k = matrices[1].c.cols;
      Bytes bytes(static_cast<std::size_t>(n * ((k + 1) / 2)), std::byte{0});
      if (n % 2 != 0 || k % 2 != 0) return Bytes{};
      for (std::int64_t i = 0; i < n; i += 2) {
        for (std::int64_t j = 0; j < k; ++j) {
          const std::uint32_t low = q.codes.code(static_cast<std::size_t>(i * k + j));
          const std::uint32_t high = q.codes.code(static_cast<std::size_t>((i + 1) * k + j));
          bytes[static_cast<std::size_t>(i / 2 * k + j)] = static_cast<std::byte>(low | high << 4);
        }
      }
      return bytes;
    }));
  }
}

}  // namespace

Table nvfp4_options_table(const Nvfp4Problem& problem) {
  // Rows are evaluated later: what they refer to lives in one of them.
  const auto copy = std::make_shared<Nvfp4Problem>(problem);
  const auto rows = std::make_shared<OptionRows>(*copy);
  Table table = rows->take();
  return owning(owning(std::move(table), rows), copy);
}

}  // namespace mxcheck
