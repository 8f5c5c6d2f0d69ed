#include "properties/core/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/input.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 18;  // of a problem that is answered again and again
constexpr std::int64_t kMostWorkOfFew = std::int64_t{1} << 22;
constexpr std::int64_t kMostWorkOfLarge = std::int64_t{1} << 28;
constexpr std::size_t kMostVariants = 64;

// A matrix of words, and the same with its elements moved or changed.
struct Words {
  std::span<const std::byte> bytes;
  std::int64_t rows = 0, cols = 0, stride = 0;  // stride: elements from a row to the next
  std::size_t width = 1;

  // Elements in the gaps between rows are memory too.
  [[nodiscard]] bool holds(std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(row * stride + col + 1) * width <= bytes.size();
  }
  [[nodiscard]] std::span<const std::byte> at(std::int64_t row, std::int64_t col) const {
    return bytes.subspan(static_cast<std::size_t>(row * stride + col) * width, width);
  }
};

// Where an element comes from; outside of the memory: it is zero.
struct Place {
  std::int64_t row, col;
};
using From = std::function<Place(std::int64_t row, std::int64_t col)>;
struct Move {
  std::string name;  // "each row taken from the row before"
  From from;
  bool may_be_confined = true;
};

Bytes moved(const Words& w, const From& from) {
  Bytes out(w.bytes.begin(), w.bytes.end());
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const Place p = from(r, c);
      std::byte* to = out.data() + static_cast<std::size_t>(r * w.stride + c) * w.width;
      const bool is_inside = p.row >= 0 && p.col >= 0 && p.col < w.stride && w.holds(p.row, p.col);
      if (is_inside) std::memcpy(to, w.at(p.row, p.col).data(), w.width);
      if (!is_inside) std::memset(to, 0, w.width);
    }
  }
  return out;
}

// Elements read at the low bits of their place, by element or by row.
std::vector<Move> low_index_moves(const Words& w) {
  const std::int64_t cols = w.cols;
  std::vector<Move> all;
  for (const int bits : {16, 20}) {
    const std::int64_t mask = (std::int64_t{1} << bits) - 1;
    const std::string of_bits = " of " + std::to_string(bits) + " bits";
    if (w.rows * cols <= mask + 1) continue;
    all.push_back({"an index" + of_bits,
                   [=](auto r, auto c) {
                     const std::int64_t i = (r * cols + c) & mask;
                     return Place{i / cols, i % cols};
                   },
                   false});
    all.push_back({"rows at an index" + of_bits,
                   [=](auto r, auto c) {
                     const std::int64_t i = (r * cols & mask) + c;
                     return Place{i / cols, i % cols};
                   },
                   false});
  }
  return all;
}

