// Word orders against the loops of the kernels that they are read from, run thread by thread: a generator for each
// thread, which gives the next of its words to the next four elements.

#include "reference/quantize/word_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

using Counter = std::array<std::uint32_t, 4>;

// A thread's generator: a sequence in the upper half of the counter, a call in the lower, and a step with carries.
class Generator {
 public:
  Generator(std::uint64_t key, std::uint64_t sequence, std::uint64_t first)
      : key_(key),
        counter_{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first >> 32),
                 static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32)} {
    refill();
  }
  std::uint32_t next() {
    if (used_ == 4) refill();
    return words_[used_++];
  }

 private:
  void refill() {
    words_ = philox_words(key_, counter_[0], counter_[1], counter_[2], counter_[3]);
    used_ = 0;
    for (std::uint32_t& word : counter_) {
      if (++word != 0) return;
    }
  }
  std::uint64_t key_;
  Counter counter_;
  Counter words_{};
  std::size_t used_ = 4;
};

// The words that four elements share, of both outputs: by X's row and the first of four columns, or by X's column and
// the first of four rows.
struct Handed {
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> rows, columns;
};

// A group of threads at a tile of 128 x 128: a body runs for each thread with its generator.
void for_each_thread(
    const WordMatrix& x, const WordSeed& seed, std::int64_t threads,
    const std::function<void(std::int64_t row, std::int64_t col, std::int64_t thread, Generator&)>& body) {
  const std::int64_t grid_x = (x.cols + 127) / 128, grid_y = (x.rows + 127) / 128;
  for (std::int64_t block_y = 0; block_y < grid_y; ++block_y) {
    for (std::int64_t block_x = 0; block_x < grid_x; ++block_x) {
      for (std::int64_t thread = 0; thread < threads; ++thread) {
        const std::int64_t sequence = thread + block_x * threads + block_y * grid_x * threads;
        Generator generator(seed.key, static_cast<std::uint64_t>(sequence), seed.first);
        body(block_y * 128, block_x * 128, thread, generator);
      }
    }
  }
}

Handed hand_out_blockwise(const WordMatrix& x, const WordSeed& seed) {
  Handed handed;
  for_each_thread(x, seed, 256, [&](std::int64_t row, std::int64_t col, std::int64_t t, Generator& generator) {
    if (x.has_rows()) {
      std::int64_t r = t / 8;
      for (int iter = 0; iter < 4; ++iter, r += 32)
        for (int i = 0; i < 16; i += 4) handed.rows[{row + r, col + t % 8 * 16 + i}] = generator.next();
    }
    if (!x.has_columns()) return;
    std::int64_t pair = t / 8;  // of columns
    for (int iter = 0; iter < 2; ++iter, pair += 32)
      for (int of_pair = 0; of_pair < 2; ++of_pair)
        for (int i = 0; i < 16; i += 4)
          handed.columns[{col + 2 * pair + of_pair, row + t % 8 * 16 + i}] = generator.next();
  });
  return handed;
}

Handed hand_out_transpose(const WordMatrix& x, const WordSeed& seed) {
  Handed handed;
  for_each_thread(x, seed, 128, [&](std::int64_t row, std::int64_t col, std::int64_t t, Generator& generator) {
    const std::int64_t bank_group = t % 32 / 16;
    for (std::int64_t stage = 0; stage < 4; ++stage) {
      for (int it = 0; x.has_columns() && it < 2; ++it)
        for (int e = 0; e < 4; ++e) handed.columns[{col + t, row + stage * 32 + it * 16 + 4 * e}] = generator.next();
      for (int it = 0; x.has_rows() && it < 2; ++it)
        for (int wave = 0; wave < 2; ++wave)
          for (int e = 0; e < 2; ++e) {
            const std::int64_t group = (wave + bank_group) * 8 % 16;
            handed.rows[{row + stage * 32 + t / 8 + it * 16, col + t % 8 * 16 + group + 4 * e}] = generator.next();
          }
    }
  });
  return handed;
}

