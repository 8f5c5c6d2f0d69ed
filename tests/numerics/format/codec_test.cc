#include "numerics/format/codec.h"
#include "numerics/format/format.h"
#include "numerics/format/packing.h"
#include "numerics/text.h"
#include "tests/numerics/oracle.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr Format kNarrowFormats[] = {Format::e4m3, Format::e5m2, Format::e8m0,   Format::e2m1,
                                     Format::e2m3, Format::e3m2, Format::mxint8, Format::e5m6};
constexpr Format kWideFormats[] = {Format::bf16, Format::fp16};

struct Mode {
  Rounding rounding;
  Overflow overflow;
  std::uint32_t word = 0;
};

std::vector<Mode> all_modes() {
  std::vector<Mode> modes;
  for (const Overflow overflow : {Overflow::saturate, Overflow::non_saturate}) {
    for (const Rounding rounding :
         {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero, Rounding::upward}) {
      modes.push_back({rounding, overflow});
    }
    for (const std::uint32_t word : {0U, 1U, 0x40000000U, 0x80000000U, 0xDEADBEEFU, 0xFFFFFFFFU})
      modes.push_back({Rounding::stochastic, overflow, word});
  }
  return modes;
}

std::string describe(Format format, double x, const Mode& mode) {
  std::ostringstream text;
  text << spec(format).name << " of " << std::hexfloat << x << ", rounding " << static_cast<int>(mode.rounding)
       << ", overflow " << static_cast<int>(mode.overflow) << ", word 0x" << std::hex << mode.word;
  return text.str();
}

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

double fp16_value(std::uint32_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int field = static_cast<int>(bits >> 10 & 0x1F);
  const double mantissa = bits & 0x3FF;
  if (field == 31) return mantissa == 0 ? sign * kInfinity : kNan;
  return sign * (field == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, field - 25));
}

constexpr auto kEven = Rounding::nearest_even;
constexpr auto kAway = Rounding::nearest_away;
constexpr auto kZero = Rounding::toward_zero;
constexpr auto kUp = Rounding::upward;
constexpr auto kSat = Overflow::saturate;
constexpr auto kNon = Overflow::non_saturate;

TEST(Codec, encodes_the_examples_of_the_specifications) {
  struct Examples {
    Format format;
    Rounding rounding;
    Overflow overflow;
    std::vector<std::pair<double, std::uint32_t>> codes;
  };
  const std::vector<Examples> examples{
      {Format::e4m3,
       kEven,
       kSat,
       {{448, 0x7E},
        {0x1.d00002p8, 0x7E},
        {-0.0, 0x80},
        {0x1p-10, 0x00},
        {0x1.000002p-10, 1},
        {17, 0x58},
        {-kInfinity, 0xFE},
        {-kNan, 0x7F}}},
      {Format::e4m3, kEven, kNon, {{464, 0x7E}, {0x1.d00002p8, 0x7F}}},
      {Format::e4m3, kAway, kSat, {{0x1p-10, 0x01}, {17, 0x59}}},
      {Format::e4m3, kUp, kSat, {{-17, 0xD8}, {17, 0x59}}},
      {Format::e4m3, kZero, kNon, {{1e9, 0x7E}, {kInfinity, 0x7F}}},
      {Format::e4m3, kUp, kNon, {{-1e9, 0xFE}, {448.5, 0x7F}}},
      {Format::e5m2, kEven, kSat, {{61440, 0x7B}, {0x1p-17, 0x00}, {kNan, 0x7F}}},
      {Format::e5m2, kEven, kNon, {{61440, 0x7C}, {0x1.dffffep15, 0x7B}, {-kInfinity, 0xFC}}},
      {Format::e2m1, kEven, kSat, {{0.25, 0}, {0.75, 2}, {1.25, 2}, {1.75, 4}, {2.5, 4}, {3.5, 6}, {5, 6}, {kNan, 7}}},
      {Format::e2m1, kEven, kNon, {{-kInfinity, 0xF}}},
      {Format::e2m3, kEven, kSat, {{kNan, 0x1F}}},
      {Format::mxint8, kEven, kSat, {{-2, 0x81}, {0x1p-7, 0x00}, {-0x1.8p-6, 0xFE}}},
      {Format::e5m6, kEven, kSat, {{65280, 0x7BF}, {0x1.8p-21, 0x001}, {0x1.8p-20, 0x002}, {0x1.6p-19, 0x003}}},
      {Format::e5m6, kEven, kNon, {{65280, 0x7C0}}},
  };
  for (const Examples& e : examples) {
    for (const auto& [value, code] : e.codes)
      EXPECT_EQ(encode(e.format, value, e.rounding, e.overflow), code)
          << describe(e.format, value, {e.rounding, e.overflow});
  }
}