// Moves by the shape; at an edge an element keeps the nearest that there is.
std::vector<Move> moves_of(const Words& w) {
  const std::int64_t rows = w.rows, cols = w.cols;
  std::vector<Move> all;
  const auto add = [&](bool is_possible, std::string name, From from) {
    if (is_possible) all.push_back({std::move(name), std::move(from)});
  };
  const auto clamped = [rows, cols](std::int64_t r, std::int64_t c) {
    return Place{std::clamp<std::int64_t>(r, 0, rows - 1), std::clamp<std::int64_t>(c, 0, cols - 1)};
  };
  add(rows > 1, "each row taken from the row before", [=](auto r, auto c) { return clamped(r - 1, c); });
  add(rows > 1, "each row taken from the row after", [=](auto r, auto c) { return clamped(r + 1, c); });
  add(rows > 1, "the first row in every row", [](auto, auto c) { return Place{0, c}; });
  add(cols > 1, "each element taken from the one before", [=](auto r, auto c) { return clamped(r, c - 1); });
  add(cols > 1, "each element taken from the one after", [=](auto r, auto c) { return clamped(r, c + 1); });
  add(cols > 1, "the first element of a row in all of it", [](auto r, auto) { return Place{r, 0}; });
  add(rows > 1 && cols > 1, "the transposed matrix, in the order of columns", [=](auto r, auto c) {
    return Place{(r * cols + c) % rows, (r * cols + c) / rows};
  });
  for (const std::int64_t word : {4, 8}) {
    add(w.width == 1 && rows * cols > word, "bytes of each word of " + std::to_string(word) + " in the opposite order",
        [=](auto r, auto c) {
          const std::int64_t i = r * cols + c, first = i / word * word;
          const std::int64_t from = first + word > rows * cols ? i : first + word - 1 - i % word;
          return Place{from / cols, from % cols};
        });
  }
  add(cols > 1, "pairs of columns exchanged", [=](auto r, auto c) { return clamped(r, c ^ 1); });
  const std::int64_t half = cols / 2;
  if (cols > 2 && cols % 2 == 0) {
    add(true, "the halves of a row exchanged", [=](auto r, auto c) { return Place{r, (c + half) % cols}; });
    add(true, "columns in halves in place of interleaved", [=](auto r, auto c) {
      return Place{r, c < half ? 2 * c : 2 * (c - half) + 1};
    });
    add(true, "columns interleaved in place of in halves", [=](auto r, auto c) {
      return Place{r, c / 2 + (c % 2 == 0 ? 0 : half)};
    });
  }
  for (const std::int64_t tile : {16, 32, 64, 128, 1024}) {
    add(cols > tile, "the first " + std::to_string(tile) + " columns again and again", [=](auto r, auto c) {
      return Place{r, c % tile};
    });
    add(rows > tile, "the first " + std::to_string(tile) + " rows again and again", [=](auto r, auto c) {
      return Place{r % tile, c};
    });
    add(rows > 1 && rows > tile / 2 && tile <= 128,
        "the first row of every " + std::to_string(tile) + " in all of them", [=](auto r, auto c) {
          return Place{r / tile * tile, c};
        });
    add(cols > 1 && tile <= 128, "the first of every " + std::to_string(tile) + " in all of them", [=](auto r, auto c) {
      return Place{r, c / tile * tile};
    });
  }
  std::ranges::move(low_index_moves(w), std::back_inserter(all));
  return all;
}

// Values of a format as others.
struct Change {
  std::string name;
  std::function<std::uint32_t(std::uint32_t word)> word;
};

// Changes that codes of elements may have too; none of formats without sign and exponent.
std::vector<Change> changes_of_codes(Format f) {
  const FormatSpec& of = spec(f);
  if (of.mantissa_bits == 0 || of.exponent_bits == 0 || of.bits > 32) return {};
  const std::uint32_t sign = std::uint32_t{1} << (of.bits - 1), normal = std::uint32_t{1} << of.mantissa_bits;
  return {{"the largest number taken for the one below it",
           [=, largest = of.max_code](auto w) { return (w & ~sign) == largest ? w - 1 : w; }},
          {"subnormal values a binade too high",
           [=](auto w) { return (w & ~sign) < normal ? (w & sign) | (w & ~sign) << 1 : w; }}};
}

std::vector<Change> changes_of(Format f) {
  const std::uint32_t sign = std::uint32_t{1} << (spec(f).bits - 1);
  const double normal = std::ldexp(1.0, 1 - spec(f).bias);
  const std::uint32_t largest = spec(f).max_code;
  const auto value = [f](std::uint32_t w) { return decode(f, w); };
  const auto cut = [](double v, Rounding r) {
    return std::isnan(v) ? v : decode(Format::bf16, encode(Format::bf16, v, r, Overflow::non_saturate));
  };
  std::vector<Change> all{
      {"subnormal values taken for zero", [=](auto w) { return std::fabs(value(w)) < normal ? w & sign : w; }},
      {"values without their sign", [=](auto w) { return std::isnan(value(w)) ? w : w & ~sign; }},
      {"zeros without their sign", [=](auto w) { return value(w) == 0 ? 0U : w; }},
      {"NaN taken for zero", [=](auto w) { return std::isnan(value(w)) ? 0U : w; }},
      {"infinities taken for the largest number",
       [=](auto w) { return std::isinf(value(w)) ? (w & sign) | largest : w; }},
      {"infinities taken for NaN", [=](auto w) { return std::isinf(value(w)) ? w | 1U : w; }},
      {"infinities taken for zero", [=](auto w) { return std::isinf(value(w)) ? 0U : w; }}};
  std::ranges::move(changes_of_codes(f), std::back_inserter(all));
  if (f != Format::fp32) return all;
  for (const auto& [name, rounding] : {std::pair("values rounded to BF16", Rounding::nearest_even),
                                       std::pair("values cut to BF16", Rounding::toward_zero)}) {
    all.push_back({name, [=, r = rounding](auto w) {
                     return std::isnan(value(w)) ? w
                                                 : encode(Format::fp32, cut(value(w), r), Rounding::nearest_even,
                                                          Overflow::non_saturate);
                   }});
  }
  return all;
}

