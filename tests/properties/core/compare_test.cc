#include "properties/core/compare.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

constexpr std::uint8_t kPoison = 0xA5;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TensorInfo codes(std::int64_t rows, std::int64_t cols) { return {"codes", Format::e4m3, rows, cols, 1, 32, false}; }

std::optional<Difference> compare_codes(const TensorInfo& info, const std::vector<std::uint8_t>& want,
                                        const std::vector<std::uint8_t>& got) {
  return compare(info, bytes_of(want), bytes_of(got), kPoison);
}

// A rows x cols matrix of code 0x38 with others at some places.
std::vector<std::uint8_t> ones(std::int64_t rows, std::int64_t cols,
                               const std::vector<std::pair<std::int64_t, std::uint8_t>>& others = {}) {
  std::vector<std::uint8_t> v(static_cast<std::size_t>(rows * cols), 0x38);
  for (const auto& [at, code] : others) v[static_cast<std::size_t>(at)] = code;
  return v;
}

TEST(Compare, equal_bytes_do_not_differ) {
  EXPECT_FALSE(compare_codes(codes(3, 40), ones(3, 40), ones(3, 40)));
  EXPECT_FALSE(compare_codes(codes(0, 40), {}, {}));
}

TEST(Compare, tells_first_last_worst_count_and_histogram) {
  const auto d = compare_codes(codes(3, 40), ones(3, 40),
                               ones(3, 40, {{5, 0x39}, {41, 0x3A}, {85, 0x48}, {86, 0x36}, {119, 0x39}}));
  ASSERT_TRUE(d);
  EXPECT_EQ(d->count, 5);
  EXPECT_EQ(d->total, 120);
  EXPECT_EQ(d->first.row, 0);
  EXPECT_EQ(d->first.col, 5);
  EXPECT_EQ(d->first.ulps, 1);
  EXPECT_EQ(d->first.expected, 0x38U);
  EXPECT_EQ(d->first.observed, 0x39U);
  EXPECT_EQ(d->worst.row, 2);
  EXPECT_EQ(d->worst.col, 5);
  EXPECT_EQ(d->worst.ulps, 16);
  EXPECT_EQ(d->last.row, 2);
  EXPECT_EQ(d->last.col, 39);
  EXPECT_EQ(d->histogram,
            (std::map<std::string, std::int64_t>{{"1 step", 2}, {"2 to 3 steps", 2}, {"16 steps and more", 1}}));
  EXPECT_EQ(d->neighbours, "(0, 4) right, (0, 6) right, (1, 5) right");
}

TEST(Compare, nan_is_never_equal_to_a_number) {
  for (const bool any_nan : {false, true}) {
    TensorInfo info{"y", Format::fp32, 1, 2, 0, 0, any_nan};
    const std::vector<std::uint32_t> number{0x3F800000, 0x3F800000};
    const std::vector<std::uint32_t> nan{0x3F800000, 0x7FC00000};
    for (const auto& [want, got] : {std::pair(number, nan), std::pair(nan, number)}) {
      const auto d = compare(info, bytes_of(want), bytes_of(got), kPoison);
      ASSERT_TRUE(d);
      EXPECT_EQ(d->first.ulps, -1);
      EXPECT_EQ(d->histogram, (std::map<std::string, std::int64_t>{{"NaN against a number", 1}}));
    }
  }
}

TEST(Compare, a_nan_against_a_number_is_worse_than_any_distance) {
  const auto d = compare_codes(codes(1, 3), {0x00, 0x38, 0x38}, {0xFE, 0x7F, 0x00});
  ASSERT_TRUE(d);
  EXPECT_EQ(d->worst.col, 1);
}

TEST(Compare, the_payload_of_a_nan_counts_only_where_bits_do) {
  TensorInfo info{"y", Format::fp32, 1, 3, 0, 0, true};
  const std::vector<std::uint32_t> want{0x7FC00000, 0, 1};
  const std::vector<std::uint32_t> got{0xFF800001, 0, 1};
  EXPECT_FALSE(compare(info, bytes_of(want), bytes_of(got), kPoison));
  info.any_nan_is_equal = false;
  const auto d = compare(info, bytes_of(want), bytes_of(got), kPoison);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->histogram, (std::map<std::string, std::int64_t>{{"NaN with other bits", 1}}));
  // Codes have no payload: 0x7F and 0xFF are different bytes.
  EXPECT_TRUE(compare_codes(codes(1, 1), {0x7F}, {0xFF}));
}

TEST(Compare, the_signs_of_zero_differ) { EXPECT_TRUE(compare_codes(codes(1, 1), {0x00}, {0x80})); }

TEST(Compare, garbage_above_a_narrow_code_differs) {
  const TensorInfo info{"codes", Format::e2m1, 1, 1, 0, 0, false};
  EXPECT_TRUE(compare_codes(info, {0x05}, {0xA5}));
}

