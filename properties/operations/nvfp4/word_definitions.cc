// Rows about the words of stochastic rounding: which one an element has, and what it does.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "properties/operations/nvfp4/options.h"
#include "reference/quantize/word_order.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kHalf = 0xFFFFFFFF;
constexpr std::uint32_t kTopByte = 0xFF000000;

using FourWords = std::array<std::uint32_t, 4>;

// All outputs of Philox4x32 after so many rounds; the definition has ten.
FourWords philox(std::uint64_t key, FourWords c, int rounds) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int i = 0; i < rounds; ++i, k0 += 0x9E3779B9U, k1 += 0xBB67AE85U) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0], p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
  }
  return c;
}

FourWords counter_of(const Nvfp4Word& w, std::uint64_t number) {
  return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), w.counter[0], w.counter[1]};
}
// The outputs under the counter of this number.
FourWords outputs_of(const Nvfp4Word& w, std::uint64_t number) {
  return philox(w.random.key, counter_of(w, number), 10);
}
std::uint32_t own_word(const Nvfp4Word& w) { return w.of_number(w.number()); }
std::uint64_t place_of(const Nvfp4Word& w) { return static_cast<std::uint64_t>(w.row * w.cols + w.col); }

constexpr std::array kByteOfPlace{0U, 2U, 1U, 3U};  // of the element that is number 0 to 3 of four

// This byte of a word, on top.
std::uint32_t byte_of(std::uint32_t word, std::uint64_t byte) { return word >> 8 * byte << 24; }
// The byte of the element that is number `place` of four.
std::uint32_t byte_at(std::uint32_t word, std::uint64_t place) { return byte_of(word, kByteOfPlace[place % 4]); }

class WordSlips {
 public:
  explicit WordSlips(const Nvfp4Problem& p) : p_(p), has_bytes_(p.options().has_bytes()) {}

  std::vector<NamedNvfp4Slip> take() {
    roundings();
    has_bytes_ ? bytes() : words();
    has_bytes_ ? calls_for_bytes() : calls_for_words();
    if (has_bytes_) orders_of_kernels();
    numbers();
    counters();
    return std::move(slips_);
  }

 private:
  void add(std::string name, Nvfp4Slip slip) { slips_.push_back({std::move(name), std::move(slip)}); }
  void add_word(std::string name, std::function<std::uint32_t(const Nvfp4Word&)> word) {
    add(std::move(name), {.word = std::move(word)});
  }
  void add_nearest(std::string name, std::function<bool(const Nvfp4Word&)> is_nearest) {
    add(std::move(name), {.is_nearest = std::move(is_nearest)});
  }

  void roundings();
  void words();
  void bytes();
  void calls_for_words();
  void calls_for_bytes();
  void orders_of_kernels();
  void numbers();
  void counters();

  const Nvfp4Problem& p_;
  bool has_bytes_;
  std::vector<NamedNvfp4Slip> slips_;
};

// Slips in how an element is rounded by its word.
void WordSlips::roundings() {
  add_nearest("codes: rounded to nearest, without the words", [](const Nvfp4Word&) { return true; });
  add_word("codes: truncated, as under words of 0", [](const Nvfp4Word&) { return 0U; });
  add_word("codes: rounded away from zero, as under words of 2^32 - 1", [](const Nvfp4Word&) { return ~0U; });
  const std::uint32_t bits = has_bytes_ ? kTopByte : ~0U;
  add_word("the word is added to signed values: negative ones round the other way",
           [bits](const Nvfp4Word& w) { return w.is_negative ? own_word(w) ^ bits : own_word(w); });
  add_word("the word is subtracted in place of added", [bits](const Nvfp4Word& w) { return own_word(w) ^ bits; });
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
}

// The bits of its word that an element has.
void WordSlips::words() {
  add_word("the low byte of the word in place of the top one", [](const Nvfp4Word& w) { return own_word(w) << 24; });
  add_word("the top byte of the word alone", [](const Nvfp4Word& w) { return own_word(w) & 0xFF000000U; });
  add_word("the low half of the word in place of the high one", [](const Nvfp4Word& w) { return own_word(w) << 16; });
  add_word("the word with its bytes in the opposite order",
           [](const Nvfp4Word& w) { return __builtin_bswap32(own_word(w)); });
  add_word("half of the word: without its top bit", [](const Nvfp4Word& w) { return own_word(w) >> 1; });
}