Bytes changed(const Words& w, const Change& change) {
  Bytes out(w.bytes.begin(), w.bytes.end());
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.cols; ++c) {
      std::uint32_t word = 0;
      const std::size_t width = std::min(w.width, sizeof(word));  // of 64-bit integers the lower half
      std::memcpy(&word, w.at(r, c).data(), width);
      word = change.word(word);
      std::memcpy(out.data() + static_cast<std::size_t>(r * w.stride + c) * w.width, &word, width);
    }
  }
  return out;
}

// Outputs at other places, or with other values.

bool has_values(const TensorInfo& info) { return info.integer_bits == 0 && spec(info.format).is_value; }

Words words_of(const AnswerTensor& t) {
  return {t.expected, t.info.rows, t.info.cols, t.info.cols, bytes_of_element(t.info)};
}

// Results stored at other places, outside of the memory: lost. Two that meet are either; what nothing reaches is not
// written.
Bytes stored_at(const AnswerTensor& t, std::uint8_t poison, const std::function<std::int64_t(std::int64_t)>& place) {
  const Words w = words_of(t);
  const std::int64_t count = w.rows * w.cols;
  std::vector<std::uint8_t> is_settled(static_cast<std::size_t>(count));
  Bytes out(t.expected.size(), static_cast<std::byte>(poison));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t to = place(i);
    if (to >= count || is_settled[static_cast<std::size_t>(to)] == 1) continue;
    const auto at = static_cast<std::size_t>(to) * w.width;
    std::memcpy(out.data() + at, w.bytes.data() + static_cast<std::size_t>(i) * w.width, w.width);
    is_settled[static_cast<std::size_t>(to)] = same_element(t.info, out, t.observed, to) ? 1 : 2;
  }
  // Memory that nothing reached may have been cleared before.
  for (std::size_t i = 0; i < is_settled.size(); ++i) {
    const auto own = t.observed.subspan(i * w.width, w.width);
    const bool is_zero = std::ranges::all_of(own, [](std::byte b) { return b == std::byte{0}; });
    if (is_settled[i] == 0 && is_zero)
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(i * w.width), w.width, std::byte{0});
  }
  return out;
}

// At the low bits of their place, by element or by row, and in rows of another pitch.
void add_stores(std::size_t i, const AnswerTensor& t, std::uint8_t poison, Table& table) {
  const std::int64_t rows = t.info.rows, cols = std::max<std::int64_t>(1, t.info.cols);
  const auto add = [&](const std::string& name, std::function<std::int64_t(std::int64_t)> place) {
    table.push_back(
        definition_of_output(i, name, [t, poison, place = std::move(place)] { return stored_at(t, poison, place); }));
    table.back().may_be_confined = false;
  };
  for (const int bits : {16, 20}) {
    const std::int64_t mask = (std::int64_t{1} << bits) - 1;
    if (rows * cols <= mask + 1) continue;
    const std::string at = " of " + t.info.name + " stored at an index of " + std::to_string(bits) + " bits";
    add("results" + at, [mask](std::int64_t from) { return from & mask; });
    add("rows" + at, [mask, cols](std::int64_t from) { return (from / cols * cols & mask) + from % cols; });
  }
  for (const std::int64_t multiple : {2, 4, 8, 16, 32, 64, 128}) {
    const std::int64_t pitch = (cols + multiple - 1) / multiple * multiple;
    if (rows > 1 && pitch != cols)
      add("rows of " + t.info.name + " stored at a pitch of a multiple of " + std::to_string(multiple),
          [pitch, cols](std::int64_t at) { return at / cols * pitch + at % cols; });
  }
}