// `turn` is what the lane adds to the warp's number when its block of rows is chosen.
Handed hand_out_tuned(const WordMatrix& x, const WordSeed& seed,
                      const std::function<std::int64_t(std::int64_t)>& turn) {
  Handed handed;
  for_each_thread(x, seed, 128, [&](std::int64_t row, std::int64_t col, std::int64_t t, Generator& generator) {
    const std::int64_t lane = t % 32, warp = t / 32, bank_group = lane / 16;
    for (std::int64_t stage = 0; stage < 4; ++stage) {
      const std::int64_t y = row + stage / 2 * 64, z = col + stage % 2 * 64;
      for (int it = 0; it < 2; ++it)
        for (int wave = 0; wave < 2; ++wave)
          for (int four = 0; four < 2; ++four)
            handed.rows[{y + t / 4 + it * 32, z + t % 4 * 16 + (wave + bank_group) * 8 % 16 + 4 * four}] =
                generator.next();
      if (!x.has_columns()) continue;
      const std::int64_t block = (turn(lane) + warp) % 4;
      for (int of_pair = 0; of_pair < 2; ++of_pair)
        for (int e = 0; e < 4; ++e) handed.columns[{z + 2 * lane + of_pair, y + block * 16 + 4 * e}] = generator.next();
    }
  });
  return handed;
}

Handed hand_out(const WordOrder& order, const WordMatrix& x, const WordSeed& seed) {
  if (order.name == "te_blockwise") return hand_out_blockwise(x, seed);
  if (order.name == "te_transpose") return hand_out_transpose(x, seed);
  if (order.name == "te_tuned") return hand_out_tuned(x, seed, [](std::int64_t lane) { return lane / 2; });
  return hand_out_tuned(x, seed, [](std::int64_t lane) { return lane % 4; });
}

constexpr std::array<std::array<int, 4>, 2> kBytes{{{0, 2, 1, 3}, {0, 1, 2, 3}}};

void expect_words_of_the_loops(const WordOrder& order, const WordMatrix& x, const WordSeed& seed) {
  const Handed handed = hand_out(order, x, seed);
  const auto& own = x.is_of_columns() ? handed.columns : handed.rows;
  const std::int64_t lines = x.is_of_columns() ? x.cols : x.rows, width = x.is_of_columns() ? x.rows : x.cols;
  const std::vector<std::uint32_t> words = ordered_words(order, x, seed, 2);
  ASSERT_EQ(words.size(), static_cast<std::size_t>(lines * width));
  const auto& bytes = kBytes[seed.bytes == WordBytes::natural ? 1 : 0];
  for (std::int64_t i = 0; i < lines; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const std::uint32_t word = own.at({i, j / 4 * 4});
      const std::uint32_t byte = word >> 8 * bytes[static_cast<std::size_t>(j % 4)] & 0xFF;
      ASSERT_EQ(words[static_cast<std::size_t>(i * width + j)], byte << 24)
          << order.name << " " << name_in(kWordOutputs, x.output) << ", " << x.rows << " x " << x.cols << ": line " << i
          << ", element " << j;
    }
  }
}

TEST(WordOrder, every_order_is_that_of_its_kernel_s_loops) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{32, 32},   {32, 64},   {96, 160},  {128, 128}, {128, 256},
                                                          {256, 128}, {160, 416}, {288, 288}, {16, 48},   {1, 16},
                                                          {130, 7},   {257, 129}, {0, 32},    {5, 0}};
  int held = 0;
  for (const WordOrder& order : word_orders()) {
    for (const auto& [rows, cols] : shapes) {
      for (const auto& output : kWordOutputs) {
        const WordMatrix x{rows, cols, output.value};
        if (!has_words(order, x)) continue;
        for (const auto& bytes : kWordBytes) {
          expect_words_of_the_loops(order, x, {0x123456789ABCDEF0, 1000, bytes.value});
          ++held;
        }
      }
    }
  }
  EXPECT_EQ(held, 2 * (14 * 4 + 9 * 4 + 2 * 9 * 3));
}

