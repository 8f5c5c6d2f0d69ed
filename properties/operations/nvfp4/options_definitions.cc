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

constexpr std::uint64_t kHalf = 0xFFFFFFFF;

// All outputs of Philox4x32 after so many rounds; the definition takes the first after ten.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> c, int rounds) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int i = 0; i < rounds; ++i, k0 += 0x9E3779B9U, k1 += 0xBB67AE85U) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0], p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
  }
  return c;
}

std::array<std::uint32_t, 4> counter_of(const Nvfp4Word& w, std::uint64_t number) {
  return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), w.counter[0], w.counter[1]};
}
std::uint32_t own_word(const Nvfp4Word& w) { return w.of_number(w.number()); }
std::uint64_t place_of(const Nvfp4Word& w) { return static_cast<std::uint64_t>(w.row * w.cols + w.col); }

class OptionRows {
 public:
  explicit OptionRows(const Nvfp4Problem& p) : p_(p) {}

  Table take() {
    recipes();
    if (p_.options().is_stochastic) stochastic();
    if (p_.options().is_stochastic) numbers();
    if (p_.options().is_stochastic) counters();
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
    Nvfp4Slip slip;
    slip.word = std::move(word);
    add(std::move(name), std::move(slip));
  }
  void add_nearest(std::string name, std::function<bool(const Nvfp4Word&)> is_nearest) {
    Nvfp4Slip slip;
    slip.is_nearest = std::move(is_nearest);
    add(std::move(name), std::move(slip));
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
  void stochastic();
  void numbers();
  void counters();
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
  const bool is_stochastic = p_.options().is_stochastic;
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

// The word that an element has, and what it does.
void OptionRows::stochastic() {
  add_nearest("codes: rounded to nearest, without the words", [](const Nvfp4Word&) { return true; });
  add_word("codes: truncated, as under words of 0", [](const Nvfp4Word&) { return 0U; });
  add_word("codes: rounded away from zero, as under words of 2^32 - 1", [](const Nvfp4Word&) { return ~0U; });
  add_word("the word is added to signed values: negative ones round the other way",
           [](const Nvfp4Word& w) { return w.is_negative ? ~own_word(w) : own_word(w); });
  add_word("the word is subtracted in place of added", [](const Nvfp4Word& w) { return ~own_word(w); });
  add_word("the low byte of the word in place of the top one", [](const Nvfp4Word& w) { return own_word(w) << 24; });
  add_word("the top byte of the word alone", [](const Nvfp4Word& w) { return own_word(w) & 0xFF000000U; });
  add_word("the low half of the word in place of the high one", [](const Nvfp4Word& w) { return own_word(w) << 16; });
  add_word("the word with its bytes in the opposite order",
           [](const Nvfp4Word& w) { return __builtin_bswap32(own_word(w)); });
  add_word("half of the word: without its top bit", [](const Nvfp4Word& w) { return own_word(w) >> 1; });
  Nvfp4Slip scales;
  scales.has_stochastic_scales = true;
  add("block scales are rounded by the word of their first element", scales);
  scales.is_nearest = [](const Nvfp4Word&) { return true; };
  add("block scales are rounded by words, and codes to nearest", std::move(scales));
  for (const std::int64_t unit : {2, 4, 8, 16, 32, 64}) {
    if (p_.c.cols % unit == 0) continue;
    add_nearest("elements after the last whole " + std::to_string(unit) + " columns are rounded to nearest",
                [unit](const Nvfp4Word& w) { return w.col >= w.cols / unit * unit; });
  }
  for (int output = 1; output < 4; ++output) {
    add_word("output " + std::to_string(output + 1) + " of Philox in place of the first", [output](const Nvfp4Word& w) {
      return philox(w.random.key, counter_of(w, w.number()), 10)[static_cast<std::size_t>(output)];
    });
  }
  add_word("the four outputs of Philox for four elements, of the counter of their number / 4",
           [](const Nvfp4Word& w) { return philox(w.random.key, counter_of(w, w.number() / 4), 10)[w.number() % 4]; });
  add_word("the four outputs of Philox for four elements, of the counter of the first of them", [](const Nvfp4Word& w) {
    return philox(w.random.key, counter_of(w, w.number() / 4 * 4), 10)[w.number() % 4];
  });
  for (const int rounds : {7, 9}) {
    add_word("Philox of " + std::to_string(rounds) + " rounds",
             [rounds](const Nvfp4Word& w) { return philox(w.random.key, counter_of(w, w.number()), rounds)[0]; });
  }
}

// The number of an element.
void OptionRows::numbers() {
  const auto add_number = [this](std::string name, std::function<std::uint64_t(const Nvfp4Word&)> number) {
    add_word(std::move(name),
             [number = std::move(number)](const Nvfp4Word& w) { return w.of_number(number(w) + w.random.offset); });
  };
  const auto number = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  add_number("words of the row in place of the element", [=](const Nvfp4Word& w) { return number(w.row); });
  add_number("words of the column in place of the element", [=](const Nvfp4Word& w) { return number(w.col); });
  add_number("words of the block of 16 in place of the element",
             [=](const Nvfp4Word& w) { return number(w.row * ((w.cols + 15) / 16) + w.col / 16); });
  for (const std::uint64_t count : {2U, 4U, 8U, 16U}) {
    add_number("one word for " + std::to_string(count) + " elements, that of the first",
               [count](const Nvfp4Word& w) { return place_of(w) / count * count; });
    add_number("one word for " + std::to_string(count) + " elements, of their number / " + std::to_string(count),
               [count](const Nvfp4Word& w) { return place_of(w) / count; });
  }
  for (const std::int64_t count : {2, 4, 8, 16}) {
    add_number("one word for " + std::to_string(count) + " columns, that of the first",
               [=](const Nvfp4Word& w) { return number(w.row * w.cols + w.col / count * count); });
  }
  add_number("words of the element after", [](const Nvfp4Word& w) { return place_of(w) + 1; });
  add_number("words of the element before", [](const Nvfp4Word& w) { return place_of(w) - 1; });
  add_number("words in the order of columns", [=](const Nvfp4Word& w) { return number(w.col * w.rows + w.row); });
  const std::int64_t stride = p_.input.stride;
  add_number("words of the place in x, gaps between its rows counted",
             [=](const Nvfp4Word& w) { return number(w.row * stride + w.col); });
  for (const std::int64_t unit : {2, 16, 32, 64, 128}) {
    if (p_.c.cols % unit == 0 || p_.c.rows < 2) continue;
    add_number("rows padded to " + std::to_string(unit) + " columns when elements are numbered",
               [=](const Nvfp4Word& w) { return number(w.row * ((w.cols + unit - 1) / unit * unit) + w.col); });
  }
  if (p_.c.experts.empty()) return;
  add_number("numbers of elements restart at each expert", [experts = p_.c.experts](const Nvfp4Word& w) {
    std::int64_t first = 0;
    for (const std::int64_t begin : experts) first = begin <= w.row ? begin : first;
    return place_of(w) - static_cast<std::uint64_t>(first * w.cols);
  });
}

// The key and the counter.
void OptionRows::counters() {
  const auto add_counter = [this](std::string name,
                                  std::function<void(std::uint64_t&, std::array<std::uint32_t, 4>&)> change) {
    add_word(std::move(name), [change = std::move(change)](const Nvfp4Word& w) {
      std::uint64_t key = w.random.key;
      std::array<std::uint32_t, 4> counter = counter_of(w, w.number());
      change(key, counter);
      return philox(key, counter, 10)[0];
    });
  };
  add_counter("the high half of the seed is dropped", [](auto& key, auto&) { key &= kHalf; });
  add_counter("the halves of the seed are exchanged", [](auto& key, auto&) { key = key >> 32 | key << 32; });
  add_counter("a seed of 0", [](auto& key, auto&) { key = 0; });
  add_counter("the halves of the element's number are exchanged in the counter",
              [](auto&, auto& c) { std::swap(c[0], c[1]); });
  add_counter("the element's number without its high half", [](auto&, auto& c) { c[1] = 0; });
  add_counter("the third and the fourth word of the counter are exchanged",
              [](auto&, auto& c) { std::swap(c[2], c[3]); });
  add_counter("the third and the fourth word of the counter are 0", [](auto&, auto& c) { c[2] = c[3] = 0; });
  add_counter("the fourth word of the counter is 0", [](auto&, auto& c) { c[3] = 0; });
  add_counter("the element's number is in the third and the fourth word of the counter",
              [](auto&, auto& c) { std::swap(c[0], c[2]), std::swap(c[1], c[3]); });
  add_word("the offset is ignored", [](const Nvfp4Word& w) { return w.of_number(place_of(w)); });
  add_word("the offset without its high half",
           [](const Nvfp4Word& w) { return w.of_number(place_of(w) + (w.random.offset & kHalf)); });
  add_word("the sum of number and offset does not carry into its high half", [](const Nvfp4Word& w) {
    return w.of_number(((place_of(w) + w.random.offset) & kHalf) | (w.random.offset & ~kHalf));
  });
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
  if (!p_.options().is_stochastic) return;
  add_word("words of the columns by the counter of the rows", [](Nvfp4Word w) {
    w.counter = w.random.counter;
    return own_word(w);
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