// A result one step too far from zero or too near; of integers, one too large or too small, but of -1 for none.
std::uint32_t stepped(const TensorInfo& info, std::uint32_t word, int by) {
  if (info.integer_bits != 0) return word == ~0U ? word : word + static_cast<std::uint32_t>(by);
  const std::uint32_t sign = std::uint32_t{1} << (spec(info.format).bits - 1);
  const bool is_at_an_end = by < 0 ? (word & (sign - 1)) == 0 : (word & (sign - 1)) == sign - 1;
  return is_at_an_end ? word : word + static_cast<std::uint32_t>(by);
}

Change added_to(Format f, std::uint8_t poison) {
  const std::uint32_t held = poison * 0x01010101U & (spec(f).bits == 16 ? 0xFFFFU : ~0U);
  return {"", [f, held](std::uint32_t word) {
            return encode(f, decode(f, word) + decode(f, held), Rounding::nearest_even, Overflow::non_saturate);
          }};
}

// Another code for every NaN, the candidate's own.
void add_other_nan(std::size_t i, const AnswerTensor& t, Table& table) {
  const auto count = static_cast<std::int64_t>(t.expected.size() / bytes_of_element(t.info));
  const auto is_nan = [&t](std::int64_t at) {
    return std::isnan(decode(t.info.format, word_of(t.info, t.expected, at)));
  };
  for (std::int64_t at = 0; at < count; ++at) {
    if (!is_nan(at) || same_element(t.info, t.expected, t.observed, at)) continue;
    const std::uint32_t own = word_of(t.info, t.observed, at);
    const Change to_own{"", [f = t.info.format, own](std::uint32_t w) { return std::isnan(decode(f, w)) ? own : w; }};
    table.push_back(definition_of_output(
        i, fmt::format("NaN of {} written as {:#0{}x}", t.info.name, own, 2 + (spec(t.info.format).bits + 3) / 4),
        [w = words_of(t), to_own] { return changed(w, to_own); }));
    return;
  }
}

void add_outputs(std::span<const AnswerTensor> outputs, std::uint8_t poison, Table& table) {
  table.push_back(
      {.name = "memory that is not written",
       .bytes = [outputs,
                 poison](std::size_t i) { return Bytes(outputs[i].expected.size(), static_cast<std::byte>(poison)); },
       .is_told_anywhere = true});
  table.push_back({"zeros in place of results",
                   [outputs](std::size_t i) { return Bytes(outputs[i].expected.size(), std::byte{0}); }});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Words w = words_of(outputs[i]);
    const std::string of = " of " + outputs[i].info.name;
    for (Move& move : moves_of(w)) {
      table.push_back(definition_of_output(i, move.name + of, [w, from = move.from] { return moved(w, from); }));
      table.back().may_be_confined = move.may_be_confined;
    }
    const AnswerTensor& t = outputs[i];
    const bool is_integer = t.info.integer_bits != 0;
    for (const int by : {1, -1}) {
      const std::string how = is_integer ? (by > 0 ? "one too large" : "one too small")
                                         : (by > 0 ? "one step too far from zero" : "one step too near to zero");
      const Change step{"", [info = t.info, by](std::uint32_t word) { return stepped(info, word, by); }};
      table.push_back(definition_of_output(i, "results" + of + " " + how, [w, step] { return changed(w, step); }));
    }
    add_stores(i, t, poison, table);
    const auto change_all = [&](const std::vector<Change>& changes) {
      for (const Change& change : changes)
        table.push_back(
            definition_of_output(i, "results" + of + ": " + change.name, [w, change] { return changed(w, change); }));
    };
    if (!is_integer) add_other_nan(i, t, table);
    if (!has_values(t.info)) {
      if (!is_integer && spec(t.info.format).is_element) change_all(changes_of_codes(t.info.format));
      continue;
    }
    if (w.width >= 2) {
      const Change added = added_to(t.info.format, poison);
      table.push_back(definition_of_output(i, "results" + of + " added to what the memory held",
                                           [w, added] { return changed(w, added); }));
    }
    change_all(changes_of(t.info.format));
  }
}