TEST(WordOrder, a_call_carries_from_the_lowest_word_to_the_thread_s) {
  for (const std::uint64_t first :
       {std::uint64_t{0xFFFFFFFE}, ~std::uint64_t{0}, ~std::uint64_t{3}, std::uint64_t{1} << 63}) {
    for (const WordOrder& order : word_orders())
      expect_words_of_the_loops(order, {160, 160, WordOutput::columns_of_both}, {~std::uint64_t{0}, first});
  }
}

// No two groups of four elements of a call share a word, over both outputs.
TEST(WordOrder, no_word_is_handed_out_twice) {
  for (const WordOrder& order : word_orders()) {
    std::map<std::array<std::uint64_t, 3>, int> seen;
    for (const WordOutput output : {WordOutput::rows_of_both, WordOutput::columns_of_both}) {
      const WordMatrix x{288, 160, output};
      for (std::int64_t i = 0; i < x.rows; ++i) {
        for (std::int64_t j = 0; j < x.cols; ++j) {
          const WordPlace place = order.place(x, i, j);
          ++seen[{place.thread, place.call, static_cast<std::uint64_t>(place.output)}];
        }
      }
    }
    EXPECT_EQ(seen.size(), 288U * 160 * 2 / 4) << order.name;
    EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second == 4; })) << order.name;
  }
}

// The table of docs/nvfp4.md, written out for one element.
TEST(WordOrder, the_word_of_one_element_is_the_output_that_the_page_s_table_says) {
  const std::int64_t row = 200, col = 300;  // tile (1, 2) of 3 x 4
  const std::array<std::uint32_t, 4> of_rows =
      philox_words(7, 11 + 72 / 32, 0, 8 * (72 % 32) + 44 / 16 + 256 * (2 + 4), 0);
  EXPECT_EQ(ordered_word(word_order_named("te_blockwise"), {384, 512, WordOutput::rows}, {7, 11}, row, col),
            of_rows[44 % 16 / 4] << 24);
  const std::array<std::uint32_t, 4> of_columns =
      philox_words(7, 11 + 4 + 0, 0, 8 * (44 / 2) + 72 / 16 + 256 * (2 + 4), 0);
  EXPECT_EQ(ordered_word(word_order_named("te_blockwise"), {384, 512, WordOutput::columns_of_both}, {7, 11}, row, col),
            of_columns[72 % 16 / 4] << 24);
}

TEST(WordOrder, text_names_an_order_and_an_output) {
  for (const WordOrder& order : word_orders()) {
    for (const auto& output : kWordOutputs) {
      const std::string text = std::string(order.name) + ":" + std::string(output.name);
      EXPECT_EQ(to_text(parse_words(text)), text);
    }
    EXPECT_EQ(to_text(parse_words(order.name)), std::string(order.name) + ":rows");
  }
}

TEST(WordOrder, refuses_what_a_kernel_does_not_have) {
  const auto refused = [](const std::string& text, std::int64_t rows, std::int64_t cols, const std::string& reason) {
    const NamedWords words = parse_words(text);
    const WordMatrix x{rows, cols, words.output};
    EXPECT_FALSE(has_words(*words.order, x));
    const std::string thrown =
        text_thrown(ErrorKind::usage, [&] { static_cast<void>(ordered_words(*words.order, x, {})); });
    EXPECT_NE(thrown.find(reason), std::string::npos) << thrown;
  };
  refused("te_tuned", 33, 64, "multiples of 32 rows and columns, and the matrix has 33 x 64");
  refused("te_tuned_2_13:rows_of_both", 64, 16, "64 x 16");
  refused("te_transpose:columns", 48, 64, "48 x 64");
  refused("te_tuned:columns", 64, 64, "no columns without rows");
  refused("te_blockwise", -1, 64, "-1 x 64");
  expect_thrown(ErrorKind::usage,
                "unknown word order 'te_tune'; known are te_blockwise, te_transpose, te_tuned, te_tuned_2_13; did you "
                "mean 'te_tuned'?",
                [] { static_cast<void>(parse_words("te_tune:rows")); });
  expect_thrown(ErrorKind::usage, "unknown output of words ''; known are rows, rows_of_both, columns_of_both, columns",
                [] { static_cast<void>(parse_words("te_tuned:")); });
}

}  // namespace
}  // namespace mxcheck
