#include <stdexcept>

#include "numerics/byte_stream.h"
#include "numerics/bytes.h"
#include "numerics/names.h"
#include "numerics/sweep.h"
#include "numerics/tensor.h"
#include "numerics/text.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(Tensor, has_the_bits_of_its_elements) {
  const std::vector<float> values{1, -2, 0x1p-149F, 3, 4, 5};
  const Tensor t = tensor_of(Format::fp32, {2, 3}, values);
  EXPECT_EQ(t.rows(), 2);
  EXPECT_EQ(t.cols(), 3);
  EXPECT_EQ(t.size(), 6U);
  EXPECT_EQ(t.as<float>()[2], 0x1p-149F);
  EXPECT_EQ(t.code(2), 1U);
  EXPECT_EQ(t.code(1), std::bit_cast<std::uint32_t>(-2.0F));
  EXPECT_EQ(t, tensor_of(Format::fp32, {2, 3}, values));
  EXPECT_NE(t, tensor_of(Format::fp32, {3, 2}, values));
}

TEST(Tensor, keeps_each_code_in_the_bytes_of_its_format) {
  for (const Format format : kAllFormats) {
    Tensor t = make_tensor(format, {7});
    EXPECT_EQ(t.data.size(), 7 * size_of(format)) << spec(format).name;
    EXPECT_EQ(size_of(bits_of(format)), size_of(format));
    EXPECT_GE(8 * size_of(format), static_cast<std::size_t>(spec(format).bits));
    for (std::uint32_t i = 0; i < 7; ++i) t.set_code(i, spec(format).max_code - i % 3);
    for (std::uint32_t i = 0; i < 7; ++i) EXPECT_EQ(t.code(i), spec(format).max_code - i % 3) << spec(format).name;
  }
}

TEST(Tensor, empty_and_scalar_shapes_hold_none_and_one) {
  EXPECT_TRUE(make_tensor(Format::bf16, {0, 5}).empty());
  EXPECT_EQ(make_tensor(Format::bf16, {}).size(), 1U);
}

TEST(Tensor, transposed_twice_is_the_same) {
  for (const Format format : {Format::e4m3, Format::e5m6, Format::fp32, Format::int64}) {
    Tensor t = make_tensor(format, {3, 5});
    for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<std::byte>(i);
    const Tensor across = transposed(t);
    EXPECT_EQ(across.shape, (std::vector<std::int64_t>{5, 3}));
    EXPECT_EQ(transposed(across), t);
    if (size_of(format) > 4) continue;
    EXPECT_EQ(across.code(1 * 3 + 2), t.code(2 * 5 + 1));
  }
}

TEST(Tensor, refuses_what_no_memory_holds) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(text_thrown(ErrorKind::usage,
                        [] {
                          make_tensor(Format::e4m3, {3, -1}, "codes");
                        }),
            "codes: an extent of -1: extents must be 0 or more, and have a product of at most 2^63 - 1");
  EXPECT_EQ(text_thrown(ErrorKind::usage,
                        [] {
                          make_tensor(Format::e4m3, {kMost, 3});
                        }),
            "tensor: an extent of 3: extents must be 0 or more, and have a product of at most 2^63 - 1");
  EXPECT_EQ(text_thrown(ErrorKind::environment, [] { make_tensor(Format::fp32, {kMost}, "codes"); }),
            "codes: no memory for 9223372036854775807 values of 4 bytes");
  const Tensor t = make_tensor(Format::e4m3, {4});
  EXPECT_EQ(text_thrown(ErrorKind::internal, [&] { (void)t.as<float>(); }), "elements of e4m3 have 1 bytes, not 4");
}

std::string refusal(const std::function<void()>& action) { return text_thrown(ErrorKind::input, action); }

TEST(ByteStream, gives_numbers_texts_and_lists_again) {
  ByteWriter to;
  to.number(std::int64_t{-2});
  to.text("a\n");
  to.list(std::vector<std::uint16_t>{1, 0xFFFF});
  to.number(std::uint8_t{7});
  to.list(std::vector<double>{});
  to.text("");
  ByteReader from(to.bytes(), "x");
  EXPECT_EQ(from.number<std::int64_t>(), -2);
  EXPECT_EQ(from.text(), "a\n");
  EXPECT_EQ(from.list<std::uint16_t>(), (std::vector<std::uint16_t>{1, 0xFFFF}));
  EXPECT_EQ(from.number<std::uint8_t>(), 7);
  EXPECT_TRUE(from.list<double>().empty());
  EXPECT_EQ(from.text(), "");
  EXPECT_NO_THROW(from.finish());
}

