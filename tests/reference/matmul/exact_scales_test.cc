// Exact matmuls of codes with scales, against numerics' accumulate() on each row's exact factors: every format with
// each kind of scale, specials, C before and after the sum, every type of D.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "reference/matmul/matmul.h"
#include "reference/matmul/parts.h"

namespace mxcheck {
namespace {

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