// Columns: toward zero and upward, each saturating and not; inputs as FP32 bits.
TEST(Codec, encodes_e8m0_as_cudas_two_rounding_modes_do) {
  using Row = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  const Row rows[] = {
      {0x00000000, 0x00, 0x00, 0x00, 0x00}, {0x80000000, 0x00, 0x00, 0x00, 0x00}, {0x00000001, 0x00, 0x00, 0x00, 0x00},
      {0x00400000, 0x00, 0x00, 0x00, 0x00}, {0x00400001, 0x00, 0x00, 0x01, 0x01}, {0x007FFFFF, 0x00, 0x00, 0x01, 0x01},
      {0x00800000, 0x01, 0x01, 0x01, 0x01}, {0x00800001, 0x01, 0x01, 0x02, 0x02}, {0x3F800000, 0x7F, 0x7F, 0x7F, 0x7F},
      {0xBF800000, 0x7F, 0x7F, 0x7F, 0x7F}, {0x3F800001, 0x7F, 0x7F, 0x80, 0x80}, {0xBF800001, 0x7F, 0x7F, 0x80, 0x80},
      {0x7F000001, 0xFE, 0xFE, 0xFE, 0xFF}, {0x7F7FFFFF, 0xFE, 0xFE, 0xFE, 0xFF}, {0x7F800000, 0xFE, 0xFF, 0xFE, 0xFF},
      {0xFF800000, 0xFE, 0xFF, 0xFE, 0xFF}, {0x7FC00000, 0xFF, 0xFF, 0xFF, 0xFF}, {0xFFC00000, 0xFF, 0xFF, 0xFF, 0xFF},
  };
  for (const auto& [bits, zero_saturate, zero, up_saturate, up] : rows) {
    const double x = as_float(bits);
    EXPECT_EQ(encode(Format::e8m0, x, kZero, kSat), zero_saturate) << std::hex << bits;
    EXPECT_EQ(encode(Format::e8m0, x, kZero, kNon), zero) << std::hex << bits;
    EXPECT_EQ(encode(Format::e8m0, x, kUp, kSat), up_saturate) << std::hex << bits;
    EXPECT_EQ(encode(Format::e8m0, x, kUp, kNon), up) << std::hex << bits;
  }
  EXPECT_EQ(encode(Format::e8m0, 1e39, kZero, kNon), 0xFEU) << "a finite double is never NaN toward zero";
  EXPECT_EQ(encode(Format::e8m0, 1e39, kUp, kNon), 0xFFU);
  EXPECT_EQ(encode(Format::e8m0, 1e-46, kUp, kNon), 0x00U);
}

TEST(Codec, rounds_e8m0_ties_up_as_pytorch_does) {
  for (const Rounding rounding : {kEven, kAway}) {
    EXPECT_EQ(encode(Format::e8m0, 1.5, rounding, kSat), 128U);
    EXPECT_EQ(encode(Format::e8m0, 3.0, rounding, kSat), 129U);
    EXPECT_EQ(encode(Format::e8m0, 6.0, rounding, kSat), 130U);
    EXPECT_EQ(encode(Format::e8m0, 0x1.7ffffep0, rounding, kSat), 127U);
    EXPECT_EQ(encode(Format::e8m0, 0x1.8p127, rounding, kSat), 254U);
    EXPECT_EQ(encode(Format::e8m0, 0x1.8p127, rounding, kNon), 255U);
  }
}

TEST(Codec, decodes_every_code_to_its_exact_value) {
  for (const Format format : kAllFormats) {
    if (format == Format::fp32) continue;
    for (std::uint32_t code = 0; code < 1U << spec(format).bits; ++code) {
      const double decoded = decode(format, code);
      const auto exact = oracle::value(format, code);
      ASSERT_EQ(exact.has_value(), std::isfinite(decoded)) << spec(format).name << " code " << code;
      if (!exact) continue;
      ASSERT_EQ(exact->units, oracle::units(decoded)) << spec(format).name << " code " << code;
      ASSERT_EQ(exact->negative, std::signbit(decoded)) << spec(format).name << " code " << code;
    }
  }
}