TEST(ByteStream, is_little_endian_with_lengths_of_eight_bytes) {
  ByteWriter to;
  to.text("ab");
  to.number(std::uint16_t{0x1234});
  const std::vector<std::byte> wanted{std::byte{2},   std::byte{0},   std::byte{0},    std::byte{0},
                                      std::byte{0},   std::byte{0},   std::byte{0},    std::byte{0},
                                      std::byte{'a'}, std::byte{'b'}, std::byte{0x34}, std::byte{0x12}};
  EXPECT_EQ(to.bytes(), wanted);
}

TEST(ByteStream, refuses_what_ends_early_goes_on_or_calls_for_more_than_there_is) {
  ByteWriter to;
  to.text("abc");
  to.number(std::numeric_limits<std::uint64_t>::max());
  for (std::size_t cut = 0; cut < 11; ++cut)
    refusal([&] { ByteReader(std::span(to.bytes()).first(cut), "x.y: 3").text(); });
  EXPECT_EQ(refusal([&] { ByteReader(std::span(to.bytes()).first(4), "x.y: 3").text(); }), "x.y: 3: ends early");
  ByteReader from(to.bytes(), "x");
  EXPECT_EQ(from.text(), "abc");
  EXPECT_EQ(refusal([&] { from.finish(); }), "x: 8 bytes too many");
  EXPECT_EQ(refusal([&] { from.list<std::uint64_t>(); }), "x: a length is more than what follows");
}

TEST(Bytes, are_those_of_memory_and_come_back) {
  const std::vector<std::uint16_t> values{0x0102, 0x0304};
  const std::vector<std::byte> bytes = to_bytes(values);
  EXPECT_EQ(bytes, (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{4}, std::byte{3}}));
  EXPECT_EQ(values_in<std::uint16_t>(bytes), values);
  EXPECT_EQ(values_in<std::uint32_t>(bytes), std::vector<std::uint32_t>{0x03040102});
}

TEST(Bytes, that_are_no_whole_value_are_left_out_whatever_their_alignment) {
  const std::vector<std::byte> bytes = to_bytes(std::vector<std::uint32_t>{0x04030201, 0x08070605});
  EXPECT_EQ(values_in<std::uint32_t>(std::span(bytes).subspan(1)), std::vector<std::uint32_t>{0x05040302});
  EXPECT_TRUE(values_in<std::uint64_t>(std::span(bytes).first(7)).empty());
  EXPECT_TRUE(to_bytes(std::vector<double>{}).empty());
}

TEST(Text, joins_with_separators_between) {
  EXPECT_EQ(join(std::vector<std::string>{}), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(join(std::vector<std::string>{"a", "", "b"}), "a, , b");
  EXPECT_EQ(join(std::vector<int>{1, 2}, "x", [](int n) { return std::to_string(n); }), "1x2");
}

TEST(Text, splits_at_separators) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("", ','), Parts{});
  EXPECT_EQ(split("a,b,,c", ','), (Parts{"a", "b", "", "c"}));
  EXPECT_EQ(split("a,", ','), (Parts{"a"}));
  EXPECT_EQ(split(",a", ','), (Parts{"", "a"}));
}

TEST(Text, takes_a_number_that_is_the_whole_text) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<std::uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<std::uint32_t>("ff", 16), 255U);
  EXPECT_EQ(parse_number<double>("2.5e-1"), 0.25);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.0", "a"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint8_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1.0f"), std::nullopt);
}

TEST(OneLine, spells_control_characters_out) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("a b~\xC3\xA4"), "a b~\xC3\xA4");
  EXPECT_EQ(one_line(std::string_view("a\nb\0\x1F\x7F", 6)), "a\\x0Ab\\x00\\x1F\\x7F");
}

enum class Fruit { apple, pear, plum };

constexpr std::array<Named<Fruit>, 2> kFruit{{{"apple", Fruit::apple}, {"pear", Fruit::pear}}};