void WordSlips::bytes() {
  const auto add_order = [this](std::string name, const std::array<std::uint64_t, 4>& bytes) {
    add_word("the bytes of a word in the order " + std::move(name), [bytes](const Nvfp4Word& w) {
      const std::uint64_t n = w.number();
      return byte_of(outputs_of(w, n / 16)[n % 16 / 4], bytes[n % 4]);
    });
  };
  add_order("0, 1, 2, 3", {0, 1, 2, 3});
  add_order("3, 2, 1, 0", {3, 2, 1, 0});
  add_order("3, 1, 2, 0", {3, 1, 2, 0});
  add_order("1, 3, 0, 2", {1, 3, 0, 2});
  for (std::uint64_t byte = 0; byte < 4; ++byte) {
    const std::string which = byte == 3   ? "the top byte"
                              : byte == 0 ? "the lowest byte"
                                          : "byte " + std::to_string(byte);
    add_word(which + " of a word for its four elements",
             [byte](const Nvfp4Word& w) { return byte_of(outputs_of(w, w.number() / 16)[w.number() % 16 / 4], byte); });
  }
  add_word("all 32 bits of a word for each of its four elements",
           [](const Nvfp4Word& w) { return outputs_of(w, w.number() / 16)[w.number() % 16 / 4]; });
  add_word("the byte is added to the lowest eight of 32 bits", [](const Nvfp4Word& w) { return own_word(w) >> 24; });
  add_word("the byte is added to the lowest eight of 16 bits", [](const Nvfp4Word& w) { return own_word(w) >> 8; });
  add_word("bits below the byte, of the elements before it in their word", [](const Nvfp4Word& w) {
    const std::uint64_t n = w.number();
    const std::uint64_t byte = kByteOfPlace[n % 4];
    return outputs_of(w, n / 16)[n % 16 / 4] << 8 * (3 - byte);
  });
}

// The call of Philox, and its output, that an element has.
void WordSlips::calls_for_words() {
  for (int output = 1; output < 4; ++output) {
    add_word("output " + std::to_string(output + 1) + " of Philox in place of the first",
             [output](const Nvfp4Word& w) { return outputs_of(w, w.number())[static_cast<std::size_t>(output)]; });
  }
  add_word("the four outputs of Philox for four elements, of the counter of their number / 4",
           [](const Nvfp4Word& w) { return outputs_of(w, w.number() / 4)[w.number() % 4]; });
  add_word("the four outputs of Philox for four elements, of the counter of the first of them",
           [](const Nvfp4Word& w) { return outputs_of(w, w.number() / 4 * 4)[w.number() % 4]; });
  for (const int rounds : {7, 9}) {
    add_word("Philox of " + std::to_string(rounds) + " rounds",
             [rounds](const Nvfp4Word& w) { return philox(w.random.key, counter_of(w, w.number()), rounds)[0]; });
  }
  add_word("a byte of a word for four elements, as stochastic_bytes has it", [](const Nvfp4Word& w) {
    const std::uint64_t n = w.number();
    return byte_at(outputs_of(w, n / 16)[n % 16 / 4], n);
  });
}