TEST(Compare, names_what_the_differences_have_in_common) {
  struct Row {
    std::vector<std::pair<std::int64_t, std::uint8_t>> wrong;
    const char* pattern;
  };
  const std::int64_t rows = 4, cols = 96;
  const Row table[] = {
      {{{96 + 3, 0}, {96 + 90, 0}}, "only row 1"},
      {{{31, 0}, {96 + 31, 0}}, "only column 31"},
      {{{33, 1}, {40, 1}}, "inside one block"},
      {{{31, 1}, {63, 1}, {96 + 95, 1}}, "columns 31 modulo 32"},
      {{{31, 1}, {96 * 2 + 30, 1}}, "rows 0 modulo 2"},
      {{{31, kPoison}, {96 * 2 + 30, kPoison}}, "never written"},
      {{{31, 0x7F}, {96 * 2 + 30, 0xFF}}, "all observed are NaN"},
      {{{31, 0}, {96 * 2 + 30, 0}}, "all observed are zero"},
  };
  for (const Row& row : table) {
    const auto d = compare_codes(codes(rows, cols), ones(rows, cols), ones(rows, cols, row.wrong));
    ASSERT_TRUE(d);
    EXPECT_NE(d->pattern.find(row.pattern), std::string::npos) << d->pattern << ", expected " << row.pattern;
  }
  const auto tail = compare_codes(codes(2, 40), ones(2, 40), ones(2, 40, {{33, 1}, {40 + 36, 1}}));
  EXPECT_NE(tail->pattern.find("only in the cut block at the right edge"), std::string::npos) << tail->pattern;
  const auto all = compare_codes(codes(1, 2), {1, 1}, {2, 2});
  EXPECT_NE(all->pattern.find("every element"), std::string::npos) << all->pattern;
  const auto none = compare_codes(codes(rows, cols), ones(rows, cols),
                                  ones(rows, cols, {{1, 0x39}, {96 + 34, 0x39}, {96 * 3 + 80, 0x39}}));
  EXPECT_EQ(none->pattern, "") << none->pattern;
}

TEST(Compare, sizes_that_do_not_fit_are_a_defect_of_the_caller) {
  test::expect_error(ErrorKind::internal, "has 2 expected and 3 observed bytes", [] {
    (void)compare_codes(codes(1, 2), {1, 1}, {1, 1, 1});
  });
  test::expect_error(ErrorKind::internal, "compare", [] { (void)compare_codes(codes(1, 3), {1, 1}, {1, 1}); });
}

TEST(Compare, integers_are_compared_as_numbers_and_shown_as_such) {
  TensorInfo info{"offsets", Format::fp32, 1, 3, 0, 0, true};
  info.integer_bits = 64;
  const std::int64_t want[] = {0, 5, 9};
  const std::int64_t got[] = {0, -1, std::int64_t{1} << 40};
  EXPECT_FALSE(compare(info, std::as_bytes(std::span(want)), std::as_bytes(std::span(want)), 0xA5));
  const auto d = compare(info, std::as_bytes(std::span(want)), std::as_bytes(std::span(got)), 0xA5);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->count, 2);
  EXPECT_EQ(d->first.col, 1);
  EXPECT_EQ(d->worst.col, 2);
  EXPECT_EQ(d->first.ulps, 6);
  EXPECT_EQ(expected_text(*d), "5");
  EXPECT_EQ(observed_text(*d), "-1");
  EXPECT_TRUE(d->histogram.empty());
  EXPECT_EQ(bytes_of_element(info), 8U);
}

// -1 has the bits of a NaN: any NaN is as good as another, and -1 is not as good as -2.
TEST(Compare, integers_are_no_nan) {
  TensorInfo info{"row_token", Format::fp32, 1, 2, 0, 0, true};
  info.integer_bits = 32;
  const std::int32_t want[] = {-1, -1};
  const std::int32_t got[] = {-1, -2};
  const auto d = compare(info, std::as_bytes(std::span(want)), std::as_bytes(std::span(got)), 0xA5);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->count, 1);
  EXPECT_EQ(observed_text(*d), "-2");
  EXPECT_EQ(d->pattern, "");
}

TEST(Compare, integers_that_were_never_written_are_told) {
  TensorInfo info{"offsets", Format::fp32, 1, 2, 0, 0, false};
  info.integer_bits = 64;
  const std::int64_t want[] = {0, 5};
  const std::vector<std::byte> got(16, std::byte{0x3C});
  const auto d = compare(info, std::as_bytes(std::span(want)), got, 0x3C);
  ASSERT_TRUE(d);
  EXPECT_NE(d->pattern.find("never written"), std::string::npos) << d->pattern;
}

}  // namespace
}  // namespace mxcheck