// The answer to another call.

class CallSlips {
 public:
  CallSlips(const Problem& p, Table& table) : p_(p), call_(p.call()), inputs_(p.inputs()), table_(table) {
    for (const CallTensor& t : call_.inputs) {
      if (t.is_offsets && !t.shape.empty()) groups_ = t.shape[0] - 1;
    }
  }

  void inputs();
  void large_inputs();  // slips that only many elements show
  void variants();

 private:
  void add(std::string name, std::function<bool(Call&)> change) {
    table_.push_back(definition_of_all(
        std::move(name), [call = call_, change = std::move(change)] { return answer_to(call, change); }, memo_));
  }
  // True if calls like `other` read tensors of the same sizes.
  static bool takes_inputs_of(const Call& call, const Call& other) {
    return std::ranges::equal(call.inputs, other.inputs, [](const CallTensor& a, const CallTensor& b) {
      return a.dtype == b.dtype && a.is_index == b.is_index && a.is_offsets == b.is_offsets && a.shape == b.shape;
    });
  }
  static std::vector<Bytes> answer_to(Call call, const std::function<bool(Call&)>& change) {
    std::vector<Bytes> answer;
    try {
      if (!change(call)) return {};
      const std::unique_ptr<Problem> other = operation_named(call.operation).problem_of(call);
      for (ExpectedTensor& t : other->answer()) answer.push_back(std::move(t.bytes));
    } catch (const Error&) {  // no good call
      answer.clear();
    }
    return answer;
  }
  void replaced(std::string name, std::size_t input, std::function<Bytes()> bytes, bool may_be_confined = true) {
    add(std::move(name), [input, bytes = std::move(bytes)](Call& call) {
      CallTensor& t = call.inputs[input];
      Bytes other = bytes();
      if (other.size() != t.bytes || std::memcmp(other.data(), t.data, other.size()) == 0) return false;
      t.data = call.own(std::move(other));
      return true;
    });
    table_.back().may_be_confined = may_be_confined;
  }
  [[nodiscard]] std::string name_of(std::size_t input) const;
  [[nodiscard]] std::optional<Words> words_of_input(std::size_t input) const;  // none: packed, or empty
  void of_values(std::size_t input, const std::string& name);
  void of_strides(std::size_t input, const std::string& name);
  void of_index(std::size_t input, const std::string& name, bool is_large);  // is_large: entries of 16 bits alone

  const Problem& p_;
  Call call_;
  std::vector<ProblemInput> inputs_;
  std::int64_t groups_ = 0;
  std::shared_ptr<AnswerMemo> memo_ = std::make_shared<AnswerMemo>();
  Table& table_;
};

