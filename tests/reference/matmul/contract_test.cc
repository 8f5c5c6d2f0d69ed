// A contract's text: parse_matmul_contract and to_text.

#include "reference/matmul/matmul.h"
#include "reference/matmul/operand.h"
#include "tests/reference/matmul/test_matmul.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(MatmulContract, is_read_and_written) {
  for (const char* text : {"exact", "sm90_fp8+promote128", "sm90_fp8+promote64+a_first", "sm90_bf16+decode",
                           "sm90_bf16+from_c", "sm90_fp8+promote128+b_first+descending"}) {
    EXPECT_EQ(to_text(parse_matmul_contract(text)), text);
  }
  for (const char* text :
       {"", "sm90", "sm90_fp8+", "sm90_fp8+promote", "sm90_fp8+promote0", "sm90_fp8+promote33", "sm90_fp8+promote-1",
        "sm90_fp8+promotex", "exact+promote32", "sm90_fp8+a_first", "sm90_fp8+decode", "sm90_fp8+promote128+from_c",
        "sm100_mxf8f6f4+promote32", "exact+descending", "sm90_fp8+fast", "sm90_fp8_fp16+promote32"}) {
    EXPECT_THROW((void)parse_matmul_contract(text), Error) << text;
  }
}

TEST(MatmulContract, has_the_fields_that_its_text_says) {
  const MatmulContract c = parse_matmul_contract("sm90_fp8+descending+promote64+b_first");
  EXPECT_EQ(c.sum, &contract_named("sm90_fp8"));
  EXPECT_EQ(c.promotion, 64);
  EXPECT_EQ(c.order, MatmulContract::Order::b_first);
  EXPECT_TRUE(c.descending && !c.decodes && !c.from_c);
  EXPECT_EQ(to_text(c), "sm90_fp8+promote64+b_first+descending");
  const MatmulContract d = parse_matmul_contract("exact+from_c+decode");
  EXPECT_TRUE(d.decodes && d.from_c && !d.descending);
  EXPECT_EQ(d.promotion, 0);
}

TEST(MatmulContract, says_what_is_wrong_with_a_text) {
  const auto text = [](const char* contract) {
    try {
      (void)parse_matmul_contract(contract);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text("sm90_fp8+promote33"),
            "contract 'sm90_fp8+promote33': the interval must be a multiple of a step, which is 32");
  EXPECT_EQ(text("sm90_fp8+fast"),
            "contract 'sm90_fp8+fast': 'fast' is none of promoteN, a_first, b_first, decode, from_c, descending");
  EXPECT_EQ(text("sm91").substr(0, 41), "unknown contract 'sm91'; known are exact,");
}

TEST(MatmulChecks, what_does_not_fit_is_refused_before_anything_is_written) {
  const auto refused = [](auto change) {
    Owned o;
    fill(o, "sm90_fp8+promote128", {6, 8, 256, 2}, {1, 128}, {128, 128}, Format::e8m0, 14);
    o.offsets = {0, 2, 6};
    change(o);
    std::vector<float> d(96, -77);
    EXPECT_THROW(matmul(o.m, d.data()), Error);
    for (float x : d) EXPECT_EQ(x, -77);
  };
  refused([](Owned& o) { o.m.contract = {}; });
  refused([](Owned& o) { o.m.b.depth = 128; });
  refused([](Owned& o) { o.m.a.rows = -1; });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8+promote256"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_bf16"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm100_mxf8f6f4"); });
  refused([](Owned& o) { o.m.a.format = Format::bf16; });
  refused([](Owned& o) { o.m.a.scale_format = Format::bf16; });
  refused([](Owned& o) { o.m.a.block = {1, -128}; });
  refused([](Owned& o) { o.m.output = Format::e4m3; });
  refused([](Owned& o) { o.m.grouping = Grouping::rows; });
  refused([](Owned& o) { o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {0, 7, 6}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {1, 6}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {0, 128}, o.m.grouping = Grouping::depth, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.index = {0, 6}, o.m.gathers = true, o.m.row_index = o.index; });
  refused([](Owned& o) { o.m.contract.from_c = true; });
}

TEST(MatmulChecks, say_what_would_fit) {
  const auto text = [](auto change) {
    Owned o;
    fill(o, "sm90_fp8+promote128", {6, 8, 256}, {1, 128}, {128, 128}, Format::e8m0, 16);
    EXPECT_NO_THROW(check_matmul(o.m));
    change(o);
    try {
      check_matmul(o.m);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text([](Owned& o) { o.m.b.depth = 128; }), "K differs: operand a has 256, operand b 128");
  EXPECT_EQ(text([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8"); }),
            "contract sm90_fp8 takes no scales; with +promote128 they enter as each block's sum is added, with +decode "
            "before");
  EXPECT_EQ(text([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8+promote256"); }),
            "contract sm90_fp8+promote256 adds up every 256 of k, but scales of operand a change every 128");
  EXPECT_EQ(text([](Owned& o) { o.m.a.scale_format = Format::bf16; }),
            "scales of operand a are bf16: contract sm90_fp8+promote128 takes e8m0 or fp32");
  EXPECT_EQ(text([](Owned& o) {
              o.index = {0, 6}, o.m.gathers = true, o.m.row_index = o.index;
            }),
            "row index 6 of operand a, which has 6 rows");
  EXPECT_EQ(text([](Owned& o) {
              o.offsets = {0, 4, 2}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
            }),
            "offsets of groups begin with 0 and end with the number of rows, which is 6");
}

// explain_output: one output of a matmul with each of its steps as a line.

TEST(Explain, an_explained_output_is_the_output) {
  for (const char* contract :
       {"sm90_fp8+promote128", "sm90_fp8+promote32+descending", "exact", "ieee_fp32", "sm90_bf16+decode"}) {
    Owned o;
    const std::int64_t block = std::string(contract).find("128") != std::string::npos ? 128 : 32;
    fill(o, contract, {6, 9, 200}, {1, block}, {1, block}, Format::e8m0, 12);
    o.c.assign(54, 0.25F), o.m.c = o.c.data();
    const std::vector<float> d = run(o.m);
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 9; ++j) {
        const ExplainedOutput e = explain_output(o.m, 0, i, j);
        EXPECT_EQ(e.word, std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>(i * 9 + j)])) << contract;
        EXPECT_GE(e.lines.size(), 3U);
      }
    }
    EXPECT_THROW((void)explain_output(o.m, 0, 6, 0), Error);
    EXPECT_THROW((void)explain_output(o.m, 1, 0, 0), Error);
  }
}

TEST(Explain, finds_the_expert_of_a_row_and_of_a_depth_group) {
  for (const Grouping grouping : {Grouping::rows, Grouping::depth}) {
    Owned o;
    fill(o, "sm90_fp8", {6, 5, 64, 3}, {0, 0}, {0, 0}, Format::e8m0, 15);
    o.offsets =
        grouping == Grouping::rows ? std::vector<std::int64_t>{0, 2, 2, 6} : std::vector<std::int64_t>{0, 32, 32, 64};
    o.m.grouping = grouping, o.m.offsets = o.offsets;
    const std::vector<float> d = run(o.m);
    for (std::int64_t e = 0; e < (grouping == Grouping::rows ? 1 : 3); ++e) {
      for (std::int64_t i = 0; i < 6; ++i) {
        for (std::int64_t j = 0; j < 5; ++j)
          EXPECT_EQ(explain_output(o.m, e, i, j).word,
                    std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>((e * 6 + i) * 5 + j)]));
      }
    }
  }
}