TEST(Codec, decodes_infinities_with_their_sign_and_nothing_else_as_infinite) {
  for (const Format format : kAllFormats) {
    if (format == Format::fp32) continue;
    int infinities = 0;
    for (std::uint32_t code = 0; code < 1U << spec(format).bits; ++code) {
      if (!std::isinf(decode(format, code))) continue;
      ++infinities;
      EXPECT_EQ(std::signbit(decode(format, code)), code >> (spec(format).bits - 1) != 0);
    }
    EXPECT_EQ(infinities, spec(format).encoding == Encoding::ieee ? 2 : 0) << spec(format).name;
  }
}

TEST(Codec, encoding_a_codes_own_value_gives_the_code_back_in_every_mode) {
  for (const Format format : kAllFormats) {
    if (format == Format::fp32) continue;
    for (const Mode& mode : all_modes()) {
      for (std::uint32_t code = 0; code < 1U << spec(format).bits; ++code) {
        const double v = decode(format, code);
        std::uint32_t expected = std::isnan(v) ? spec(format).nan_code : code;
        if (format == Format::mxint8 && code == 0x80) expected = 0x81;
        if (std::isinf(v) && mode.overflow == kSat) expected = code - 1;
        ASSERT_EQ(encode(format, v, mode.rounding, mode.overflow, mode.word), expected) << describe(format, v, mode);
      }
    }
  }
}

void compare_on_sixteen_bit_inputs(Format format, const Mode& mode) {
  const oracle::FloatEncoder expected(format, mode.rounding, mode.overflow, mode.word);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    for (const double x : {static_cast<double>(as_float(bits << 16)), fp16_value(bits)}) {
      const std::uint32_t pattern = std::bit_cast<std::uint32_t>(static_cast<float>(x));
      ASSERT_EQ(encode(format, x, mode.rounding, mode.overflow, mode.word), expected(pattern))
          << describe(format, x, mode);
    }
  }
}

TEST(Codec, encodes_all_bf16_and_fp16_values_as_the_oracle_does) {
  for (const Format format : kNarrowFormats) {
    for (const Mode& mode : all_modes()) compare_on_sixteen_bit_inputs(format, mode);
  }
  for (const Format format : kWideFormats) {
    for (const Rounding rounding : {kEven, kAway, kZero, kUp})
      compare_on_sixteen_bit_inputs(format, {rounding, rounding == kEven ? kSat : kNon});
  }
}

// A double, its neighbours, and the neighbours of the nearest float.
std::vector<double> around(double x) {
  const float f = static_cast<float>(x);
  constexpr float kFar = std::numeric_limits<float>::infinity();
  return {x, std::nextafter(x, kInfinity), std::nextafter(x, -kInfinity), std::nextafter(f, kFar),
          std::nextafter(f, -kFar)};
}

void compare_around(Format format, double x, const std::vector<Mode>& modes) {
  for (const double near : around(x)) {
    for (const double signed_x : {near, -near}) {
      for (const Mode& mode : modes)
        ASSERT_EQ(encode(format, signed_x, mode.rounding, mode.overflow, mode.word),
                  oracle::encode(format, signed_x, mode.rounding, mode.overflow, mode.word))
            << describe(format, signed_x, mode);
    }
  }
}

// The value of magnitude code m, where m may be one past the largest: the next value, were there one.
double value_of(Format format, std::uint32_t m) {
  const FormatSpec& f = spec(format);
  if (m <= f.max_code) return decode(format, m);
  return 2 * decode(format, f.max_code) - decode(format, f.max_code - 1);
}

