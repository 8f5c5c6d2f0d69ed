#include <stdexcept>

#include "reference/common/checked_size.h"
#include "reference/common/matrix.h"
#include "reference/common/parallel.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(Matrix, reads_every_bf16_as_the_upper_half_of_a_float) {
  std::vector<std::uint16_t> bits(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  const MatrixView m{Format::bf16, std::as_bytes(std::span(bits)).data(), 256, 256, 256};
  std::vector<float> row(256);
  for (std::int64_t i = 0; i < 256; ++i) {
    m.read_row(i, row);
    for (std::int64_t j = 0; j < 256; ++j) {
      const auto expected = static_cast<std::uint32_t>(i * 256 + j) << 16;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(m.at(i, j)), expected);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(row[static_cast<std::size_t>(j)]), expected);
    }
  }
}

TEST(Matrix, reads_every_fp16_exactly) {
  std::vector<std::uint16_t> bits(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  const MatrixView m{Format::fp16, std::as_bytes(std::span(bits)).data(), 1, 65536, 65536};
  std::vector<float> row(65536);
  m.read_row(0, row);
  for (int i = 0; i < 65536; ++i) {
    const int exponent = i >> 10 & 31;
    const int mantissa = i & 1023;
    float expected = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                   : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    if (exponent == 31) expected = mantissa == 0 ? kInf : std::nanf("");
    if (i >> 15 != 0) expected = -expected;
    for (const float value : {m.at(0, i), row[static_cast<std::size_t>(i)]}) {
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << i;
      }
    }
  }
}

TEST(Matrix, steps_from_row_to_row_by_the_stride_at_any_alignment) {
  for (const Format dtype : {Format::fp32, Format::bf16, Format::fp16}) {
    const TestMatrix m(dtype, 3, 2, {1, 2, 3, 4, 5, 6}, 7);
    std::vector<float> row(2);
    m.view().read_row(2, row);
    EXPECT_EQ(row, (std::vector<float>{5, 6}));
    EXPECT_EQ(m.view().at(1, 0), 3);
    EXPECT_EQ(m.view().at(1, 1), 4);
  }
}

TEST(BlockShape, has_the_fields_ten_by_name_and_back) {
  const std::vector<std::pair<std::string, BlockShape>> expected{
      {"1x32", {1, 32}},       {"32x1", {32, 1}}, {"32x32", {32, 32}}, {"1x128", {1, 128}}, {"128x1", {128, 1}},
      {"128x128", {128, 128}}, {"row", {1, 0}},   {"1x16", {1, 16}},   {"16x1", {16, 1}},   {"16x16", {16, 16}}};
  ASSERT_EQ(kBlockShapes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(kBlockShapes[i].name, expected[i].first);
    EXPECT_EQ(block_shape_named(expected[i].first), expected[i].second);
    EXPECT_EQ(to_text(expected[i].second), expected[i].first);
  }
}

TEST(BlockShape, outside_the_ten_has_a_name_for_messages_only) {
  EXPECT_EQ(to_text({3, 5}), "3x5");
  EXPECT_EQ(to_text({0, 1}), "0x1");
  const std::map<std::string, std::string> meant{{"", ""},  {"3x5", ""}, {"1X32", "1x32"}, {"1x32 ", "1x32"},
                                                 {"x", ""}, {"1x0", ""}, {"rows", "row"}};
  for (const auto& [name, perhaps] : meant)
    expect_thrown(ErrorKind::usage,
                  "unknown block shape '" + name +
                      "'; known are 1x32, 32x1, 32x32, 1x128, 128x1, 128x128, row, 1x16, 16x1, "
                      "16x16" +
                      (perhaps.empty() ? "" : "; did you mean '" + perhaps + "'?"),
                  [&name = name] { block_shape_named(name); });
}

TEST(Offsets, may_be_none_or_start_at_0_never_fall_and_end_at_the_rows) {
  const std::vector<std::vector<std::int64_t>> right{{}, {0, 10}, {0, 0, 0, 10, 10}, {0, 3, 7, 10}};
  for (const auto& offsets : right) EXPECT_NO_THROW(check_offsets(offsets, 10));
  EXPECT_NO_THROW(check_offsets(std::vector<std::int64_t>{0}, 0));
  EXPECT_NO_THROW(check_offsets(std::vector<std::int64_t>{0, 0, 0}, 0));
}

TEST(Offsets, that_are_wrong_are_refused_with_the_place_and_the_remedy) {
  const std::vector<std::pair<std::vector<std::int64_t>, std::string>> wrong{
      {{1, 10}, "offset 0 is 1: must be 0"},
      {{-1, 10}, "offset 0 is -1: must be 0"},
      {{0, 5, 4, 10}, "offset 2 is 4: must be at least the one before, 5"},
      {{0, -1, 10}, "offset 1 is -1: must be at least the one before, 0"},
      {{0, 5, 9}, "last offset (offset 2) is 9: must be the number of rows, 10"},
      {{0, 11}, "last offset (offset 1) is 11: must be the number of rows, 10"},
      {{0}, "last offset (offset 0) is 0: must be the number of rows, 10"}};
  for (const auto& [offsets, text] : wrong)
    expect_thrown(ErrorKind::usage, text, [&o = offsets] { check_offsets(o, 10); });
}

TEST(Matrix, that_is_empty_needs_no_data) {
  EXPECT_NO_THROW(check_matrix({}));
  EXPECT_NO_THROW(check_matrix({Format::bf16, nullptr, 0, 7, 7}));
  EXPECT_NO_THROW(check_matrix({Format::fp16, nullptr, std::int64_t{1} << 62, 0, 0}));
}

