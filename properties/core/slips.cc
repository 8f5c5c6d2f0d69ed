#include "properties/core/slips.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/input.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 18;  // of a problem that is answered again and again
constexpr std::int64_t kMostWorkOfFew = std::int64_t{1} << 22;
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
    add(cols > 1 && rows == 1 && tile <= 128, "the first of every " + std::to_string(tile) + " in all of them",
        [=](auto r, auto c) {
          return Place{r, c / tile * tile};
        });
  }
  for (const int bits : {16, 20}) {
    add(rows * cols > std::int64_t{1} << bits, "an index of " + std::to_string(bits) + " bits", [=](auto r, auto c) {
      const std::int64_t i = (r * cols + c) & ((std::int64_t{1} << bits) - 1);
      return Place{i / cols, i % cols};
    });
  }
  return all;
}

// Values of a format as others.
struct Change {
  std::string name;
  std::function<std::uint32_t(std::uint32_t word)> word;
};

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
      std::memcpy(&word, w.at(r, c).data(), w.width);
      word = change.word(word);
      std::memcpy(out.data() + static_cast<std::size_t>(r * w.stride + c) * w.width, &word, w.width);
    }
  }
  return out;
}

// Outputs at other places, or with other values.

bool has_values(const TensorInfo& info) { return info.integer_bits == 0 && spec(info.format).is_value; }

Words words_of(const AnswerTensor& t) {
  return {t.expected, t.info.rows, t.info.cols, t.info.cols, bytes_of_element(t.info)};
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
    for (Move& move : moves_of(w))
      table.push_back(definition_of_output(i, move.name + of, [w, from = move.from] { return moved(w, from); }));
    if (!has_values(outputs[i].info)) continue;
    for (Change& change : changes_of(outputs[i].info.format))
      table.push_back(
          definition_of_output(i, "results" + of + ": " + change.name, [w, change] { return changed(w, change); }));
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
  void replaced(std::string name, std::size_t input, std::function<Bytes()> bytes) {
    add(std::move(name), [input, bytes = std::move(bytes)](Call& call) {
      CallTensor& t = call.inputs[input];
      Bytes other = bytes();
      if (other.size() != t.bytes || std::memcmp(other.data(), t.data, other.size()) == 0) return false;
      t.data = call.own(std::move(other));
      return true;
    });
  }
  void of_values(std::size_t input, const std::string& name);
  void of_index(std::size_t input, const std::string& name);

  const Problem& p_;
  Call call_;
  std::vector<ProblemInput> inputs_;
  std::int64_t groups_ = 0;
  std::shared_ptr<AnswerMemo> memo_ = std::make_shared<AnswerMemo>();
  Table& table_;
};

void CallSlips::of_values(std::size_t input, const std::string& name) {
  const CallTensor& t = call_.inputs[input];
  const bool is_code = t.dtype == Format::e4m3;
  const std::int64_t cols = t.shape.empty() ? 0 : t.shape.back();
  const std::size_t width = is_code ? 1 : value_bytes(t.dtype);
  const std::int64_t stride = t.row_stride != 0 ? t.row_stride : cols;
  if (cols == 0 || t.bytes == 0) return;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < t.shape.size(); ++i) rows *= t.shape[i];
  if (static_cast<std::uint64_t>((rows - 1) * stride + cols) * width != t.bytes) return;  // packed
  const Words w{{t.data, t.bytes}, rows, cols, stride, width};
  for (const Move& move : moves_of(w))
    replaced(move.name + " of " + name, input, [w, from = move.from] { return moved(w, from); });
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
  if (is_code) {
    const Change nan{"", [](std::uint32_t b) { return b == 255 ? 254U : b; }};
    replaced("bytes 255 of " + name + " taken for 254", input, [w, nan] { return changed(w, nan); });
    return;
  }
  for (const Change& change : changes_of(t.dtype))
    replaced(name + ": " + change.name, input, [w, change] { return changed(w, change); });
}

void CallSlips::of_index(std::size_t input, const std::string& name) {
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
  with("the number of an entry in place of the entry",
       [](const Index&, std::size_t i) { return static_cast<std::int32_t>(i); });
  with("entries of 16 bits", [](const Index& x, std::size_t i) { return x[i] < 0 ? x[i] : x[i] & 0xFFFF; });
  with("entries of 8 bits", [](const Index& x, std::size_t i) { return x[i] < 0 ? x[i] : x[i] & 0xFF; });
  with("negative entries taken for 0", [](const Index& x, std::size_t i) { return std::max(x[i], 0); });
  with("the first entry of every 32", [](const Index& x, std::size_t i) { return x[i / 32 * 32]; });
  with("the first 32 entries again and again", [](const Index& x, std::size_t i) { return x[i % 32]; });
  with("the entry before", [](const Index& x, std::size_t i) { return x[i == 0 ? 0 : i - 1]; });
}

void CallSlips::inputs() {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const std::string own = i < inputs_.size() ? inputs_[i].info.name : "";
    const std::string name = !own.empty() ? own : i == 0 ? "x" : "input " + std::to_string(i);
    if (call_.inputs[i].is_index) of_index(i, name);
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
  if (work > (few_are_asked ? kMostWorkOfFew : kMostWork)) return table;
  CallSlips calls(problem, table);
  calls.variants();
  calls.inputs();
  return table;
}

}  // namespace mxcheck