TEST(Names, are_found_in_either_direction) {
  EXPECT_EQ(name_in(kFruit, Fruit::pear), "pear");
  EXPECT_EQ(name_in(kFruit, Fruit::plum), "");
  EXPECT_EQ(value_in(kFruit, "apple"), Fruit::apple);
  EXPECT_EQ(value_in(kFruit, "Apple"), std::nullopt);
  EXPECT_EQ(names_in(kFruit), (std::vector<std::string>{"apple", "pear"}));
}

TEST(Names, an_entry_is_itself_and_an_unknown_one_is_refused_with_the_list) {
  EXPECT_EQ(&entry_named(kFruit, "fruit", "pear"), &kFruit[1]);
  expect_thrown(ErrorKind::usage, "unknown fruit 'kiwi'; known are apple, pear",
                [] { (void)entry_named(kFruit, "fruit", "kiwi"); });
  expect_thrown(ErrorKind::usage, "unknown fruit 'paer'; known are apple, pear; did you mean 'pear'?",
                [] { (void)entry_named(kFruit, "fruit", "paer"); });
}

TEST(Names, a_slip_of_the_keyboard_is_told_from_another_word) {
  const std::vector<std::string> known{"gate", "golden", "merge", "e4m3", "e5m2"};
  const auto meant = [&](std::string_view given, std::string_view name) {
    EXPECT_EQ(did_you_mean(given, known), name.empty() ? "" : "; did you mean '" + std::string(name) + "'?") << given;
  };
  for (const char* slip : {"gaet", "gat", "gatee", "gite", "agte", "GATE"}) meant(slip, "gate");
  for (const char* slip : {"goldne", "glden", "goooden", "gloden", "g olden"}) meant(slip, "golden");
  meant("E4M3", "e4m3");
  meant("e4m2", "e4m3");  // as near as e5m2, and before it
  for (const char* other : {"", "y", "gt", "tage", "e9m9", "walk", "goldenssss"}) meant(other, "");
  meant(std::string(101, 'x'), "");
  EXPECT_EQ(did_you_mean("gate", {}), "");
}

TEST(Sweep, visits_every_pattern_once) {
  constexpr std::uint64_t kEnd = (std::uint64_t{3} << 20) + 7;  // three pieces and a rest
  for (const unsigned threads : {1U, 2U, 5U}) {
    std::vector<std::atomic<std::uint8_t>> visits(kEnd);
    const SweepResult result = sweep(5, kEnd, threads, [&](std::uint32_t pattern) { return visits[pattern]++ == 0; });
    EXPECT_EQ(result.checked, kEnd - 5);
    EXPECT_EQ(result.mismatches, 0U);
    EXPECT_EQ(visits[4], 0);
    EXPECT_TRUE(std::all_of(visits.begin() + 5, visits.end(), [](const auto& v) { return v == 1; }));
  }
}

TEST(Sweep, reports_the_count_and_the_lowest_and_highest_mismatch_whatever_the_threads) {
  for (const unsigned threads : {1U, 2U, 7U}) {
    const SweepResult result = sweep(0, std::uint64_t{4} << 20, threads, [](std::uint32_t pattern) {
      return pattern != 0x00100001 && pattern != 0x003FFFFF && pattern != 0x00180000;
    });
    EXPECT_EQ(result.mismatches, 3U);
    EXPECT_EQ(result.first, 0x00100001U);
    EXPECT_EQ(result.last, 0x003FFFFFU);
  }
}

TEST(Sweep, reaches_the_last_pattern_of_all) {
  const SweepResult result = sweep(kAllPatterns - 3, kAllPatterns, 2, [](std::uint32_t p) { return p != 0xFFFFFFFF; });
  EXPECT_EQ(result.checked, 3U);
  EXPECT_EQ(result.first, 0xFFFFFFFFU);
}

TEST(Sweep, of_nothing_checks_nothing) {
  EXPECT_EQ(sweep(7, 7, 2, [](std::uint32_t) { return false; }).checked, 0U);
}

TEST(Sweep, throws_what_a_check_throws) {
  const auto check = [](std::uint32_t pattern) -> bool {
    if (pattern == 0x00200003) throw std::runtime_error("from the check");
    return true;
  };
  EXPECT_THROW(sweep(0, std::uint64_t{4} << 20, 3, check), std::runtime_error);
}

}  // namespace
}  // namespace mxcheck