void WordSlips::calls_for_bytes() {
  add_word("output n % 4 of Philox in place of n / 4",
           [](const Nvfp4Word& w) { return byte_at(outputs_of(w, w.number() / 16)[w.number() % 4], w.number()); });
  add_word("output n % 4 of Philox in place of n / 4, and byte n / 4",
           [](const Nvfp4Word& w) { return byte_at(outputs_of(w, w.number() / 16)[w.number() % 4], w.number() / 4); });
  add_word("the outputs of Philox in the opposite order", [](const Nvfp4Word& w) {
    return byte_at(outputs_of(w, w.number() / 16)[3 - w.number() % 16 / 4], w.number());
  });
  add_word("a call of Philox for each element, of its number, in place of one for 16",
           [](const Nvfp4Word& w) { return byte_at(outputs_of(w, w.number())[w.number() % 16 / 4], w.number()); });
  for (const std::uint64_t count : {4U, 8U}) {
    add_word("a call of Philox for " + std::to_string(count) + " elements in place of one for 16",
             [count](const Nvfp4Word& w) {
               const std::uint64_t n = w.number();
               return byte_at(outputs_of(w, n / count)[n % count / 4], n);
             });
  }
  add_word("the counter of the first of 16 elements in place of its number / 16", [](const Nvfp4Word& w) {
    return byte_at(outputs_of(w, w.number() / 16 * 16)[w.number() % 16 / 4], w.number());
  });
  add_word("the offset is added to the counter in place of the element's number", [](const Nvfp4Word& w) {
    const std::uint64_t place = place_of(w);
    return byte_at(outputs_of(w, place / 16 + w.random.offset)[place % 16 / 4], place);
  });
  add_word("the offset / 16 is added to the counter, and elements begin at a call", [](const Nvfp4Word& w) {
    const std::uint64_t place = place_of(w);
    return byte_at(outputs_of(w, place / 16 + w.random.offset / 16)[place % 16 / 4], place);
  });
  add_word("each row begins a call of Philox", [](const Nvfp4Word& w) {
    const std::uint64_t first = w.number() - static_cast<std::uint64_t>(w.col), col = static_cast<std::uint64_t>(w.col);
    return byte_at(outputs_of(w, first / 16 + col / 16)[col % 16 / 4], col);
  });
  add_word("the counter goes on where the element's number passes 2^64", [](const Nvfp4Word& w) {
    const std::uint64_t call = w.number() / 16 + (w.number() < w.random.offset ? std::uint64_t{1} << 60 : 0);
    return byte_at(outputs_of(w, call)[w.number() % 16 / 4], w.number());
  });
  add_word("a word of its own for each element, as stochastic has it",
           [](const Nvfp4Word& w) { return outputs_of(w, w.number())[0]; });
  add_word("a word of its own for each element, its top byte",
           [](const Nvfp4Word& w) { return outputs_of(w, w.number())[0] & kTopByte; });
  add_word("a word of its own for each element, its lowest byte",
           [](const Nvfp4Word& w) { return outputs_of(w, w.number())[0] << 24; });
  for (const int rounds : {7, 9}) {
    add_word("Philox of " + std::to_string(rounds) + " rounds", [rounds](const Nvfp4Word& w) {
      const std::uint64_t n = w.number();
      return byte_at(philox(w.random.key, counter_of(w, n / 16), rounds)[n % 16 / 4], n);
    });
  }
}

// Published kernels, whose first call is the offset.
void WordSlips::orders_of_kernels() {
  const bool has_both = p_.options().has_both;
  for (const WordOrder& order : word_orders()) {
    if (!has_words(order, {p_.c.rows, p_.c.cols, has_both ? WordOutput::rows_of_both : WordOutput::rows})) continue;
    for (const auto& bytes : kWordBytes) {
      add_word("words of " + std::string(order.name) + ", bytes " + std::string(bytes.name),
               [&order, has_both, bytes = bytes.value](const Nvfp4Word& w) {
                 const WordOutput output = w.is_transposed ? WordOutput::columns_of_both
                                           : has_both      ? WordOutput::rows_of_both
                                                           : WordOutput::rows;
                 return ordered_word(order, word_matrix(output, w.rows, w.cols), {w.random.key, w.random.offset, bytes},
                                     w.is_transposed ? w.col : w.row, w.is_transposed ? w.row : w.col);
               });
    }
  }
}

// The number of an element.
void WordSlips::numbers() {
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
  if (p_.c.gather != 0) {
    add_number("words of the element's place in x, before its row is gathered",
               [=, index = p_.gathered.index](const Nvfp4Word& w) {
                 return number(index[static_cast<std::size_t>(w.row)] * w.cols + w.col);
               });
  }
  if (p_.c.experts.empty()) return;
  add_number("numbers of elements restart at each expert", [experts = p_.c.experts](const Nvfp4Word& w) {
    std::int64_t first = 0;
    for (const std::int64_t begin : experts) first = begin <= w.row ? begin : first;
    return place_of(w) - static_cast<std::uint64_t>(first * w.cols);
  });
}

// The key and the counter.
void WordSlips::counters() {
  const auto add_counter = [this](std::string name, std::function<void(std::uint64_t&, FourWords&)> change) {
    add_word(std::move(name), [change = std::move(change)](const Nvfp4Word& w) {
      const std::uint64_t n = w.number();
      std::uint64_t key = w.random.key;
      FourWords counter = counter_of(w, w.has_bytes ? n / 16 : n);
      change(key, counter);
      const FourWords outputs = philox(key, counter, 10);
      return w.has_bytes ? byte_at(outputs[n % 16 / 4], n) : outputs[0];
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

}  // namespace

std::vector<NamedNvfp4Slip> nvfp4_word_slips(const Nvfp4Problem& problem) { return WordSlips(problem).take(); }

}  // namespace mxcheck