void CallSlips::of_values(std::size_t input, const std::string& name) {
  const std::optional<Words> words = words_of_input(input);
  if (!words) return;
  const Words w = *words;
  const CallTensor& t = call_.inputs[input];
  const std::int64_t rows = w.rows, cols = w.cols, stride = w.stride;
  for (const Move& move : moves_of(w))
    replaced(
        move.name + " of " + name, input, [w, from = move.from] { return moved(w, from); }, move.may_be_confined);
  if (stride != cols) {
    replaced("rows of " + name + " taken as if there were no gaps between them", input, [w] {
      return moved(w, [w](auto r, auto c) { return Place{(r * w.cols + c) / w.stride, (r * w.cols + c) % w.stride}; });
    });
  }
  if (rows > 1 && cols > 1) {
    replaced("rows of " + name + " taken as if they were one element shorter", input, [w] {
      return moved(w, [w](auto r, auto c) {
        return Place{(r * (w.cols - 1) + c) / w.cols, (r * (w.cols - 1) + c) % w.cols};
      });
    });
  }
  if (groups_ > 1 && rows % groups_ == 0) {
    const std::int64_t each = rows / groups_;
    replaced("the " + name + " of the first group for every group", input, [w, each] {
      return moved(w, [each](auto r, auto c) { return Place{r % each, c}; });
    });
    replaced("the " + name + " of the group before", input, [w, each] {
      return moved(w, [each](auto r, auto c) { return Place{r < each ? r : r - each, c}; });
    });
  }
  if (t.dtype == Format::e4m3) {
    const Change nan{"", [](std::uint32_t b) { return b == 255 ? 254U : b; }};
    replaced("bytes 255 of " + name + " taken for 254", input, [w, nan] { return changed(w, nan); });
    return;
  }
  if (t.dtype == Format::fp64) return;  // words of 32 bits are changed, no others
  for (const Change& change : changes_of(t.dtype))
    replaced(name + ": " + change.name, input, [w, change] { return changed(w, change); });
}

// x by other strides than its own, as a matrix without gaps: elements outside of its memory are zero.
void CallSlips::of_strides(std::size_t input, const std::string& name) {
  const CallTensor& own = call_.inputs[input];
  if (own.strides.size() != 2 || own.shape.size() != 2 || own.is_index || own.is_offsets) return;
  const std::int64_t row_stride = own.strides[0], col_stride = own.strides[1];
  const auto width = static_cast<std::int64_t>(value_bytes(own.dtype));
  const auto with = [&](const std::string& how, std::int64_t by_row, std::int64_t bytes_by_col) {
    if (by_row == row_stride && bytes_by_col == col_stride * width) return;
    add(how + " of " + name, [input, by_row, bytes_by_col, width](Call& call) {
      CallTensor& t = call.inputs[input];
      const std::int64_t rows = t.shape[0], cols = t.shape[1];
      Bytes packed(static_cast<std::size_t>(rows * cols * width));
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const std::int64_t from = i / cols * by_row * width + i % cols * bytes_by_col / width * width;
        if (from + width <= static_cast<std::int64_t>(t.bytes))
          std::memcpy(packed.data() + i * width, t.data + from, static_cast<std::size_t>(width));
      }
      t.strides.clear(), t.row_stride = 0, t.bytes = packed.size();
      t.data = call.own(std::move(packed));
      return true;
    });
  };
  with("a column stride of 1 in place of that", row_stride, width);
  with("a column stride in words of 16 bits in place of that", row_stride, col_stride * 2);
  with("no strides in place of those", own.shape[1], width);
}

void CallSlips::of_index(std::size_t input, const std::string& name, bool is_large) {
  const CallTensor& t = call_.inputs[input];
  const auto index = values_in<std::int32_t>({t.data, t.bytes});
  const bool is_of_rows = name.find("row") != std::string::npos && !call_.inputs[0].shape.empty();
  const std::int64_t bound = is_of_rows ? call_.inputs[0].shape[0] : 0;
  const auto with = [&](const std::string& how, auto value) {
    replaced(how + " of " + name, input, [index, value, bound] {
      std::vector<std::int32_t> other(index.size());
      for (std::size_t i = 0; i < index.size(); ++i) other[i] = value(index, i);
      // Rows that are not there can't be read.
      if (index.empty() || std::ranges::max(other) >= std::max(bound, std::int64_t{std::ranges::max(index)} + 1))
        return Bytes();
      return to_bytes(other);
    });
  };
  using Index = std::vector<std::int32_t>;
  with("entries of 16 bits", [](const Index& x, std::size_t i) { return x[i] < 0 ? x[i] : x[i] & 0xFFFF; });
  if (is_large) return;
  with("the number of an entry in place of the entry", [bound](const Index& x, std::size_t i) {
    const std::int64_t last = std::max(bound - 1, std::int64_t{x.empty() ? 0 : std::ranges::max(x)});
    return static_cast<std::int32_t>(std::min(static_cast<std::int64_t>(i), last));
  });
  with("entries of 8 bits", [](const Index& x, std::size_t i) { return x[i] < 0 ? x[i] : x[i] & 0xFF; });
  with("negative entries taken for 0", [](const Index& x, std::size_t i) { return std::max(x[i], 0); });
  with("the first entry of every 32", [](const Index& x, std::size_t i) { return x[i / 32 * 32]; });
  with("the first 32 entries again and again", [](const Index& x, std::size_t i) { return x[i % 32]; });
  with("the entry before", [](const Index& x, std::size_t i) { return x[i == 0 ? 0 : i - 1]; });
}