// 1 * 1 + 2 * 0.5 in one step of 32, then alpha and C: every number is exact.
TEST(Explain, says_each_step_in_words) {
  std::vector<std::uint8_t> a(32), b(32);
  a[0] = b[0] = 0x38, a[1] = 0x40, b[1] = 0x30;
  const float c = 0.25F;
  Matmul m;
  m.contract = parse_matmul_contract("sm90_fp8");
  m.a = {Format::e4m3, a.data(), 1, 32, 32};
  m.b = {Format::e4m3, b.data(), 1, 32, 32};
  m.alpha = 3, m.c = &c;
  const ExplainedOutput e = explain_output(m, 0, 0, 0);
  EXPECT_EQ(e.word, std::bit_cast<std::uint32_t>(6.25F));
  EXPECT_EQ(e.lines, (std::vector<std::string>{
                         "k 0..31: window 2^0, unit 2^-13; 2 terms, 0 cut, 0 lost; 16384 units = 2; sum 40000000 = 2",
                         "times alpha, 3", "plus C, 3e800000 = 0.25", "D as fp32: 40c80000 = 6.25"}));
}

// Exact matmuls of codes with scales, against numerics' accumulate() on each row's exact factors: every format with
// each kind of scale, specials, C before and after the sum, every type of D.

enum class Data { finite, specials, cancelling };

// An operand with what it points to.
struct Codes {
  std::vector<std::byte> codes;
  std::vector<std::uint8_t> bytes;
  std::vector<float> floats;
  MatmulOperand operand;

  void set(std::int64_t at, std::uint32_t code) {
    const std::size_t width = code_width(operand.format);
    std::memcpy(codes.data() + static_cast<std::size_t>(at) * width, &code, width);
  }
};

std::uint32_t draw(Format format, Data data, std::mt19937& random) {
  const FormatSpec& f = spec(format);
  for (;;) {
    const auto code = static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << f.bits) - 1));
    // Seldom, so that most outputs of a row are numbers.
    if (factor(format, code).kind == Factor::Kind::finite || (data == Data::specials && random() % 64 == 0))
      return code;
  }
}