TEST(Codec, encodes_every_value_and_every_midpoint_and_their_neighbours_as_the_oracle_does) {
  for (const Format format : kNarrowFormats) {
    for (std::uint32_t m = 0; m <= spec(format).max_code; m += format == Format::e5m6 ? 5 : 1) {
      compare_around(format, value_of(format, m), all_modes());
      compare_around(format, (value_of(format, m) + value_of(format, m + 1)) / 2, all_modes());
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Codec, encodes_midpoints_of_the_wide_formats_as_the_oracle_does) {
  const std::vector<Mode> modes{
      {kEven, kNon}, {kAway, kSat}, {kZero, kNon}, {kUp, kNon}, {Rounding::stochastic, kNon, 0x80000000}};
  for (const Format format : {Format::bf16, Format::fp16, Format::fp32}) {
    const std::uint32_t max_code = spec(format).max_code;
    std::vector<std::uint32_t> codes{0, 1, 2, max_code - 1, max_code};
    for (std::uint32_t m = 3; m < max_code - 1; m += 1 + max_code / 800) codes.push_back(m);
    for (const std::uint32_t m : codes) {
      compare_around(format, (value_of(format, m) + value_of(format, m + 1)) / 2, modes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Codec, rounds_doubles_to_fp32_as_the_processor_does) {
  std::uint64_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t exponent = 1023 - 155 + (state >> 40) % 290;  // from below the subnormals to above the largest
    const double x = std::bit_cast<double>((state & 0x800FFFFFFFFFFFFF) | exponent << 52);
    ASSERT_EQ(encode(Format::fp32, x, kEven, kNon), std::bit_cast<std::uint32_t>(static_cast<float>(x)))
        << describe(Format::fp32, x, {kEven, kNon});
  }
}

TEST(Codec, stochastic_rounding_rounds_up_for_exactly_the_fractions_share_of_the_words) {
  struct Case {
    Format format;
    double value;
    std::uint64_t words;  // of 2^32, those that round away from zero
  };
  const Case cases[] = {
      {Format::e4m3, 1.0, 0},
      {Format::e4m3, 1.0625, 0x80000000},     // half a step above 1
      {Format::e4m3, 1.03125, 0x40000000},    // a quarter
      {Format::e4m3, 1.1171875, 0xF0000000},  // 15/16
      {Format::e4m3, 0x1.00000002p0, 0x10},   // 2^-31 of 2^-3: 2^-28 of a step
      {Format::e4m3, 1 + 0x1p-35, 0x1},       // 2^-32 of a step: the last bit that counts
      {Format::e4m3, 1 + 0x1p-36, 0x0},       // below it: never
      {Format::e4m3, 0x1p-10, 0x80000000},    // between zero and the smallest subnormal
      {Format::e4m3, 0x1p-41, 0x1},
      {Format::e4m3, 0x1p-60, 0x0},
      {Format::e4m3, 456, 0x40000000},  // towards 480, which is beyond the largest
      {Format::e5m2, 1.125, 0x80000000},
      {Format::e2m1, 5.5, 0xC0000000},
      {Format::bf16, 1 + 0x1p-8, 0x80000000},
      {Format::e8m0, 1.25, 0x40000000},
      {Format::mxint8, 0x1.8p-6, 0x80000000},
      {Format::e5m6, 0x1.8p-21, 0xC0000000},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(oracle::words_that_round_up(c.format, c.value), c.words) << describe(c.format, c.value, {kEven, kSat});
    const std::uint32_t down = encode(c.format, c.value, kZero, kNon);
    const std::uint32_t up = down + 1;
    const auto code = [&](std::uint64_t word) {
      return encode(c.format, c.value, Rounding::stochastic, kNon, static_cast<std::uint32_t>(word));
    };
    constexpr std::uint64_t kWords = std::uint64_t{1} << 32;
    EXPECT_EQ(code(0), down) << describe(c.format, c.value, {kEven, kSat});
    EXPECT_EQ(code(kWords - 1), c.words == 0 ? down : up);
    if (c.words != 0) {  // the words are sorted: the count is where the answer changes
      EXPECT_EQ(code(kWords - c.words), up) << describe(c.format, c.value, {kEven, kSat});
      EXPECT_EQ(code(kWords - c.words - 1), down) << describe(c.format, c.value, {kEven, kSat});
    }
  }
}

TEST(Codec, stochastic_rounding_of_a_short_fraction_is_counted_over_all_high_words) {
  int ups = 0;  // 1 + 3/64 is 3/8 of a step; the words' top byte decides alone
  for (std::uint32_t top = 0; top < 256; ++top)
    ups += encode(Format::e4m3, 1.046875, Rounding::stochastic, kSat, top << 24) == 0x39 ? 1 : 0;
  EXPECT_EQ(ups, 96);
}

TEST(Codec, typed_and_untyped_encoders_agree) {
  EXPECT_EQ(encode<E4m3>(449.0, kEven, kSat), E4m3{{0x7E}});
  EXPECT_EQ(encode<Fp16>(1.0, kEven, kSat), Fp16{{0x3C00}});
  EXPECT_EQ(encode<E2m3>(-7.5, kEven, kSat), E2m3{{0x3F}});
  EXPECT_EQ(decode(E3m2{{0x1F}}), 28.0);
}

TEST(Format, every_format_is_found_by_both_of_its_names) {
  for (const Format format : kAllFormats) {
    EXPECT_EQ(find_format(spec(format).name), format) << spec(format).name;
    EXPECT_EQ(find_format(spec(format).dtype_name), format) << spec(format).dtype_name;
  }
  EXPECT_EQ(find_format("float8_e4m3fn"), Format::e4m3);
}

TEST(Format, names_are_distinct) {
  std::set<std::string_view> names;
  for (const Format format : kAllFormats) names.insert(spec(format).name);
  EXPECT_EQ(names.size(), kAllFormats.size());
}

TEST(Format, unknown_names_are_no_format) {
  for (const char* name : {"", "E4M3", "e4m3 ", "e4m3fnuz", "float8_e4m3"})
    EXPECT_EQ(find_format(name), std::nullopt) << name;
}

TEST(Format, lists_keep_the_order_of_the_table) {
  const auto names = [](const auto& formats) { return join(formats, ", ", [](Format f) { return spec(f).name; }); };
  EXPECT_EQ(names(kElementFormats), "e4m3, e5m2, e2m1, e2m3, e3m2, mxint8");
  EXPECT_EQ(names(kQuantizedFormats), "e4m3, e5m2, e2m1, e2m3, e3m2, mxint8, e5m6");
  EXPECT_EQ(names(kValueFormats), "bf16, fp32, fp16");
}

TEST(Format, fields_fill_the_width) {
  for (const Format format : kAllFormats) {
    const FormatSpec& f = spec(format);
    const bool has_sign = f.encoding != Encoding::power_of_two;
    const int integer_bits = f.encoding == Encoding::fixed_point ? 1 : 0;
    EXPECT_EQ((has_sign ? 1 : 0) + f.exponent_bits + integer_bits + f.mantissa_bits, f.bits) << f.name;
  }
}

TEST(Format, types_hold_their_bits_in_the_smallest_integer) {
  static_assert(sizeof(E4m3) == 1 && sizeof(E8m0) == 1 && sizeof(E2m1) == 1 && sizeof(E5m6) == 2 && sizeof(Bf16) == 2);
  EXPECT_EQ(E5m6::format, Format::e5m6);
  EXPECT_NE(E4m3{{1}}, E4m3{{2}});
}

using Bytes = std::vector<std::uint8_t>;
using Codes = std::vector<std::uint16_t>;
using Words = std::vector<std::uint32_t>;

TEST(Packing, e2m1_puts_the_first_code_in_the_low_nibble) {
  EXPECT_EQ(pack_e2m1(Bytes{0x1, 0x2, 0xF, 0x0}), (Bytes{0x21, 0x0F}));
  EXPECT_EQ(unpack_e2m1(Bytes{0x21, 0x0F}, 4), (Bytes{0x1, 0x2, 0xF, 0x0}));
}

TEST(Packing, e2m1_fills_an_odd_end_with_zero) {
  EXPECT_EQ(pack_e2m1(Bytes{0x7, 0x8, 0x9}), (Bytes{0x87, 0x09}));
  EXPECT_EQ(unpack_e2m1(Bytes{0x87, 0x09}, 3), (Bytes{0x7, 0x8, 0x9}));
  EXPECT_EQ(pack_e2m1(Bytes{}), Bytes{});
  EXPECT_EQ(unpack_e2m1(Bytes{}, 0), Bytes{});
}

TEST(Packing, e2m1_rows_of_odd_length_end_with_a_nibble_that_counts_for_nothing) {
  using std::byte;
  const Bytes codes{1, 2, 3, 0xA, 0xB, 0xC};
  EXPECT_EQ(packed_rows(codes, 3), (std::vector<byte>{byte{0x21}, byte{0x03}, byte{0xBA}, byte{0x0C}}));
  EXPECT_EQ(packed_rows(codes, 2), (std::vector<byte>{byte{0x21}, byte{0xA3}, byte{0xCB}}));
  EXPECT_EQ(unpacked_rows(std::vector<byte>{byte{0x21}, byte{0xF3}}, 3), (Bytes{1, 2, 3}));
  for (const std::int64_t cols : {1, 2, 3, 6}) EXPECT_EQ(unpacked_rows(packed_rows(codes, cols), cols), codes) << cols;
  EXPECT_TRUE(packed_rows({}, 0).empty());
}

TEST(Packing, e2m1_unpacks_every_byte_to_what_packs_to_it) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const Bytes packed{static_cast<std::uint8_t>(byte)};
    EXPECT_EQ(unpack_e2m1(packed, 2),
              (Bytes{static_cast<std::uint8_t>(byte & 15), static_cast<std::uint8_t>(byte >> 4)}));
    EXPECT_EQ(pack_e2m1(unpack_e2m1(packed, 2)), packed);
  }
}

TEST(Packing, e5m6_runs_from_the_high_end_of_the_first_word) {
  // Written as hexadecimal digits, the codes follow one another: three digits a code, eight digits a word.
  EXPECT_EQ(pack_e5m6(Codes{0x123, 0x456, 0x789, 0xABC, 0xDEF, 0x012, 0x345, 0x678}),
            (Words{0x12345678, 0x9ABCDEF0, 0x12345678}));
}

TEST(Packing, e5m6_places_each_code_alone) {
  const Words expected[8] = {{0xFFF00000, 0, 0}, {0x000FFF00, 0, 0}, {0x000000FF, 0xF0000000, 0},
                             {0, 0x0FFF0000, 0}, {0, 0x0000FFF0, 0}, {0, 0x0000000F, 0xFF000000},
                             {0, 0, 0x00FFF000}, {0, 0, 0x00000FFF}};
  for (std::size_t i = 0; i < 8; ++i) {
    Codes codes(8);
    codes[i] = 0xFFF;
    EXPECT_EQ(pack_e5m6(codes), expected[i]) << i;
    EXPECT_EQ(unpack_e5m6(expected[i]), codes) << i;
  }
}

TEST(Packing, e5m6_unpacks_what_it_packs) {
  Codes codes;
  for (unsigned code = 0; code < 0x1000; ++code) codes.push_back(static_cast<std::uint16_t>(code * 2731 & 0xFFF));
  EXPECT_EQ(pack_e5m6(codes).size(), codes.size() * 3 / 8);
  EXPECT_EQ(unpack_e5m6(pack_e5m6(codes)), codes);
  EXPECT_EQ(pack_e5m6(Codes{}), Words{});
  EXPECT_EQ(unpack_e5m6(Words{}), Codes{});
}

TEST(Packing, refuses_codes_that_are_too_wide) {
  EXPECT_EQ(text_thrown(ErrorKind::input,
                        [] {
                          pack_e2m1(Bytes{1, 16});
                        }),
            "code 16 at index 1 is no e2m1 code; the largest is 15");
  EXPECT_EQ(text_thrown(ErrorKind::input,
                        [] {
                          pack_e5m6(Codes{0, 0, 0, 0, 0, 0, 0, 0x1000});
                        }),
            "code 4096 at index 7 is no e5m6 code; the largest is 4095");
}

TEST(Packing, refuses_counts_that_do_not_fit) {
  EXPECT_EQ(text_thrown(ErrorKind::usage, [] { pack_e5m6(Codes(7)); }),
            "7 e5m6 codes do not fill groups: the count must be a multiple of 8");
  EXPECT_EQ(text_thrown(ErrorKind::usage, [] { unpack_e5m6(Words(4)); }),
            "4 e5m6 words do not fill groups: the count must be a multiple of 3");
  EXPECT_EQ(text_thrown(ErrorKind::usage, [] { unpack_e2m1(Bytes(2), 5); }), "5 e2m1 codes take 3 bytes, not 2");
  EXPECT_EQ(text_thrown(ErrorKind::input, [] { unpack_e2m1(Bytes{0x10}, 1); }),
            "the unused high nibble of the last byte of 1 e2m1 codes is not zero");
}

}  // namespace
}  // namespace mxcheck