std::string CallSlips::name_of(std::size_t input) const {
  const std::string own = input < inputs_.size() ? inputs_[input].info.name : "";
  return !own.empty() ? own : input == 0 ? "x" : "input " + std::to_string(input);
}

std::optional<Words> CallSlips::words_of_input(std::size_t input) const {
  const CallTensor& t = call_.inputs[input];
  const std::int64_t cols = t.shape.empty() ? 0 : t.shape.back();
  const std::size_t width = t.dtype == Format::e4m3 ? 1 : value_bytes(t.dtype);
  const std::int64_t stride = t.row_stride != 0 ? t.row_stride : cols;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < t.shape.size(); ++i) rows *= t.shape[i];
  const bool is_packed = static_cast<std::uint64_t>((rows - 1) * stride + cols) * width != t.bytes;
  if (cols == 0 || t.bytes == 0 || is_packed) return std::nullopt;
  return Words{{t.data, t.bytes}, rows, cols, stride, width};
}

void CallSlips::large_inputs() {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const CallTensor& t = call_.inputs[i];
    if (t.is_offsets) continue;
    if (t.is_index) {
      of_index(i, name_of(i), true);
    } else if (const std::optional<Words> w = words_of_input(i)) {
      for (const Move& move : low_index_moves(*w))
        replaced(
            move.name + " of " + name_of(i), i, [w, from = move.from] { return moved(*w, from); }, false);
    }
  }
}

void CallSlips::inputs() {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const std::string name = name_of(i);
    of_strides(i, name);
    if (call_.inputs[i].is_index) of_index(i, name, false);
    if (!call_.inputs[i].is_index && !call_.inputs[i].is_offsets) of_values(i, name);
  }
}

std::vector<std::string> tokens_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> tokens;
  for (std::string token; in >> token;) tokens.push_back(std::move(token));
  return tokens;
}

// Variants that differ in one word of their text, and take the same inputs.
void CallSlips::variants() {
  const Operation& operation = operation_named(p_.c.variant.operation);
  const std::vector<std::string> own = tokens_of(to_text(p_.c.variant));
  std::size_t count = 0;
  for (const Variant& v : operation.askable(p_.c.variant.operation)) {
    const std::vector<std::string> other = tokens_of(to_text(v));
    if (other.size() != own.size() || count == kMostVariants) continue;
    std::size_t at = 0, differing = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] != other[i]) at = i, ++differing;
    }
    if (differing != 1) continue;
    ++count;
    Case c = p_.c;
    c.variant = v;
    add(other[at] + " in place of " + own[at], [&operation, c](Call& call) {
      const Case possible = parse_case(to_text(c));  // or Error{usage}
      if (!takes_inputs_of(call, operation.make_problem(possible)->call())) return false;
      call.operation = c.variant.operation, call.policy = operation.policy(c);
      return true;
    });
  }
}

}  // namespace

Table general_slips(const Problem& problem, std::span<const AnswerTensor> outputs, std::uint8_t poison,
                    bool few_are_asked) {
  Table table;
  add_outputs(outputs, poison, table);
  const std::int64_t work = operation_named(problem.c.variant.operation).work(problem.c);
  if (work > kMostWorkOfLarge) return table;
  CallSlips calls(problem, table);
  if (work > (few_are_asked ? kMostWorkOfFew : kMostWork)) {
    calls.large_inputs();
    return table;
  }
  calls.variants();
  calls.inputs();
  return table;
}

}  // namespace mxcheck