TEST(Matrix, that_makes_no_sense_is_refused_with_what_would_be_right) {
  const std::byte byte{};
  const std::int64_t huge = std::int64_t{1} << 31;
  const std::vector<std::pair<MatrixView, std::string>> wrong{
      {{Format::e4m3, &byte, 1, 1, 1}, "matrix of type e4m3: must be fp32, bf16 or fp16"},
      {{Format::fp32, &byte, -1, 1, 1}, "matrix of -1 x 1: sizes must be 0 or more"},
      {{Format::fp32, &byte, 1, -1, 1}, "matrix of 1 x -1: sizes must be 0 or more"},
      {{Format::fp32, &byte, 2, 4, 3}, "matrix row stride 3: must be at least the 4 columns of a row"},
      {{Format::fp32, nullptr, 2, 4, 4}, "matrix of 2 x 4 without data: must point to it"},
      {{Format::fp32, &byte, huge * 2, huge, huge},
       "matrix elements: 4294967296 x 2147483648 is beyond 2^63 - 1; use smaller dimensions"},
      {{Format::fp32, &byte, huge, huge, huge},
       "matrix bytes: 4611686018427387904 x 4 is beyond 2^63 - 1; use smaller dimensions"},
      {{Format::bf16, &byte, 3, 1, huge * huge},
       "matrix rows by row stride: 2 x 4611686018427387904 is beyond 2^63 - 1; use smaller dimensions"}};
  for (const auto& [matrix, text] : wrong) expect_thrown(ErrorKind::usage, text, [&m = matrix] { check_matrix(m); });
}

constexpr std::int64_t kMuchWork = std::int64_t{1} << 40;

TEST(Parallel, does_every_index_once_whatever_the_threads) {
  for (const int threads : {0, 1, 2, 3, 7, 64}) {
    for (const std::int64_t count : {0, 1, 2, 5, 63, 64, 65, 1000}) {
      std::vector<int> done(static_cast<std::size_t>(count), 0);
      parallel_ranges(count, kMuchWork, threads, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LT(begin, end);
        for (std::int64_t i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(done, std::vector<int>(static_cast<std::size_t>(count), 1)) << threads << " threads";
    }
  }
}

TEST(Parallel, runs_on_the_callers_thread_alone_when_the_work_is_small) {
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  parallel_ranges(1000, 1000, 8, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 1000);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(Parallel, uses_as_many_threads_as_asked) {
  std::vector<std::thread::id> ids(5);
  parallel_ranges(5, kMuchWork, 5, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(end, begin + 1);
    ids[static_cast<std::size_t>(begin)] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_NE(ids[i], ids[0]);
}

TEST(Parallel, rethrows_the_exception_of_the_lowest_index) {
  for (const int threads : {1, 2, 3, 8}) {
    std::string text;
    try {
      parallel_ranges(100, kMuchWork, threads, [](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if (i % 30 == 17) throw std::runtime_error(std::to_string(i));
        }
      });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    EXPECT_EQ(text, "17") << threads << " threads";
  }
}

TEST(Parallel, knows_the_machines_threads) {
  EXPECT_GE(thread_count(0), 1);
  EXPECT_EQ(thread_count(3), 3);
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(CheckedSize, computes_what_fits) {
  EXPECT_EQ(checked_product(kMost, 1, "x"), kMost);
  EXPECT_EQ(checked_product(kMost, 0, "x"), 0);
  EXPECT_EQ(checked_product(3037000499, 3037000499, "x"), 9223372030926249001);
  EXPECT_EQ(checked_sum(kMost - 1, 1, "x"), kMost);
  EXPECT_EQ(checked_round_up(129, 128, "x"), 256);
  EXPECT_EQ(checked_round_up(128, 128, "x"), 128);
  EXPECT_EQ(checked_round_up(0, 128, "x"), 0);
}

TEST(CheckedSize, refuses_what_does_not_and_names_it) {
  expect_thrown(ErrorKind::usage, "tiles: 3037000500 x 3037000500 is beyond 2^63 - 1; use smaller dimensions",
                [] { (void)checked_product(3037000500, 3037000500, "tiles"); });
  expect_thrown(ErrorKind::usage, "rows: 9223372036854775807 + 1 is beyond 2^63 - 1; use smaller dimensions",
                [] { (void)checked_sum(kMost, 1, "rows"); });
  EXPECT_EQ(thrown_by([] { (void)checked_round_up(kMost, 128, "rows"); }).text,
            "rows: 72057594037927936 x 128 is beyond 2^63 - 1; use smaller dimensions");
}

TEST(CeilDiv, rounds_up_and_cannot_overflow) {
  EXPECT_EQ(ceil_div(0, 5), 0);
  EXPECT_EQ(ceil_div(5, 5), 1);
  EXPECT_EQ(ceil_div(6, 5), 2);
  EXPECT_EQ(ceil_div(kMost, 2), kMost / 2 + 1);
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
}

TEST(ResizeOrThrow, fills_or_says_how_much_was_asked_for) {
  std::vector<int> v{7};
  resize_or_throw(v, 3, "x", 5);
  EXPECT_EQ(v, (std::vector<int>{5, 5, 5}));
  resize_or_throw(v, 2, "x");
  EXPECT_EQ(v, (std::vector<int>{0, 0}));
  expect_thrown(ErrorKind::environment, "codes: no memory for 4611686018427387904 values of 4 bytes",
                [&] { resize_or_throw(v, std::int64_t{1} << 62, "codes"); });
}

}  // namespace
}  // namespace mxcheck