Codes random_codes(Format format, Format scale, BlockShape block, Data data, std::int64_t rows, std::int64_t k,
                   unsigned seed) {
  std::mt19937 random(seed);
  Codes x;
  MatmulOperand& o = x.operand;
  o.format = format, o.rows = rows, o.depth = o.row_stride = k;
  x.codes.resize(static_cast<std::size_t>(rows * k) * code_width(format));
  for (std::int64_t i = 0; i < rows * k; ++i) x.set(i, draw(format, data, random));
  o.codes = x.codes.data();
  o.block = block, o.scale_format = scale, o.scale_row_stride = (k + block.cols - 1) / block.cols;
  for (std::int64_t i = 0; i < o.scale_row_stride * rows; ++i) {
    const bool special = data == Data::specials && random() % 128 == 0;
    const std::uint8_t byte = special ? 255 : static_cast<std::uint8_t>(data == Data::finite ? random() % 255 : 120);
    x.bytes.push_back(byte);
    // FP16's and FP32's codes leave room for powers of two alone; 8 bits by 24 fit in 32.
    const double significand =
        spec(format).mantissa_bits > 7 ? 1 : 1 + static_cast<double>(random() % (1U << 23)) / 0x1p23;
    x.floats.push_back(special ? HUGE_VALF : static_cast<float>(std::ldexp(significand, (byte - 127) / 2)));
  }
  o.scales = scale == Format::fp32 ? static_cast<const void*>(x.floats.data()) : x.bytes.data();
  return x;
}

// Products with a cancel in pairs but for the last.
void cancel(Codes& a, Codes& b) {
  for (Codes* x : {&a, &b}) {
    OperandWindow w;
    w.operand = &x->operand, w.rows = x->operand.rows, w.depth = x->operand.depth;
    const std::uint32_t sign = x == &b ? 1U << (spec(x->operand.format).bits - 1) : 0;
    for (std::int64_t i = 0; i < w.rows; ++i) {
      for (std::int64_t k = 1; k < w.depth; k += 2) x->set(i * w.depth + k, w.code(i, k - 1) ^ sign);
    }
  }
}

std::uint32_t expected(const Matmul& m, std::int64_t i, std::int64_t j) {
  const MatmulPart part = parts_of(m)[0];
  std::uint32_t c = 0;
  const std::size_t width = code_width(m.output);
  if (m.c != nullptr)
    std::memcpy(&c, static_cast<const std::byte*>(m.c) + static_cast<std::size_t>(i * m.b.rows + j) * width, width);
  const bool from_c = m.contract.from_c;
  const std::uint32_t sum =
      accumulate(*m.contract.sum, exact_factors(part.a, i), exact_factors(part.b, j), from_c ? c : 0);
  return finished_word(m, sum, c, m.c != nullptr && !from_c);
}

void expect_equal(const Matmul& m, const std::string& what) {
  const std::size_t width = code_width(m.output);
  std::vector<std::byte> d(static_cast<std::size_t>(m.a.rows * m.b.rows) * width);
  matmul(m, d.data());
  for (std::int64_t i = 0; i < m.a.rows; ++i) {
    for (std::int64_t j = 0; j < m.b.rows; ++j) {
      std::uint32_t word = 0;
      std::memcpy(&word, d.data() + static_cast<std::size_t>(i * m.b.rows + j) * width, width);
      ASSERT_EQ(word, expected(m, i, j)) << what << " row " << i << " column " << j;
    }
  }
}

TEST(ExactScales, equal_the_plain_model_for_every_format_scale_and_c) {
  unsigned seed = 0;
  for (const Format format : contract_named("exact").operands) {
    for (const Format scale : {Format::e8m0, Format::fp32}) {
      for (const Data data : {Data::finite, Data::specials, Data::cancelling}) {
        const std::int64_t k = 255 + ++seed % 5;
        Codes a = random_codes(format, scale, {1, 32}, data, 7, k, seed);
        Codes b = random_codes(format, scale, {1, 32}, data, 35, k, 1000 + seed);
        if (data == Data::cancelling) cancel(a, b);
        std::mt19937 random(seed);
        std::vector<std::uint32_t> c(7 * 35);
        for (std::uint32_t& word : c) word = static_cast<std::uint32_t>(random());
        Matmul m;
        m.a = a.operand, m.b = b.operand, m.threads = 1;
        const std::string what = std::string(spec(format).name) + " " + std::string(spec(scale).name) + " data " +
                                 std::to_string(static_cast<int>(data));
        m.contract = parse_matmul_contract("exact");
        expect_equal(m, what);
        m.output = Format::bf16, m.alpha = 0.75F, m.c = c.data();
        expect_equal(m, what + " plus c");
        m.contract = parse_matmul_contract("exact+from_c");
        m.output = Format::fp32, m.alpha = 1;
        expect_equal(m, what + " from c");
      }
    }
  }
}

TEST(ExactScales, one_operand_may_have_them_alone) {
  const Codes a = random_codes(Format::e4m3, Format::fp32, {1, 128}, Data::finite, 5, 300, 1);
  Codes b = random_codes(Format::bf16, Format::e8m0, {1, 128}, Data::finite, 20, 300, 2);
  b.operand.block = {0, 0};
  Matmul m;
  m.contract = parse_matmul_contract("exact");
  m.a = a.operand, m.b = b.operand;
  expect_equal(m, "a alone");
  std::swap(m.a, m.b);
  expect_equal(m, "b alone");
}

}  // namespace
}  // namespace mxcheck
